// DecodeExplorer: writing token by token, what a cache of keys and values saves, and what it costs.

import { choice, slider } from "./lib/controls.js";
import { cells, kept, made, work, workSoFar } from "./lib/decoding.js";
import { h, quoted, s, say, set } from "./lib/dom.js";
import { bars, facts } from "./lib/facts.js";
import { frame } from "./lib/frame.js";
import { box } from "./lib/heat.js";
import { player } from "./lib/player.js";
import { bytes, count, times } from "./lib/units.js";

/** @type {Record<string, number>} */
const SIZES = { float32: 4, bfloat16: 2, int8: 1 };
const NAMES = ["tokens", "step", "layers", "heads", "kv_heads", "d_head", "dtype", "context"];
const ROLES = ["query", "key", "value", "weight"];
const KINDS = ["new", "kept", "again"];
const [X, CELL] = [26, 26];

/** A mark in the middle of a cell: a dot, a ring, a cross. @param {string} kind @param {number} x @param {number} y @param {number} r */
function mark(kind, x, y, r) {
  if (kind === "again") return `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`;
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
}

/** Vectors and scores of one way to decode, as cells. @param {string} label @param {number} n  tokens @param {boolean} cached */
function panel(label, n, cached) {
  const cell = CELL;
  const paths = ROLES.map((role) => KINDS.map((kind) => s("path", { class: `att-cell att-is-${kind} att-${role}` })));
  const marks = KINDS.map((kind) => s("path", { class: `att-sign att-is-${kind}` }));
  const tops = [22, 22 + cell, 22 + 2 * cell, 22 + 3 * cell + 30];
  const names = ["q", "k", "v"].map((name, r) =>
    s("text", { x: X - 8, y: tops[r] + cell / 2 + 5, "text-anchor": "end", class: "att-label" }, name),
  );
  const title = s("text", { x: X, y: tops[3] - 8, class: "att-label" }, "scores, q × k");
  const numbers = Array.from({ length: n }, (_, j) =>
    s("text", { x: X + (j + 0.5) * cell, y: 15, "text-anchor": "middle", class: "att-label" }, String(j + 1)),
  );
  const wide = Math.max(X + n * cell, 140) + 2; // no narrower than its title
  const element = s(
    "svg",
    {
      viewBox: `0 0 ${wide} ${tops[3] + n * cell + 2}`,
      class: "att-chart",
      style: `max-width: ${wide}px`,
      role: "img",
      "aria-label": label,
    },
    ...paths.flat(),
    ...marks,
    ...names,
    title,
    ...numbers,
  );
  return {
    element,
    /** @param {number} t */
    show(t) {
      const now = cells(n, t, cached);
      const shapes = ROLES.map(() => KINDS.map(() => ""));
      const signs = KINDS.map(() => "");
      /** @param {number} role @param {import("./lib/decoding.js").Kind} kind @param {number} i @param {number} j */
      const put = (role, kind, i, j) => {
        const k = KINDS.indexOf(kind);
        if (k < 0) return;
        const [x, y] = [X + j * cell, tops[role] + i * cell];
        shapes[role][k] += box(x + 1, y + 1, cell - 2, cell - 2);
        signs[k] += mark(kind, x + cell / 2, y + cell / 2, cell / 6);
      };
      [now.query, now.key, now.value].forEach((row, role) => {
        row.forEach((kind, j) => void put(role, kind, 0, j));
      });
      now.scores.forEach((row, i) => {
        row.forEach((kind, j) => void put(3, kind, i, j));
      });
      paths.forEach((each, role) => {
        each.forEach((path, k) => void set(path, { d: shapes[role][k] || null }));
      });
      marks.forEach((path, k) => void set(path, { d: signs[k] || null }));
      numbers.forEach((text, j) => void text.classList.toggle("att-picked", j + 1 === t));
    },
  };
}

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  /** @type {() => void} */
  let stop = () => {};
  const close = frame(context, "decode", NAMES, (state) => {
    /** @type {string[]} */
    const first = state.get("tokens");
    const n = first.length;
    const steps = player({ label: "token", first: 1, most: n, onset: (x) => state.set({ step: x }) });
    stop = steps.stop;
    const layers = slider({ label: "layers", min: 1, max: 128, step: 1, onset: (x) => state.set({ layers: x }) });
    /** A slider over powers of two. @param {string} name @param {string} label @param {number} min @param {number} max @param {string} [role] */
    const power = (name, label, min, max, role) =>
      slider({
        label,
        role,
        min,
        max,
        step: 1,
        show: (x) => (2 ** x).toLocaleString("en-US"),
        onset: (x) => state.set({ [name]: 2 ** x }),
      });
    const heads = slider({
      label: "query heads H",
      role: "query",
      min: 0,
      max: 6,
      step: 1,
      show: (x) => String(2 ** x),
      onset: (x) => state.set({ heads: 2 ** x, kv_heads: Math.min(state.get("kv_heads"), 2 ** x) }),
    });
    const groups = slider({
      label: "key/value heads G",
      role: "key",
      min: 0,
      max: 6,
      step: 1,
      show: (x) => `${2 ** x}, ${2 ** x === state.get("heads") ? "MHA" : x ? "GQA" : "MQA"}`,
      onset: (x) => state.set({ kv_heads: 2 ** x }),
    });
    const width = power("d_head", "head width D", 4, 8);
    const context = power("context", "a text of so many tokens", 8, 17);
    const dtype = choice({
      label: "numbers",
      options: Object.keys(SIZES).map((value) => ({ value, text: value })),
      onset: (x) => state.set({ dtype: x }),
    });
    const words = first.map((_, j) => h("span", { onclick: () => state.set({ step: j + 1 }) }));
    const [plain, cached] = [
      panel("what is made without a cache", n, false),
      panel("what is made and read with a cache", n, true),
    ];
    const worked = bars(["without a cache", "with a cache"]);
    const held = bars(["with a cache", "if G were H"]);
    const counts = facts({
      caption: "Work and memory, counted",
      rows: new Array(7).fill(""),
      columns: ["without", "with", "ratio"],
    });
    /** @param {string} name @param {...Node} parts */
    const half = (name, ...parts) => h("div", { class: "att-half" }, h("p", { class: "att-title" }, name), ...parts);
    /** Beside each other on a phone too, as long as the cells stay large enough. @param {string} name @param {Node} part */
    const side = (name, part) => {
      const element = half(name, part);
      element.classList.toggle("att-side", n < 10);
      return element;
    };
    return {
      controls: [layers.element, heads.element, groups.element, width.element, dtype.element],
      body: [
        h("div", { class: "att-full" }, h("p", { class: "att-words" }, ...words), steps.element),
        side("Without a cache", plain.element),
        side("With a cache", cached.element),
        h(
          "p",
          { class: "att-full att-note att-legend" },
          ...["● made now, and needed", "○ read from the cache", "× made again, in vain"].map((text) =>
            h("span", {}, text),
          ),
        ),
        half("Multiply-adds so far", worked.element),
        half("Bytes kept for the next token", held.element),
        h(
          "div",
          { class: "att-full att-counts" },
          context.element,
          counts.element,
          h(
            "p",
            { class: "att-note" },
            "Of the attention layers alone, M = HD wide, one text at a time: 2MD(H + G) multiply-adds to project a token, " +
              "2HD for each query and key, hidden or not; 2GD numbers kept a token and layer. M, G, T, P, E: 10⁶, 10⁹, 10¹², 10¹⁵, 10¹⁸.",
          ),
        ),
      ],
      look: "att-many att-counting att-boxed",
      draw() {
        const of = {
          layers: state.get("layers"),
          heads: state.get("heads"),
          kvHeads: state.get("kv_heads"),
          width: state.get("d_head"),
          size: SIZES[state.get("dtype")],
        };
        const [t, far] = [Math.min(state.get("step"), n), state.get("context")];
        steps.show(t, n);
        layers.show(of.layers);
        heads.show(Math.log2(of.heads));
        groups.input.max = String(Math.log2(of.heads));
        groups.show(Math.log2(of.kvHeads));
        width.show(Math.log2(of.width));
        context.show(Math.log2(far));
        dtype.show(state.get("dtype"));
        const tokens = state.get("tokens");
        words.forEach((word, j) => {
          say(word, tokens[j]);
          set(word, { title: tokens[j] });
          word.className = j + 1 < t ? "att-past" : j + 1 === t ? "att-present" : "att-ahead";
        });
        plain.show(t);
        cached.show(t);

        const [soFar, end] = [workSoFar(of, t), workSoFar(of, n).without];
        const ratio = times(soFar.without / soFar.with);
        worked.show([soFar.without / end, soFar.with / end], [`${count(soFar.without)}, ${ratio}`, count(soFar.with)]);
        const all = { ...of, kvHeads: of.heads };
        held.show([kept(of, t) / kept(all, n), kept(all, t) / kept(all, n)], [bytes(kept(of, t)), bytes(kept(all, t))]);
        /** @param {{without: number, with: number}} pair @param {(x: number) => string} text */
        const line = (pair, text) => [text(pair.without), text(pair.with), times(pair.without / pair.with)];
        /** @param {number} at */
        const stays = (at) => ["0 B", bytes(kept(of, at)), ""];
        const name = far.toLocaleString("en-US");
        counts.show(
          [
            line(work(of, t), count),
            line(made(of, t), bytes),
            stays(t),
            line(work(of, far), count),
            line(workSoFar(of, far), count),
            line(made(of, far), bytes),
            stays(far),
          ],
          [
            `token ${t}: multiply-adds`,
            `token ${t}: made in a layer, and dropped`,
            `token ${t}: kept`,
            `token ${name}: multiply-adds`,
            `tokens 1 to ${name}: multiply-adds`,
            `token ${name}: made in a layer, and dropped`,
            `token ${name}: kept`,
          ],
        );
        return (
          `Token ${t}, ${quoted(tokens[t - 1])}. Without a cache ${t === 1 ? "one token is" : `all ${t} tokens are`} projected and ${t * t} ${t === 1 ? "score" : "scores"} made in each head; ` +
          `with one, a single token and ${t} ${t === 1 ? "score" : "scores"}. So far that is ${t === 1 ? "as much work" : `${ratio.replace(" ×", " times")} the work`}; ` +
          `the cache holds ${bytes(kept(of, t))}, ${bytes(kept(of, 1))} a token.`
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
