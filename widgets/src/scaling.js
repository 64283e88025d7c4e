// ScalingExplorer: how wide scores spread as heads get wider, what the softmax makes of it, and what √d mends.

import { button, slider, toggle } from "./lib/controls.js";
import { h, number, s, say, set } from "./lib/dom.js";
import { facts } from "./lib/facts.js";
import { frame } from "./lib/frame.js";
import { entropy, frobenius, jacobian, matmul, softmax, transpose } from "./lib/maths.js";
import { normal } from "./lib/random.js";

const QUERIES = 64;
const KEYS = 16;
const EDGE = 70; // the histogram goes from −EDGE to EDGE
const BINS = 35;

/**
 * Scores of all pairs, and what the softmax of each query's row is like on average.
 * @param {number[][]} query @param {number[][]} key @param {boolean} scaled
 */
export function measure(query, key, scaled) {
  return about(matmul(query, transpose(key)), scaled ? 1 / Math.sqrt(query[0].length) : 1);
}

/** @param {number[][]} products @param {number} factor */
function about(products, factor) {
  const scores = products.map((row) => row.map((x) => x * factor));
  const all = scores.flat();
  const mean = average(all);
  const weights = scores.map(softmax);
  return {
    scores: all,
    deviation: Math.sqrt(all.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (all.length - 1)),
    row: weights[0],
    largest: average(weights.map((row) => Math.max(...row))),
    entropy: average(weights.map(entropy)),
    slope: average(weights.map((row) => frobenius(jacobian(row)))),
  };
}

/** @param {number[]} x */
const average = (x) => x.reduce((sum, y) => sum + y, 0) / x.length;

/** How many scores fall into each bin; the outermost take what lies beyond. @param {number[]} scores */
export function histogram(scores) {
  const counts = new Array(BINS).fill(0);
  for (const x of scores) counts[Math.min(BINS - 1, Math.max(0, Math.floor(((x + EDGE) / (2 * EDGE)) * BINS)))]++;
  return counts;
}

/** Products of queries and keys of independent standard normal numbers. @param {number} width @param {number} seed */
function draw(width, seed) {
  const next = normal(seed);
  const rows = /** @param {number} count */ (count) =>
    Array.from({ length: count }, () => Array.from({ length: width }, next));
  return matmul(rows(QUERIES), transpose(rows(KEYS)));
}

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "scaling", ["width", "scaled", "seed"], (state) => {
    const width = slider({
      label: "head width d",
      min: 0,
      max: 9,
      step: 1,
      show: (x) => String(2 ** x),
      onset: (x) => state.set({ width: 2 ** x }),
    });
    const scaled = toggle({ label: "divide by √d", onset: (on) => state.set({ scaled: on }) });
    const again = button("Other numbers", () => state.set({ seed: (state.get("seed") + 1) % 1000 }));

    const [W, H, LEFT] = [330, 150, 34];
    const columns = Array.from({ length: BINS }, (_, k) =>
      s("rect", { x: (k * W) / BINS, width: W / BINS - 1, class: "att-column" }),
    );
    const tallest = s("text", { y: 12, class: "att-label" });
    const ticks = [-60, -30, 0, 30, 60].map((x) =>
      s(
        "text",
        { x: ((x + EDGE) / (2 * EDGE)) * W, y: H + 16, class: "att-label", "text-anchor": "middle" },
        number(x, 0),
      ),
    );
    const chart = s(
      "svg",
      { viewBox: `0 0 ${W} ${H + 40}`, class: "att-chart", role: "img", "aria-label": "histogram of the scores" },
      ...columns,
      tallest,
      s("text", { x: W / 2, y: H + 35, class: "att-label", "text-anchor": "middle" }, "score"),
      s("line", { x1: 0, x2: W, y1: H, y2: H, class: "att-axis" }),
      ...ticks,
    );
    const wide = (W - LEFT) / KEYS;
    const bars = Array.from({ length: KEYS }, (_, k) =>
      s("rect", { x: LEFT + k * wide, width: wide - 3, class: "att-share" }),
    );
    const row = s(
      "svg",
      { viewBox: `0 0 ${W} ${H + 40}`, class: "att-chart", role: "img", "aria-label": "weights of one query" },
      ...[1, 0.5].map((a) =>
        s("line", { x1: LEFT, x2: W, y1: H - a * (H - 6), y2: H - a * (H - 6), class: "att-half-way" }),
      ),
      ...[1, 0.5, 0].map((a) =>
        s("text", { x: LEFT - 6, y: H - a * (H - 6) + 5, class: "att-label", "text-anchor": "end" }, String(a)),
      ),
      ...bars,
      s("line", { x1: LEFT, x2: W, y1: H, y2: H, class: "att-axis" }),
      s("text", { x: (LEFT + W) / 2, y: H + 16, class: "att-label", "text-anchor": "middle" }, `the ${KEYS} keys`),
    );
    const counts = facts({
      caption: `Of all ${QUERIES} queries`,
      rows: [
        "standard deviation of the scores",
        "largest weight, on average",
        `entropy (equal weights: ${number(Math.log(KEYS))} nats)`,
        "norm of the Jacobian, on average",
      ],
      columns: ["as they are", "divided by √d"],
    });
    const columnHeads = counts.element.querySelectorAll("thead th");

    /** Drawn once for each width and seed, not at each redraw. */
    let drawn = { width: 0, seed: -1, data: draw(1, 0) };
    return {
      controls: [width.element, scaled.element, again],
      body: [
        h(
          "div",
          { class: "att-half" },
          h("p", { class: "att-title" }, `Scores of ${QUERIES} queries and ${KEYS} keys`),
          chart,
        ),
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, "Weights of the first query"), row),
        h("div", { class: "att-full" }, counts.element),
      ],
      draw() {
        const [d, on, seed] = [state.get("width"), state.get("scaled"), state.get("seed")];
        if (drawn.width !== d || drawn.seed !== seed) drawn = { width: d, seed, data: draw(d, seed) };
        const both = [about(drawn.data, 1), about(drawn.data, 1 / Math.sqrt(d))];
        const now = both[Number(on)];
        width.show(Math.round(Math.log2(d)));
        scaled.show(on);
        const bins = histogram(now.scores);
        const most = Math.max(...bins);
        bins.forEach((count, k) => {
          const height = (count / most) * (H - 4);
          set(columns[k], { y: H - height, height });
        });
        say(tallest, `${most} in the tallest`);
        now.row.forEach((a, k) => {
          set(bars[k], { y: H - a * (H - 6), height: a * (H - 6) });
        });
        const numbers = both.map((x) => [
          number(x.deviation),
          number(x.largest),
          number(x.entropy),
          number(x.slope, 3),
        ]);
        counts.show(numbers[0].map((text, k) => [text, numbers[1][k]]));
        columnHeads.forEach((head, k) => void head.classList.toggle("att-present", k === Number(on)));
        const shown = numbers[Number(on)];
        const expected = on ? "1" : `√${d} = ${number(Math.sqrt(d), 1)}`;
        return (
          `d = ${d}, ${on ? "divided by √d" : "not divided"}: scores spread by ${shown[0]} (expected ${expected}); ` +
          `the largest of ${KEYS} weights is ${shown[1]} on average, the entropy ${shown[2]} nats.`
        );
      },
    };
  });
}

export default { render };
