// The matrix of scores cut into tiles, of which one exists at a time.

import { number, s, say, set } from "./dom.js";
import { box } from "./heat.js";

const [X, Y, W] = [34, 34, 330];

/** @param {number} most  queries, keys @param {(i: number, j: number) => void} onpick */
export function matrix(most, onpick) {
  const layers = {
    done: s("path", { class: "att-done" }),
    grid: s("path", { class: "att-lines" }),
    now: s("path", { class: "att-now" }),
    hatch: s("path", { class: "att-hatch" }),
    edges: s("path", { class: "att-edges" }),
    query: s("path", { class: "att-strip att-query" }),
    key: s("path", { class: "att-strip att-key" }),
  };
  const numbers = Array.from({ length: most * most }, () => s("text", { class: "att-number" }));
  const rows = Array.from({ length: most }, (_, i) => s("text", { class: "att-label" }, `q${i + 1}`));
  const columns = Array.from({ length: most }, (_, j) => s("text", { class: "att-label" }, `k${j + 1}`));
  let cell = 1;
  const element = s(
    "svg",
    {
      class: "att-chart att-matrix-of-scores",
      role: "img",
      "aria-label": "the scores, queries down and keys across, cut into tiles",
      onclick: (/** @type {MouseEvent} */ event) => {
        const at = element.getBoundingClientRect();
        const zoom = (X + W + 2) / at.width;
        onpick(
          Math.floor(((event.clientY - at.top) * zoom - Y) / cell),
          Math.floor(((event.clientX - at.left) * zoom - X) / cell),
        );
      },
    },
    ...Object.values(layers),
    ...rows,
    ...columns,
    ...numbers,
  );
  /** @param {number} i0 @param {number} i1 @param {number} j0 @param {number} j1 */
  const area = (i0, i1, j0, j1) => box(X + j0 * cell, Y + i0 * cell, (j1 - j0) * cell, (i1 - i0) * cell);
  return {
    element,
    /** @param {import("./tiles.js").Cut} cut @param {ReturnType<typeof import("./tiles.js").walk>["steps"]} steps @param {number} step */
    show(cut, steps, step) {
      const { L, S, causal } = cut;
      cell = Math.min(W / S, W / Math.max(L, 6));
      set(element, { viewBox: `0 0 ${X + W + 2} ${Y + L * cell + 2}` });
      const here = step ? steps[step - 1] : null;
      let [grid, hatch, edges] = ["", "", ""];
      const visited = new Set(steps.map(({ tile }) => `${tile.i0} ${tile.j0}`));
      for (let i = 0; i < L; i++)
        for (let j = 0; j < S; j++) {
          grid += area(i, i + 1, j, j + 1);
          if (causal && j > S - L + i) hatch += `M${X + j * cell} ${Y + (i + 1) * cell}l${cell} ${-cell}`;
        }
      for (let i0 = 0; i0 < L; i0 += cut.rows)
        for (let j0 = 0; j0 < S; j0 += cut.columns) {
          const [i1, j1] = [Math.min(L, i0 + cut.rows), Math.min(S, j0 + cut.columns)];
          if (visited.has(`${i0} ${j0}`)) edges += area(i0, i1, j0, j1);
        }
      const done = steps.slice(0, Math.max(0, step - 1)).map(({ tile: t }) => area(t.i0, t.i1, t.j0, t.j1));
      const t = here?.tile;
      set(layers.grid, { d: grid });
      set(layers.hatch, { d: hatch || null });
      set(layers.edges, { d: edges || null });
      set(layers.done, { d: done.join("") || null });
      set(layers.now, { d: t ? area(t.i0, t.i1, t.j0, t.j1) : null });
      set(layers.query, { d: t ? box(X - 6, Y + t.i0 * cell, 4, (t.i1 - t.i0) * cell) : null });
      set(layers.key, { d: t ? box(X + t.j0 * cell, Y - 6, (t.j1 - t.j0) * cell, 4) : null });
      rows.forEach((text, i) => {
        text.classList.toggle("att-small", L > 9);
        set(text, { x: X - 9, "text-anchor": "end", y: Y + (i + 0.5) * cell + 5, visibility: i < L ? null : "hidden" });
      });
      columns.forEach((text, j) => {
        const shown = j < S ? null : "hidden";
        text.classList.toggle("att-small", S > 9);
        set(text, { x: X + (j + 0.5) * cell, y: Y - 12, "text-anchor": "middle", visibility: shown });
      });
      numbers.forEach((text, k) => {
        const [r, c] = t ? [Math.floor(k / (t.j1 - t.j0)), k % (t.j1 - t.j0)] : [most, 0];
        const score = here?.scores[r]?.[c];
        const shown = score !== undefined && score !== -Infinity;
        say(text, shown ? number(score, cell < 36 ? 1 : 2) : "");
        if (!t || !shown) return;
        set(text, {
          x: X + (t.j0 + c + 0.5) * cell,
          y: Y + (t.i0 + r + 0.5) * cell + 5,
          "font-size": Math.min(13, cell / (cell < 36 ? 2.6 : 3.35)).toFixed(1),
        });
      });
    },
  };
}
