// StepThrough: pick any number on the way from queries to output, and see the arithmetic that made it.

import { toggle } from "./lib/controls.js";
import { h, number } from "./lib/dom.js";
import { frame } from "./lib/frame.js";
import { attention } from "./lib/maths.js";
import { table } from "./lib/table.js";

/** @typedef {"scores" | "scaled" | "masked" | "weights" | "output"} Step */
/** @typedef {{query: number[][], key: number[][], value: number[][], causal: boolean}} Given */

/** @type {Step[]} */
const STEPS = ["scores", "scaled", "masked", "weights", "output"];

/** All five matrices; causal puts the last query at the last key. @param {Given} given */
export function compute({ query, key, value, causal }) {
  const ahead = key.length - query.length;
  const allowed = causal ? query.map((_, i) => key.map((_, j) => j <= i + ahead)) : null;
  return { ...attention({ query, key, value, allowed }), allowed };
}

/** Weights have a digit more, so that a sum of them can be checked by hand. */
const FINE = 3;
/** Beyond it exponentials have more digits than a line, or none: the largest score of the row is taken off first. */
const PLAIN = 5;

/** A number inside a product. @param {number} x @param {number} [digits] */
const factor = (x, digits) => (x < 0 ? `(${number(x, digits)})` : number(x, digits));

/** @param {number[]} a @param {number[]} b @param {number} [digits]  of the numbers of a */
const products = (a, b, digits) => a.map((x, d) => `${factor(x, digits)} · ${factor(b[d])}`).join(" + ");

/** @param {number} x */
const power = (x) => `e^${x < 0 ? `(${number(x)})` : number(x)}`;

/**
 * The arithmetic of one number, and the cells that it was made from, by the table's name.
 * @param {Given} given @param {Step} step @param {number} i @param {number} j
 * @returns {{sum: string, from: Record<string, number[][]>}}
 */
export function explain(given, step, i, j) {
  const { query, key, value } = given;
  const now = compute(given);
  const width = query[0].length;
  const row = /** @param {number[][]} of @param {number} k */ (of, k) => of[k].map((_, d) => [k, d]);
  if (step === "scores")
    return {
      sum: `q${i + 1} · k${j + 1} = ${products(query[i], key[j])} = ${number(now.scores[i][j])}`,
      from: { query: row(query, i), key: row(key, j) },
    };
  if (step === "scaled")
    return {
      sum: `${number(now.scores[i][j])} / √${width} = ${number(now.scaled[i][j])}`,
      from: { scores: [[i, j]] },
    };
  if (step === "masked")
    return {
      sum:
        now.masked[i][j] === -Infinity
          ? `key ${j + 1} comes after query ${i + 1}, so −∞`
          : `query ${i + 1} may see key ${j + 1}, so ${number(now.scaled[i][j])} stays`,
      from: { scaled: [[i, j]] },
    };
  if (step === "weights") {
    const finite = now.masked[i].filter((x) => x !== -Infinity);
    const most = Math.max(...finite);
    const less = finite.some((x) => Math.abs(x) > PLAIN) ? most : 0;
    const terms = now.masked[i].map((x) => Math.exp(x - less));
    const total = terms.reduce((sum, x) => sum + x, 0);
    // Four figures of the largest, or the quotient would not come out by hand.
    const digits = Math.max(0, 3 - Math.floor(Math.log10(Math.max(...terms))));
    const shown = (/** @type {number} */ x) => number(x, digits);
    const seen = terms.filter((_, k) => now.masked[i][k] !== -Infinity).map(shown);
    const first = less ? `the row's largest, ${number(most)}, is taken off: ` : "";
    return {
      sum: seen.length
        ? `${first}${power(now.masked[i][j] - less)} / (${seen.join(" + ")}) = ${shown(terms[j])} / ${shown(total)} = ${number(now.weights[i][j], FINE)}`
        : `query ${i + 1} may see nothing, so 0`,
      from: { masked: row(now.masked, i) },
    };
  }
  return {
    sum: `${products(
      now.weights[i],
      value.map((v) => v[j]),
      FINE,
    )} = ${number(now.output[i][j])}`,
    from: { weights: row(now.weights, i), value: value.map((_, k) => [k, j]) },
  };
}

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "steps", ["query", "key", "value", "causal", "step", "row", "column"], (state) => {
    const causal = toggle({ label: "no query sees a later key", onset: (on) => state.set({ causal: on }) });
    const names = /** @param {string} letter @param {number} count */ (letter, count) =>
      Array.from({ length: count }, (_, k) => `${letter}${k + 1}`);
    const [L, S] = [state.get("query").length, state.get("key").length];
    const [D, E] = [state.get("query")[0].length, state.get("value")[0].length];
    const [queries, keys] = [names("q", L), names("k", S)];
    /** @type {Record<string, ReturnType<typeof table>>} */
    const tables = {
      query: table({ caption: "queries Q", rows: queries, columns: names("", D), kind: "plain" }),
      key: table({ caption: "keys K", rows: keys, columns: names("", D), kind: "plain" }),
      value: table({ caption: "values V", rows: names("v", S), columns: names("", E), kind: "plain" }),
    };
    const titles = {
      scores: "1 scores Q Kᵀ",
      scaled: `2 scaled, / √${D}`,
      masked: "3 masked, Z",
      weights: "4 weights A",
      output: "5 output O = A V",
    };
    for (const step of STEPS)
      tables[step] = table({
        caption: titles[step],
        rows: step === "output" ? names("o", L) : queries,
        columns: step === "output" ? names("", E) : keys,
        digits: step === "weights" ? FINE : 2,
        kind: step === "weights" ? "weight" : step === "output" ? "plain" : "signed",
        onpick: (i, j) => state.set({ step, row: i, column: j }),
      });
    return {
      controls: [causal.element],
      body: [
        h("div", { class: "att-tables" }, ...["query", "key", "value"].map((name) => tables[name].element)),
        h("div", { class: "att-tables" }, ...STEPS.map((name) => tables[name].element)),
        h(
          "p",
          { class: "att-note" },
          "Pick a number in 1 to 5, by mouse or finger, or by Tab and the arrow keys. Dashed: what it was made from.",
        ),
      ],
      look: "att-boxed",
      draw() {
        /** @type {Given} */
        const given = {
          query: state.get("query"),
          key: state.get("key"),
          value: state.get("value"),
          causal: state.get("causal"),
        };
        const step = /** @type {Step} */ (state.get("step"));
        const [i, j] = [state.get("row"), Math.min(state.get("column"), (step === "output" ? E : S) - 1)];
        const now = compute(given);
        const shown = explain(given, step, i, j);
        const hidden = now.allowed?.map((line) => line.map((yes) => !yes)) ?? null;
        const limit = Math.max(...now.scores.flat().map(Math.abs), 1e-9);
        causal.show(given.causal);
        for (const name of /** @type {const} */ (["query", "key", "value"]))
          tables[name].show(given[name], { marked: shown.from[name] });
        for (const name of STEPS)
          tables[name].show(now[name], {
            limit: name === "weights" ? 1 : limit,
            hidden: name === "masked" ? hidden : null,
            picked: name === step ? [i, j] : null,
            marked: shown.from[name],
          });
        return `${titles[step]}, row ${step === "output" ? "o" : "q"}${i + 1}, column ${step === "output" ? "" : "k"}${j + 1}: ${shown.sum}`;
      },
    };
  });
}

export default { render };
