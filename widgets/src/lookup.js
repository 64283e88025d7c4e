// LookupExplorer: drag the query among the keys, and see which mix of the values comes back.

import { slider } from "./lib/controls.js";
import { h, number, s, say, set } from "./lib/dom.js";
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
    const keyArrows = each.map((i) => left.arrow({ role: "key", label: `k${i + 1}` }));
    const queryArrow = left.arrow({ role: "query", label: "q" });
    const keyHandles = each.map((i) =>
      left.handle({ name: `key ${i + 1}`, role: "key", onmove: (a, b) => put("key", i, [a, b]) }),
    );
    const queryHandle = left.handle({ name: "query", role: "query", onmove: (a, b) => state.set({ query: [a, b] }) });

    const right = plane({ label: "the values and their mix", limit: LIMIT });
    const shape = s("polygon", { class: "att-hull" });
    const threads = each.map(() => s("line", { class: "att-thread att-weight" }));
    const names = each.map((i) => s("text", { class: "att-label", "aria-hidden": true }, `v${i + 1}`));
    const output = s("path", { d: "M0 -9L9 0L0 9L-9 0Z", class: "att-result att-output" });
    right.svg.append(shape, ...threads, output, ...names);
    const valueHandles = each.map((i) =>
      right.handle({ name: `value ${i + 1}`, role: "value", onmove: (a, b) => put("value", i, [a, b]) }),
    );

    const bars = each.map(() => h("span", { class: "att-bar" }));
    const shares = each.map(() => h("span", {}));
    const list = h(
      "div",
      { class: "att-shares" },
      ...each.map((i) => h("div", {}, `a${i + 1} `, h("span", { class: "att-track" }, bars[i]), shares[i])),
    );

    return {
      controls: [temperature.element],
      body: [
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, "Query and keys"), left.element),
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, "Values, and what comes back"), right.element),
        list,
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
        now.weights.forEach((weight, i) => {
          keyArrows[i].show(keys[i][0], keys[i][1], 1 + 9 * weight);
          keyHandles[i].show(keys[i][0], keys[i][1]);
          valueHandles[i].show(values[i][0], values[i][1]);
          const [x, y] = [right.x(values[i][0]), right.y(values[i][1])];
          set(threads[i], { x1: x, y1: y, x2: place[0], y2: place[1], "stroke-width": 10 * weight });
          set(names[i], { x: x + 11, y: y - 8 });
          bars[i].style.width = `${100 * weight}%`;
          say(shares[i], number(weight, 3));
        });
        const most = now.weights.indexOf(Math.max(...now.weights));
        return (
          `Output (${now.output.map((x) => number(x)).join(", ")}); the largest share, ` +
          `${number(now.weights[most], 3)}, is value ${most + 1}'s; as many as ${number(now.effective, 1)} of ${count} keys count.`
        );
      },
    };
  });
}

export default { render };
