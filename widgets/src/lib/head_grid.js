// Every head as a small picture, layers downward: one stop for the Tab key, arrows inside.

import { h, set } from "./dom.js";
import { paint } from "./pixels.js";

/**
 * @param {{layers: number, heads: number, L: number, S: number, onpick: (layer: number, head: number) => void}} options
 */
export function headGrid({ layers, heads, L, S, onpick }) {
  let chosen = [0, 0];
  const thumbs = Array.from({ length: layers }, (_, layer) =>
    Array.from({ length: heads }, (_, head) =>
      h("canvas", {
        role: "gridcell",
        class: "att-thumb",
        width: S,
        height: L,
        "aria-label": `layer ${layer}, head ${head}`,
        onclick: () => onpick(layer, head),
      }),
    ),
  );

  /** @param {KeyboardEvent} event */
  function walk(event) {
    const [layer, head] = chosen;
    const to = {
      ArrowUp: [layer - 1, head],
      ArrowDown: [layer + 1, head],
      ArrowLeft: [layer, head - 1],
      ArrowRight: [layer, head + 1],
      Home: [layer, 0],
      End: [layer, heads - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    const cell = thumbs[to[0]]?.[to[1]];
    if (!cell) return;
    onpick(to[0], to[1]);
    cell.tabIndex = 0; // at once, so that it can be focused
    cell.focus();
  }

  const widest = Math.max(26, Math.min(54, 320 / layers)) * heads + 40;
  const element = h(
    "div",
    {
      class: "att-heads",
      role: "grid",
      "aria-label": "all heads, layers downward",
      style: `grid-template-columns: auto repeat(${heads}, minmax(24px, 1fr)); max-width: ${widest}px`,
      onkeydown: walk,
    },
    h(
      "div",
      { role: "row", class: "att-line" },
      h("span", { role: "columnheader", class: "att-corner" }, "head"),
      ...thumbs[0].map((_, head) => h("span", { role: "columnheader" }, head)),
    ),
    ...thumbs.map((row, layer) =>
      h("div", { role: "row", class: "att-line" }, h("span", { role: "rowheader" }, layer), ...row),
    ),
  );
  return {
    element,
    /** @param {(n: number, q: number, k: number) => number} at  of the n-th head */
    paint(at) {
      thumbs.flat().forEach((thumb, n) => {
        paint(thumb, (q, k) => at(n, q, k));
      });
    },
    /** @param {number} layer @param {number} head */
    choose(layer, head) {
      chosen = [layer, head];
      thumbs.forEach((row, i) => {
        row.forEach((thumb, j) => {
          const here = i === layer && j === head;
          set(thumb, { "aria-selected": String(here), tabindex: here ? 0 : -1 });
        });
      });
    },
  };
}
