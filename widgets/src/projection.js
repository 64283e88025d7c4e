// ProjectionExplorer: two matrices turn the same tokens into queries and into keys, and the scores follow.

import { button, matrix, toggle } from "./lib/controls.js";
import { h, number, quoted, s } from "./lib/dom.js";
import { frame } from "./lib/frame.js";
import { cut } from "./lib/heads.js";
import { matmul, softmax, transpose } from "./lib/maths.js";
import { plane } from "./lib/plane.js";
import { table } from "./lib/table.js";

const LIMIT = 2;
const FAR = 3;

/**
 * Rows of X times W, as in the book: queries, keys, scaled scores, weights; and how far the scores are from symmetric.
 * @param {number[][]} x @param {number[][]} wq @param {number[][]} wk
 */
export function compute(x, wq, wk) {
  const [query, key] = [matmul(x, wq), matmul(x, wk)];
  const scale = 1 / Math.sqrt(wq[0].length);
  const scores = matmul(query, transpose(key)).map((row) => row.map((z) => z * scale));
  const skew = Math.max(...scores.flatMap((row, i) => row.map((z, j) => Math.abs(z - scores[j][i]))));
  return { query, key, scores, weights: scores.map(softmax), skew };
}

/** @type {[string, number[][]][]} */
const PRESETS = [
  ["identity", [[1, 0], [0, 1]]], // biome-ignore format: a matrix
  [
    "quarter turn",
    [
      [0, 1],
      [-1, 0],
    ],
  ],
  [
    "flatten",
    [
      [1, 0],
      [0, 0],
    ],
  ],
];

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "projection", ["tokens", "x", "w_q", "w_k", "tied"], (state) => {
    /** @type {string[]} */
    const tokens = state.get("tokens");
    const keyMatrix = () => (state.get("tied") ? state.get("w_q") : state.get("w_k"));
    const query = matrix({
      label: "W_Q",
      rows: 2,
      columns: 2,
      limit: FAR,
      role: "query",
      onset: (w) => state.set({ w_q: w }),
    });
    const key = matrix({
      label: "W_K",
      rows: 2,
      columns: 2,
      limit: FAR,
      role: "key",
      onset: (w) => state.set({ w_k: w }),
    });
    const tied = toggle({ label: "W_K = W_Q", onset: (on) => state.set({ tied: on }) });
    const presets = PRESETS.map(([name, w]) => {
      const made = button(name, () => state.set({ w_q: w }));
      made.setAttribute("aria-label", `W_Q: ${name}`);
      return made;
    });

    const source = plane({ label: "token embeddings", limit: LIMIT, width: 200, height: 200 });
    const short = tokens.map((token) => cut(token, 9));
    const names = short.map((token) => s("text", { class: "att-label", "aria-hidden": true }, token));
    source.svg.append(...names);
    const handles = tokens.map((token, i) =>
      source.handle({
        name: `embedding of ${token}`,
        role: "ink",
        onmove: (a, b) =>
          state.set({
            x: state.get("x").map((/** @type {number[]} */ old, /** @type {number} */ j) => (j === i ? [a, b] : old)),
          }),
      }),
    );
    const queries = plane({ label: "queries", limit: FAR, width: 200, height: 200 });
    const queryArrows = short.map((token) => queries.arrow({ role: "query", label: token }));
    const keys = plane({ label: "keys", limit: FAR, width: 200, height: 200 });
    const keyArrows = short.map((token) => keys.arrow({ role: "key", label: token }));
    const scores = table({
      caption: "scores Q Kᵀ / √2",
      rows: tokens,
      columns: tokens,
      kind: "signed",
      rowName: "query",
      columnName: "key",
    });
    const weights = table({ caption: "weights A", rows: tokens, columns: tokens, rowName: "query", columnName: "key" });
    /** @param {string} title @param {Element} element */
    const titled = (title, element) => h("div", { class: "att-third" }, h("p", { class: "att-title" }, title), element);
    return {
      controls: [
        query.element,
        key.element,
        h(
          "div",
          { class: "att-stack" },
          tied.element,
          h("div", { role: "group", "aria-label": "W_Q" }, "W_Q:", ...presets),
        ),
      ],
      body: [
        titled("Tokens X", source.element),
        titled("Queries X W_Q", queries.element),
        titled("Keys X W_K", keys.element),
        scores.element,
        weights.element,
        h("p", { class: "att-note" }, "Type into the matrices; drag the tokens, or move them with the arrow keys."),
      ],
      draw() {
        const x = state.get("x");
        const now = compute(x, state.get("w_q"), keyMatrix());
        query.show(state.get("w_q"));
        key.show(keyMatrix(), !state.get("tied"));
        tied.show(state.get("tied"));
        // One measure for both, wider where an arrow would leave the plane.
        const far = Math.max(...[...now.query, ...now.key].flat().map(Math.abs));
        const limit = FAR * 2 ** Math.max(0, Math.ceil(Math.log2(far / FAR)));
        queries.zoom(limit);
        keys.zoom(limit);
        for (const i of tokens.keys()) {
          handles[i].show(x[i][0], x[i][1]);
          source.beside(names[i], x[i][0], x[i][1], true);
          queryArrows[i].show(now.query[i][0], now.query[i][1]);
          keyArrows[i].show(now.key[i][0], now.key[i][1]);
        }
        scores.show(now.scores, { limit: Math.max(1, ...now.scores.flat().map(Math.abs)) });
        weights.show(now.weights);
        const [a, b] = [quoted(tokens[0]), quoted(tokens[1])];
        return (
          `${a} scores ${b} with ${number(now.scores[0][1])}, ${b} scores ${a} with ${number(now.scores[1][0])}. ` +
          (now.skew < 1e-9
            ? "The scores are symmetric: each two tokens score each other alike."
            : `The largest difference between the two directions is ${number(now.skew)}.`)
        );
      },
    };
  });
}

export default { render };
