// TilingExplorer: attention without the matrix of scores: tile by tile, with a maximum and a sum that are mended on the way.

import { button, slider, toggle } from "./lib/controls.js";
import { h, number } from "./lib/dom.js";
import { bars, facts } from "./lib/facts.js";
import { frame } from "./lib/frame.js";
import { player } from "./lib/player.js";
import { normal } from "./lib/random.js";
import { matrix } from "./lib/score_tiles.js";
import { table } from "./lib/table.js";
import { crossing, fit, tiles, traffic, walk } from "./lib/tiles.js";
import { bytes, count, times } from "./lib/units.js";

const MOST = 12; // queries, keys
const WIDTH = 2;
const REAL = { n: 4096, d: 64 };
const SIZE = 2; // bytes a number, as in float16
const NAMES = ["query_length", "key_length", "block_queries", "block_keys", "causal", "step", "memory", "seed"];

/** Queries, keys, values of standard normal numbers. @param {number} seed @param {number} L @param {number} S */
export function draw(seed, L, S) {
  const next = normal(seed);
  const all = Array.from({ length: 3 }, () => Array.from({ length: MOST }, () => [next(), next()]));
  return { query: all[0].slice(0, L), key: all[1].slice(0, S), value: all[2].slice(0, S) };
}

/** 1.1 · 10⁻¹⁶ @param {number} x */
function tiny(x) {
  if (x === 0) return "0";
  const [digits, power] = x.toExponential(1).split("e");
  return `${digits} · 10${[...power.replace("+", "")].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`;
}

/** The first to the last, counted from 1. @param {number} from @param {number} to @param {string} name */
const span = (from, to, name) =>
  to - from === 1 ? `${name} ${to}` : `${name === "query" ? "querie" : name}s ${from + 1}–${to}`;

