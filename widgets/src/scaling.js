// ScalingExplorer: how wide scores spread as heads get wider, what the softmax makes of it, and what √d mends.

import { button, slider, toggle } from "./lib/controls.js";
import { h, number, s, say, set } from "./lib/dom.js";
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
  const factor = scaled ? 1 / Math.sqrt(query[0].length) : 1;
  const scores = matmul(query, transpose(key)).map((row) => row.map((x) => x * factor));
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

/** Queries and keys of independent standard normal numbers. @param {number} width @param {number} seed */
function draw(width, seed) {
  const next = normal(seed);
  const rows = /** @param {number} count */ (count) =>
    Array.from({ length: count }, () => Array.from({ length: width }, next));
  return { query: rows(QUERIES), key: rows(KEYS) };
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
    const again = button("Draw again", () => state.set({ seed: (state.get("seed") + 1) % 1000 }));

    const [W, H] = [330, 150];
    const columns = Array.from({ length: BINS }, (_, k) =>
      s("rect", { x: (k * W) / BINS, width: W / BINS - 1, class: "att-column" }),
    );
    const ticks = [-60, -30, 0, 30, 60].map((x) =>
      s(
        "text",
        { x: ((x + EDGE) / (2 * EDGE)) * W, y: H + 16, class: "att-label", "text-anchor": "middle" },
        number(x, 0),
      ),
    );
    const chart = s(
      "svg",
      { viewBox: `0 0 ${W} ${H + 20}`, class: "att-chart", role: "img", "aria-label": "histogram of the scores" },
      ...columns,
      s("line", { x1: 0, x2: W, y1: H, y2: H, class: "att-axis" }),
      ...ticks,
    );
    const bars = Array.from({ length: KEYS }, (_, k) => s("rect", { x: k * 20, width: 17, class: "att-share" }));
    const row = s(
      "svg",
      { viewBox: `0 0 ${KEYS * 20} ${H + 20}`, class: "att-chart", role: "img", "aria-label": "weights of one query" },
      ...bars,
      s("line", { x1: 0, x2: KEYS * 20, y1: H, y2: H, class: "att-axis" }),
      s("text", { x: KEYS * 10, y: H + 16, class: "att-label", "text-anchor": "middle" }, `${KEYS} keys`),
    );
    const facts = Array.from({ length: 4 }, () => h("dd", {}));
    const terms = [
      "spread of the scores",
      "largest weight",
      `entropy, of ${number(Math.log(KEYS))}`,
      "norm of the Jacobian",
    ];

    /** Drawn once for each width and seed, not at each redraw. */
    let drawn = { width: 0, seed: -1, data: draw(1, 0) };
    return {
      controls: [width.element, scaled.element, again],
      body: [
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, `${QUERIES * KEYS} scores`), chart),
        h("div", { class: "att-half" }, h("p", { class: "att-title" }, "Weights of one query"), row),
        h("dl", { class: "att-list" }, ...terms.map((term, k) => h("div", {}, h("dt", {}, term), facts[k]))),
      ],
      draw() {
        const [d, on, seed] = [state.get("width"), state.get("scaled"), state.get("seed")];
        if (drawn.width !== d || drawn.seed !== seed) drawn = { width: d, seed, data: draw(d, seed) };
        const now = measure(drawn.data.query, drawn.data.key, on);
        width.show(Math.round(Math.log2(d)));
        scaled.show(on);
        const counts = histogram(now.scores);
        const most = Math.max(...counts);
        counts.forEach((count, k) => {
          const height = (count / most) * (H - 4);
          set(columns[k], { y: H - height, height });
        });
        now.row.forEach((a, k) => {
          set(bars[k], { y: H - a * (H - 4), height: a * (H - 4) });
        });
        const numbers = [number(now.deviation), number(now.largest), number(now.entropy), number(now.slope, 3)];
        numbers.forEach((text, k) => {
          say(facts[k], text);
        });
        const expected = on ? "1" : `√${d} = ${number(Math.sqrt(d), 1)}`;
        return (
          `d = ${d}, ${on ? "scaled" : "not scaled"}: scores spread by ${numbers[0]} (expected ${expected}); ` +
          `the largest of ${KEYS} weights is ${numbers[1]} on average, the entropy ${numbers[2]} nats.`
        );
      },
    };
  });
}

export default { render };
