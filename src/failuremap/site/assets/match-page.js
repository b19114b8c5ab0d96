// The form of the page that asks what was seen: it reads the answers and shows the mechanisms that leave exactly them.
"use strict";

(() => {
  const NOTHING_WRONG = "Nothing wrong here that this can see: the weights are those of the promised rule.";
  const NO_ANSWER = "Answer what you know; what fits is shown here.";
  const NO_NAME = "Nothing on these pages leaves exactly this. An audit of the job says more.";

  const form = document.getElementById("match");
  const answer = document.getElementById("answer");

  const number = (name) => Number(form.elements[name].value);
  const cells = (kind) => [...form.querySelectorAll(`input[data-${kind}]`)];

  function element(name, content, attributes = {}) {
    const made = document.createElement(name);
    made.append(...[content].flat());
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  /** A row for each rank, and in it a count and a weight for each micro-batch; what was typed stays. */
  function drawTable() {
    const [ranks, window] = ["ranks", "window"].map((name) => Math.min(8, Math.max(1, number(name) || 1)));
    const typed = new Map([...cells("count"), ...cells("weight")].map((input) => [input.ariaLabel, input.value]));
    const rows = Array.from({ length: ranks }, (_, rank) => element("tr", [
      element("th", `rank ${rank}`, { scope: "row" }),
      ...Array.from({ length: window }, (_, batch) => element("td", ["count", "weight"].map((kind) => {
        const label = `${kind} of rank ${rank}, micro-batch ${batch}`;
        const input = element("input", [], { type: "number", step: "any", "aria-label": label, [`data-${kind}`]: "" });
        if (kind === "count") input.min = "0";
        input.value = typed.get(label) ?? "";
        return element("label", [kind, input]);
      }))),
    ]));
    const heads = Array.from({ length: window }, (_, batch) => element("th", `micro-batch ${batch}`, { scope: "col" }));
    form.querySelector("thead tr").replaceChildren(element("th", "Rank", { scope: "col" }), ...heads);
    form.querySelector("tbody").replaceChildren(...rows);
  }

  /** Why the numbers that were typed in are not used; "" where they are, and where there are none. */
  function problem() {
    const inputs = [...cells("count"), ...cells("weight")];
    const empty = inputs.filter((input) => input.value === "");
    const negative = cells("count").find((input) => input.value < 0);
    const [ranks, window] = ["tr", "tr:first-child td"].map((of) => form.querySelectorAll(`tbody ${of}`).length);
    if (empty.length === inputs.length) return "";
    if (negative) return `The ${negative.ariaLabel} is ${negative.value}: expected 0 or more.`;
    if (empty.length) return `The ${empty[0].ariaLabel} is missing.`;
    if (!(number("observer") >= 0 && number("observer") < ranks)) return `There is no rank ${number("observer")}.`;
    return number("full") && number("full") < window ? "A full window has no fewer micro-batches than this one." : "";
  }

  /** The layout and the weights that were typed in, or null where they are not used. */
  function measurements() {
    const [counts, weights] = ["count", "weight"].map((kind) => cells(kind).map((input) => input.value));
    if (problem() || counts.includes("")) return null;
    const window = form.querySelectorAll("tbody tr:first-child td").length;
    const rows = Array.from({ length: counts.length / window }, (_, rank) =>
      counts.slice(rank * window, (rank + 1) * window).map(Number));
    const layout = { counts: rows, observer: number("observer"), fullWindow: number("full") };
    return { layout, weights: weights.map(Number) };
  }

  /** What was typed in as weights of mean gradients: a unit's share times the units, over those that share. */
  function ofMeans({ layout, weights }, kind, promise) {
    if (kind === "coefficient") return weights;
    const counts = layout.counts.flat();
    const total = promise === "sum" ? 1 : counts.reduce((sum, count) => sum + count, 0);
    return weights.map((weight, index) => (weight * counts[index]) / total);
  }

  /** [[how it is known, names of rules], ...]: several where only ratios are known, none without numbers. */
  function followed(seen, kind, promise) {
    const parts = failuremapMatch.contributions(seen.layout);
    const measured = ofMeans(seen, kind, promise);
    if (kind !== "ratio") return [["", failuremapMatch.rulesOf(failuremapTable, parts, measured)]];
    return failuremapMatch.rulesByTotal(failuremapTable, parts, measured).map(([total, rules]) =>
      [`if all weights together are ${Number(total.toPrecision(4))}`, rules]);
  }

  function told(found, because) {
    return found.map(({ entry, rules }) => {
      const link = document.querySelector(`main a[href$="/${entry.slug}/index.html"]`);
      const item = element("li", link.cloneNode(true));
      const title = failuremapTable.rules.find(([name]) => rules.has(name));
      const reasons = [because, title && `the update is the ${title[1]}`].filter(Boolean);
      if (reasons.length) item.append(` (${reasons.join("; ")})`);
      return item;
    });
  }

  function unnamed(ways, promise) {
    const rules = ways.flatMap(([, names]) => names);
    if (rules.includes(failuremapMatch.PROMISED[promise])) return NOTHING_WRONG;
    const title = failuremapTable.rules.find(([name]) => rules.includes(name));
    return title ? `The update is the ${title[1]}. ${NO_NAME}` : NO_NAME;
  }

  function show() {
    const [kind, promise] = ["kind", "promise"].map((name) => form.elements[name].value);
    const signs = [...form.querySelectorAll("[name=sign]:checked")].map((box) => box.value);
    const seen = measurements();
    const unused = problem() && element("p", `${problem()} The numbers are not used.`);
    if (!seen && !signs.length) return answer.replaceChildren(unused || NO_ANSWER);
    const ways = seen ? followed(seen, kind, promise) : [];
    const shape = seen ? failuremapMatch.shapeSigns(seen.layout, seen.weights) : [];
    const items = (ways.length ? ways : [["", []]]).flatMap(([because, rules]) =>
      told(failuremapMatch.recognise(failuremapTable, rules, [...signs, ...shape], promise), because));
    return answer.replaceChildren(unused, items.length ? element("ul", items) : unnamed(ways, promise));
  }

  form.addEventListener("input", (event) => {
    if (["ranks", "window"].includes(event.target.name)) drawTable();
    show();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  document.querySelector(".answer").hidden = false;
  drawTable();
  show();
})();