/** What happened to the query whose maximum rose most. @param {ReturnType<typeof walk>["steps"][number]} step */
function tell({ tile, kept }) {
  const rise = kept.map((row) => (row.before === -Infinity ? 2 : row.factor));
  const r = rise.indexOf(Math.min(...rise));
  const { before, maximum, factor, sum, total } = kept[r];
  const who = `Query ${tile.i0 + r + 1}`;
  if (maximum === -Infinity) return `${who} has seen nothing yet.`;
  if (before === -Infinity) return `${who} starts with the maximum ${number(maximum)} and the sum ${number(total)}.`;
  const old = (total - sum) / factor;
  return factor === 1
    ? `No maximum rises, so every factor is 1: ${who.toLowerCase()} has the sum ${number(old)} + ${number(sum)} = ${number(total)}.`
    : `${who}'s maximum rises from ${number(before)} to ${number(maximum)}: what it had shrinks by e^(${number(before - maximum)}) = ${number(factor)}, ` +
        `and its sum is ${number(factor)} · ${number(old)} + ${number(sum)} = ${number(total)}.`;
}

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  /** @type {() => void} */
  let stop = () => {};
  const close = frame(context, "tiling", NAMES, (state) => {
    /** The cut that traits describe. @param {Record<string, any>} [changed] @returns {import("./lib/tiles.js").Cut} */
    const cut = (changed = {}) => {
      const of = /** @param {string} name */ (name) => changed[name] ?? state.get(name);
      return {
        L: of("query_length"),
        S: of("key_length"),
        rows: of("block_queries"),
        columns: of("block_keys"),
        causal: of("causal"),
      };
    };
    /** Change the cut; the step stays within it. @param {Record<string, any>} changed */
    const recut = (changed) => state.set({ ...changed, step: Math.min(state.get("step"), tiles(cut(changed)).length) });
    const sizes = [
      { name: "query_length", label: "queries L", role: "query" },
      { name: "key_length", label: "keys S", role: "key" },
      { name: "block_queries", label: "queries in a block", role: "query" },
      { name: "block_keys", label: "keys in a block", role: "key" },
    ].map(({ name, label, role }) => ({
      name,
      ...slider({ label, role, min: 1, max: MOST, step: 1, onset: (x) => recut({ [name]: x }) }),
    }));
    const causal = toggle({ label: "causal", onset: (on) => recut({ causal: on }) });
    const again = button("Other numbers", () => state.set({ seed: (state.get("seed") + 1) % 1000 }));
    const steps = player({ label: "tile", first: 0, most: 1, onset: (x) => state.set({ step: x }) });
    stop = steps.stop;
    const memory = slider({
      label: "fast memory",
      min: 4,
      max: 10,
      step: 1,
      show: (x) => bytes(2 ** x * 1024),
      onset: (x) => state.set({ memory: 2 ** x }),
    });
    /** Go to the tile of a score. @param {number} i @param {number} j */
    const pick = (i, j) => {
      const at = tiles(cut()).findIndex((t) => i >= t.i0 && i < t.i1 && j >= t.j0 && j < t.j1);
      if (at >= 0) state.set({ step: at + 1 });
    };
    const scores = matrix(MOST, pick);
    const kept = table({
      caption: "Kept on the chip, for each query",
      rows: Array.from({ length: MOST }, (_, i) => `q${i + 1}`),
      columns: ["max m", "factor", "sum ℓ", "o₁ / ℓ", "o₂ / ℓ"],
      kind: "plain",
    });
    const crossed = bars(["naive, in all", "in blocks, so far"]);
    const counts = facts({
      caption: "All of it, counted",
      rows: ["", "", "", ""],
      columns: ["naive", "in blocks", "ratio"],
    });
    let [drawn, walked] = ["", walk([[0, 0]], [[0, 0]], [[0, 0]], cut({ query_length: 1, key_length: 1 }))];
    return {
      controls: [...sizes.map(({ element }) => element), causal.element, again],
      body: [
        h("div", { class: "att-full" }, steps.element),
        h(
          "div",
          { class: "att-half" },
          h("p", { class: "att-title" }, "Scores: a tile at a time"),
          scores.element,
          h(
            "p",
            { class: "att-note" },
            "With numbers: on the chip. Grey: done, and gone. Hatched: nobody looks. Click a tile to go to it.",
          ),
        ),
        h(
          "div",
          { class: "att-half" },
          kept.element,
          h("p", { class: "att-title" }, "Bytes moved to and from slow memory"),
          crossed.element,
        ),
        h(
          "div",
          { class: "att-full att-counts" },
          memory.element,
          counts.element,
          h(
            "p",
            { class: "att-note" },
            "Numbers that cross, 2 bytes each. Naive: 2Ld + 2Sd + 4LS. In blocks: 2Ld, and 2d for each key each time a " +
              "block of queries meets it. Blocks of B rows fit where 4Bd + B² ≤ M numbers: about 8n²d²/M in all, as in " +
              "Dao et al., 2022 (arXiv:2205.14135), theorem 2. The order of the loops is FlashAttention-2's.",
          ),
        ),
      ],
      look: "att-many att-counting att-boxed",
      draw() {
        const now = cut();
        const { L, S } = now;
        const made = JSON.stringify([now, state.get("seed")]);
        if (made !== drawn) {
          const data = draw(state.get("seed"), L, S);
          walked = walk(data.query, data.key, data.value, now);
          drawn = made;
        }
        const all = walked.steps.length;
        const step = Math.min(state.get("step"), all);
        const here = step ? walked.steps[step - 1] : null;
        for (const { name, show } of sizes) show(state.get(name));
        causal.show(now.causal);
        steps.show(step, all);
        memory.show(Math.round(Math.log2(state.get("memory"))));
        scores.show(now, walked.steps, step);

        const height = Math.min(now.rows, L);
        const blank = [Number.NEGATIVE_INFINITY, 0, 0, 0, 0];
        const rows = kept.cells.map((_, r) => {
          const row = here?.kept[r];
          return row
            ? [row.maximum, row.factor, row.total, ...row.output.map((o) => (row.total ? o / row.total : 0))]
            : blank;
        });
        const first = here?.tile.i0 ?? 0;
        kept.show(rows, {
          names: { rows: rows.map((_, r) => `q${first + r + 1}`), columns: [] },
        });
        kept.cells.forEach((row, r) => {
          /** @type {HTMLElement} */ (row[0].parentElement).hidden = r >= (here ? here.kept.length : height);
        });

        const mine = traffic(now, WIDTH);
        const far = walked.steps.slice(0, step).reduce((sum, { tile }) => sum + crossing(tile, WIDTH), 0) * SIZE;
        const whole = SIZE * Math.max(mine.naive.moved, mine.tiled.moved);
        crossed.show([(SIZE * mine.naive.moved) / whole, far / whole], [bytes(SIZE * mine.naive.moved), bytes(far)]);
        const side = fit((state.get("memory") * 1024) / SIZE, REAL.d);
        const real = traffic({ L: REAL.n, S: REAL.n, rows: side, columns: side, causal: now.causal }, REAL.d);
        /** @param {number} a @param {number} b @param {(x: number) => string} text */
        const line = (a, b, text) => [text(a), text(b), times(a / b)];
        counts.show(
          [mine, real].flatMap(({ naive, tiled }) => [
            line(SIZE * naive.moved, SIZE * tiled.moved, bytes),
            line(naive.flops, tiled.flops, count),
          ]),
          [
            "here, d = 2: bytes moved",
            "here: operations",
            `n = 4,096, d = 64, B = ${side}: bytes moved`,
            "the same: operations",
          ],
        );

        const exact = (/** @type {number[]} */ ends) => tiny(Math.max(0, ...ends));
        if (!here)
          return `${all} ${all === 1 ? "tile" : "tiles"} of up to ${Math.min(now.rows, L)} × ${Math.min(now.columns, S)} scores, one at a time; the whole matrix of ${L * S} is never there.`;
        const { tile } = here;
        const where = `Tile ${step} of ${all}: ${span(tile.i0, tile.i1, "query")} and ${span(tile.j0, tile.j1, "key")}. `;
        if (step === all)
          return `${where}All is done: the largest difference from plain softmax is ${exact(walked.apart)}, and ${bytes(far)} crossed instead of ${bytes(SIZE * mine.naive.moved)}.`;
        return (
          where +
          tell(here) +
          (tile.last
            ? ` This block is done: o / ℓ differs from plain softmax by ${exact(walked.apart.slice(tile.i0, tile.i1))}.`
            : "")
        );
      },
    };
  });
  return () => {
    stop();
    close();
  };
}

export default { render };
