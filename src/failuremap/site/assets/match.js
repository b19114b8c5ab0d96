// Does this match what you see? Numbers and signs -> the rules that give them -> the mechanisms that leave them.
// The tables are made from the rules and the mechanisms themselves (failuremap/site/matching.py); here is only how they
// are read, as failuremap.rules.match and failuremap.catalogue.recognise read them.
"use strict";

const failuremapMatch = (() => {
  const TOLERANCE = 0.01;
  const SUMS = new Set(["sum", "unit_sum"]);
  const PROMISED = { mean: "weighted_mean", sum: "unit_sum" };
  const SUM_OVER = { window: "sum_over_ranks_mean_over_window", ranks: "mean_over_ranks_sum_over_window" };

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const subset = (few, many) => [...few].every((one) => many.has(one));
  const meet = (few, many) => [...few].some((one) => many.has(one));

  /** counts[rank][microBatch] -> what a rule's powers need of each contribution, ranks first. */
  function contributions({ counts, observer = 0, fullWindow = 0 }) {
    const window = counts[0].length;
    const total = sum(counts.flat());
    const batchTotals = counts[0].map((_, batch) => sum(counts.map((row) => row[batch])));
    return counts.flatMap((row, rank) => row.map((count, batch) => ({
      count, rank, batch,
      values: [count, total, counts.length, window, fullWindow || window, sum(row), batchTotals[batch],
        counts.length ** (window - 1 - batch)],
      held: ["all", batch === 0 && "first micro-batch", batch === window - 1 && "last micro-batch",
        rank === 0 && "first rank", rank === observer && "own rank"],
    })));
  }

  /** The weight of each contribution's mean gradient under one rule. */
  function weights([, , powers, holds], parts) {
    return parts.map((part) => {
      if (!part.held.includes(holds) || (powers[0] && !part.count)) return 0;
      return powers.reduce((product, power, letter) => product * (power ? part.values[letter] ** power : 1), 1);
    });
  }

  function close(measured, exact, tolerance) {
    const largest = Math.max(...exact.map(Math.abs));
    return measured.every((seen, index) => Math.abs(seen - exact[index]) <= tolerance * largest);
  }

  /** Names of the rules whose weights the measured ones equal. */
  function rulesOf(table, parts, measured, tolerance = TOLERANCE) {
    return table.rules.filter((rule) => close(measured, weights(rule, parts), tolerance)).map(([name]) => name);
  }

  /** The same where only ratios are known: [[total weight, names of rules], ...], one for each total. */
  function rulesByTotal(table, parts, ratios, tolerance = TOLERANCE) {
    const found = new Map();
    for (const rule of table.rules) {
      const exact = weights(rule, parts);
      const total = sum(exact);
      const scaled = ratios.map((ratio) => (ratio * total) / sum(ratios));
      if (!close(scaled, exact, tolerance)) continue;
      const known = [...found.keys()].find((one) => Math.abs(one - total) < 1e-9 * Math.abs(total));
      found.set(known ?? total, [...(found.get(known) ?? []), rule[0]]);
    }
    return [...found];
  }

  /** What the counts and the weights show by themselves. */
  function shapeSigns({ counts, fullWindow = 0 }, measured = []) {
    const window = counts[0].length;
    const columns = counts[0].map((_, batch) => counts.map((row) => row[batch]));
    const uneven = (values) => Math.max(...values) - Math.min(...values) > 1e-9 * Math.max(...values);
    const gone = measured.map((weight) => Math.abs(weight) <= 1e-3 * Math.max(...measured.map(Math.abs)));
    const missing = (cells) => measured.length > 0 && cells.every((cell) => gone[cell]);
    const ranks = counts.map((row, rank) => missing(row.map((_, batch) => rank * window + batch)));
    const batches = columns.map((column, batch) => missing(column.map((_, rank) => rank * window + batch)));
    const seen = {
      "single-rank": counts.length === 1,
      "single-micro-batch": window === 1,
      "short-window": window < fullWindow,
      "unequal-counts-across-ranks": uneven(counts.map(sum)) || columns.some(uneven),
      "unequal-counts-across-micro-batches": uneven(columns.map(sum)) || counts.some(uneven),
      "empty-contribution": counts.flat().includes(0),
      ...missingSigns(ranks, batches),
    };
    return Object.keys(seen).filter((sign) => seen[sign]);
  }

  function missingSigns(ranks, batches) {
    if (!ranks.includes(false)) return {};
    const alone = (gone, kept) => gone.length > 1 && gone.every((is, index) => is === (index !== kept));
    if (ranks.includes(true)) {
      const first = alone(ranks, 0);
      return { "first-rank-only": first, "rank-missing": !first || ranks.length === 2 };
    }
    const [first, last] = [alone(batches, 0), alone(batches, batches.length - 1)];
    const some = batches.includes(true);
    return { "first-micro-batch-only": first, "last-micro-batch-only": last,
      "micro-batch-missing": some && !first && !last };
  }

  /** Names of rules and signs -> the mechanisms that leave exactly this, as failuremap.catalogue.recognise says. */
  function recognise(table, followedRules, signs, promise = "mean") {
    const followed = new Set(followedRules);
    const seen = new Set([...signs, ...implied(followed)]);
    const candidates = table.mechanisms.map((entry) => fit(entry, followed, seen, promise)).filter(Boolean);
    const says = (one, other) => one.signs.size < other.signs.size && subset(one.signs, other.signs)
      && subset(one.rules, other.rules);
    return candidates.filter((one) => !candidates.some((other) => says(one, other)));
  }

  function fit(entry, followed, seen, promise) {
    const rules = accusing(entry, followed, promise);
    if (!(rules.size || entry.alone) || meet(entry.never, seen)) return null;
    const met = entry.signs.filter((alternative) => subset(alternative, seen));
    if (!met.length) return null;
    const most = met.reduce((best, one) => (one.length > best.length ? one : best));
    return { entry, rules, signs: new Set(most) };
  }

  function accusing(entry, followed, promise) {
    const same = SUMS.has(entry.promised) === (promise === "sum");
    if (followed.has(PROMISED[promise]) || !same || entry.alone) return new Set();
    return new Set(entry.followed.filter((name) => followed.has(name)));
  }

  function implied(followed) {
    const divided = (by) => [...followed].some((name) => name.endsWith(`_over_${by}`)
      && followed.has(name.slice(0, -`_over_${by}`.length))) || (followed.has("sum") && followed.has(SUM_OVER[by]));
    return [divided("window") && "single-micro-batch", divided("ranks") && "single-rank"].filter(Boolean);
  }

  return { PROMISED, contributions, weights, rulesOf, rulesByTotal, shapeSigns, recognise };
})();

if (typeof module !== "undefined") module.exports = failuremapMatch;
