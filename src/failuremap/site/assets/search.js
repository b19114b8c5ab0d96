// Searches the catalogue: ids, words, symptoms, lines of an audit's output. The index is that of failuremap/site/search.py;
// `stem` and `normal` are the same here as there.
"use strict";

const failuremapSearch = (() => {
  const MOST_RESULTS = 12;
  const LEAST_SHARE_OF_WORDS = 1 / 3;
  const LEAST_SHARE_OF_BEST = 0.3;
  const LINE = 1500;
  const NAMED = 3000;
  const TOTAL = 150;
  const REPORT = 4;
  const MOST_REPORTS = 5;
  const FEW = /\b(small|smaller|low|lower|less|tiny|shrinks?|under|too little|divided|1\/\d+)\b/;

  function stem(word) {
    word = word.replace(/iz(e|ed|es|ing|ation)$/, "is$1");
    if (word.length > 4) word = word.replace(/ies$/, "y");
    word = word.replace(/(?<![sui])s$/, "");
    const ending = ["ing", "ed", "e"].find((one) => word.endsWith(one) && word.length - one.length >= 3);
    if (ending) word = word.slice(0, -ending.length);
    return word.replace(/([b-df-hj-np-tv-z])\1$/, "$1");
  }

  function normal(line) {
    return line.toLowerCase()
      .replace(/\b(?:token|example|sequence|element)(s?)\b/g, "unit$1")
      .replace(/(?:\w*[._]\w[\w.]*|[\w.]*\d[\w.]*|−?∞)/g, "#")
      .replace(/[^a-z#]+/g, " ").trim()
      .replace(/#( and # more| #)+/g, "#").replaceAll("an unit", "a unit");
  }

  const own = (table, key) => (Object.hasOwn(table, key) ? table[key] : null);

  /** The stems of a query's words in their order, "" for each that tells nothing. */
  function stems(index, query) {
    const plain = new Set(index.plain);
    return (query.toLowerCase().match(/[a-z]{2,}/g) ?? []).map((word) => (plain.has(word) ? "" : stem(word)));
  }

  /** Which words a query asks for, each with the words of the index that answer it. */
  function asked(index, query) {
    const distinct = [...new Set(stems(index, query))].filter(Boolean);
    return distinct.map((word, place) => answers(index, word, place === distinct.length - 1));
  }

  /** Two words in a row, as they stand in titles and symptoms. */
  function inARow(index, query) {
    const found = stems(index, query.toLowerCase().replace(/\b(?:a|an|by|in|of|on|over|the|to|with)\b/g, ""));
    return found.slice(1).map((word, place) => (word && found[place] ? `${found[place]} ${word}` : ""));
  }

  function answers(index, word, last) {
    const known = [word, own(index.alike, word)].filter((one) => one && own(index.words, one));
    if (known.length || !last || word.length < 3) return known;
    return Object.keys(index.words).filter((one) => one.startsWith(word)).slice(0, 20);
  }

  /** "8x at 8 GPUs": how the factor that was seen goes by the size of the job. */
  function totals(query) {
    const text = query.toLowerCase();
    const numbers = (pattern) => [...text.matchAll(pattern)].flatMap((match) => match.slice(1).filter(Boolean));
    const factors = numbers(/(\d+(?:\.\d+)?)\s*(?:x|×|times|-?fold)(?![a-z])|\b1\/(\d+)\b/g);
    const sizes = {
      ranks: numbers(/(\d+)\s*[- ]?(?:gpus?|ranks?|workers?|nodes?|devices?|replicas?|process(?:es)?)\b|world.?size\D{0,4}(\d+)/g),
      window: numbers(/(\d+)\s*[- ]?(?:micro-?batch(?:es)?|accumulation|steps of accumulation)|accum\w*\D{0,12}(\d+)/g),
    };
    const how = FEW.test(text) ? "over" : "x";
    const said = { ranks: /(by|with|times) (the )?(world.?size|number of (gpus|ranks|workers))/,
      window: /(by|with|times) (the )?(accumulation|number of micro-?batches)/ };
    return ["ranks", "window"].filter((size) => sizes[size].some((one) => factors.includes(one)) || said[size].test(text))
      .map((size) => how + size.replace(/s$/, ""));
  }

  /** Query -> [[page, score], ...], the best first; `jump` is the page that an exact id names. */
  function find(index, query) {
    const exact = query.trim().toLowerCase().replace(/[\s_]+/g, "-");
    const jump = own(index.ids, exact);
    const scores = new Map();
    const add = (page, worth) => scores.set(page, (scores.get(page) ?? 0) + worth);
    scoreWords(index, asked(index, query), add);
    scoreLines(index, query, add);
    for (const pair of inARow(index, query)) for (const [page, worth] of pairs(own(index.words, pair))) add(page, worth);
    for (const word of totals(query)) for (const [page] of pairs(own(index.words, word))) add(page, TOTAL);
    for (const page of scores.keys()) add(page, REPORT * reports(index, page));
    const ranked = [...scores].sort(([, one], [, other]) => other - one);
    const best = ranked.length ? ranked[0][1] : 0;
    const kept = ranked.filter(([, score]) => score >= LEAST_SHARE_OF_BEST * best).slice(0, MOST_RESULTS);
    return { jump, results: kept.map(([page, score]) => ({ page: index.pages[page], score })) };
  }

  const reports = (index, page) => Math.min(index.pages[page][3], MOST_REPORTS);

  function pairs(postings) {
    return Array.from({ length: (postings ?? []).length / 2 }, (_, place) => [postings[2 * place], postings[2 * place + 1]]);
  }

  function scoreWords(index, wanted, add) {
    const known = wanted.filter((answers) => answers.length);
    if (known.length < LEAST_SHARE_OF_WORDS * wanted.length) return;
    for (const answers of known) {
      const best = new Map();
      for (const [place, word] of answers.entries()) {
        for (const [page, worth] of pairs(own(index.words, word))) {
          best.set(page, Math.max(best.get(page) ?? 0, place ? 0.6 * worth : worth));
        }
      }
      for (const [page, worth] of best) add(page, worth);
    }
  }

  function scoreLines(index, query, add) {
    for (const word of query.toLowerCase().match(/[a-z]+(?:-[a-z0-9]+)+/g) ?? []) {
      const page = own(index.ids, word);
      const place = index.pages.findIndex(([, path]) => path === page);
      if (place >= 0) add(place, NAMED);
    }
    const text = normal(query);
    for (const [line, pages] of Object.entries(index.lines)) {
      if (text.includes(line)) for (const page of pages) add(page, LINE + 10 * line.length + 50 * reports(index, page));
    }
  }

  return { stem, normal, totals, find };
})();

if (typeof module !== "undefined") module.exports = failuremapSearch;
