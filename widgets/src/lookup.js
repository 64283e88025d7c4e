// LookupExplorer: drag the query among the keys, and see which mix of the values comes back.

import { slider } from "./lib/controls.js";
import { h, number, s, set } from "./lib/dom.js";
import { bars } from "./lib/facts.js";
import { frame } from "./lib/frame.js";
import { entropy, matmul, softmax } from "./lib/maths.js";
import { plane } from "./lib/plane.js";

const LIMIT = 2;

/** @param {number[]} query @param {number[][]} keys @param {number[][]} values @param {number} temperature */
export function compute(query, keys, values, temperature) {
  const scores = matmul(
    [query],
    keys[0].map((_, d) => keys.map((key) => key[d])),
  )[0];
  const weights = softmax(scores.map((x) => x / temperature));
  return { scores, weights, output: matmul([weights], values)[0], effective: Math.exp(entropy(weights)) };
}

/**
 * The corners of the smallest convex shape around the points, in order.
 * @param {number[][]} points @returns {number[][]}
 */
export function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  /** @param {number[][]} side */
  const half = (side) => {
    /** @type {number[][]} */
    const kept = [];
    for (const point of side) {
      while (kept.length > 1 && turn(kept[kept.length - 2], kept[kept.length - 1], point) <= 0) kept.pop();
      kept.push(point);
    }
    return kept.slice(0, -1);
  };
  return sorted.length < 3 ? sorted : [...half(sorted), ...half(sorted.reverse())];
}

/** More than 0 where a, b, c turn left. @param {number[]} a @param {number[]} b @param {number[]} c */
const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "lookup", ["query", "key", "value", "temperature"], (state) => {
    const count = state.get("key").length;
    const each = Array.from({ length: count }, (_, i) => i);
    /** Put one row of a table in another's place. @param {string} name @param {number} i @param {number[]} row */
    const put = (name, i, row) =>
      state.set({
        [name]: state.get(name).map((/** @type {number[]} */ old, /** @type {number} */ j) => (j === i ? row : old)),
      });

    // The temperature goes by factors: each step of the slider is the same share more.
    const temperature = slider({
      label: "temperature",
      min: -20,
      max: 20,
      step: 1,
      show: (x) => number(10 ** (x / 10), 2),
      onset: (x) => state.set({ temperature: Number((10 ** (x / 10)).toPrecision(6)) }),
    });

    const left = plane({ label: "the query among the keys", limit: LIMIT });
    const keyArrows = each.map((i) => left.arrow({ role: "key", label: `k${i + 1}`, tip: false }));
    const queryArrow = left.arrow({ role: "query", label: "q", tip: false });
    const keyHandles = each.map((i) =>
      left.handle({ name: `key ${i + 1}`, role: "key", onmove: (a, b) => put("key", i, [a, b]) }),
    );
    const queryHandle = left.handle({ name: "query", role: "query", onmove: (a, b) => state.set({ query: [a, b] }) });

    const right = plane({ label: "the values and their mix", limit: LIMIT });
    const shape = s("polygon", { class: "att-hull" });
    const threads = each.map(() => s("line", { class: "att-thread att-weight" }));
    const names = each.map((i) => s("text", { class: "att-label", "aria-hidden": true }, `v${i + 1}`));
    const output = s("path", { d: "M0 -9L9 0L0 9L-9 0Z", class: "att-result att-output" });
    const result = s("text", { class: "att-label att-result-name", "aria-hidden": true }, "output");
    right.svg.append(shape, ...threads, ...names);
    const valueHandles = each.map((i) =>
      right.handle({ name: `value ${i + 1}`, role: "value", onmove: (a, b) => put("value", i, [a, b]) }),
    );

    right.svg.append(output, result); // above the values: a hard lookup stands on one of them
    const shares = bars(new Array(count).fill(""), "weight");

    return {
      controls: [temperature.element],
      body: [
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, "Query and keys"), left.element),
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, "Values, and what comes back"), right.element),
        h(
          "div",
          { class: "att-full" },
          h("p", { class: "att-title" }, "Scores, and the weights that softmax makes of them"),
          shares.element,
        ),
        h("p", { class: "att-note" }, "Every dot can be dragged, or moved with the arrow keys."),
      ],
      draw() {
        const [query, keys, values, t] = ["query", "key", "value", "temperature"].map(state.get);
        const now = compute(query, keys, values, t);
        temperature.show(Math.round(10 * Math.log10(t)));
        queryArrow.show(query[0], query[1], 3);
        queryHandle.show(query[0], query[1]);
        set(shape, {
          points: hull(values)
            .map(([a, b]) => `${right.x(a)},${right.y(b)}`)
            .join(" "),
        });
        const place = [right.x(now.output[0]), right.y(now.output[1])];
        set(output, { transform: `translate(${place[0]} ${place[1]})` });
        right.beside(result, now.output[0], now.output[1], now.output[0] < 0);
        set(result, { y: place[1] + 5 });
        now.weights.forEach((weight, i) => {
          keyArrows[i].show(keys[i][0], keys[i][1], 1 + 9 * weight);
          keyHandles[i].show(keys[i][0], keys[i][1]);
          valueHandles[i].show(values[i][0], values[i][1]);
          const [x, y] = [right.x(values[i][0]), right.y(values[i][1])];
          set(threads[i], { x1: x, y1: y, x2: place[0], y2: place[1], "stroke-width": 10 * weight });
          right.beside(names[i], values[i][0], values[i][1], values[i][0] >= 0);
        });
        const divided = t === 1 ? "" : ` / ${number(t)}`;
        shares.show(
          now.weights,
          now.weights.map((weight, i) => `a${i + 1} = ${number(weight, 3)}`),
          now.scores.map((score, i) => `q · k${i + 1}${divided} = ${number(score / t)}`),
        );
        const most = now.weights.indexOf(Math.max(...now.weights));
        return (
          `Output (${now.output.map((x) => number(x)).join(", ")}). The largest weight, ${number(now.weights[most], 3)}, is v${most + 1}'s; ` +
          `the weights are as spread out as ${number(now.effective, 1)} equal ones would be.`
        );
      },
    };
  });
}

export default { render };
