// A large table of signed numbers as coloured cells: a handful of paths, however many cells.

import { s, set } from "./dom.js";

const LEVELS = 20;

/** A rectangle, as a piece of a path. @param {number} x @param {number} y @param {number} w @param {number} h */
export const box = (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z`;

/** Cells of `width` × `height`, the first at `x`, `y`. @param {{x: number, y: number, width: number, height: number}} place */
export function heat({ x, y, width, height }) {
  const paths = ["positive", "negative"].map((sign) =>
    Array.from({ length: LEVELS }, (_, k) =>
      s("path", { fill: `var(--att-${sign})`, "fill-opacity": (k + 1) / LEVELS, "shape-rendering": "crispEdges" }),
    ),
  );
  return {
    element: s("g", { "aria-hidden": true }, ...paths.flat()),
    /** @param {number[][]} numbers @param {number} limit  what gets the full colour */
    show(numbers, limit) {
      const shapes = paths.map((levels) => levels.map(() => ""));
      const [w, h] = [width / numbers[0].length, height / numbers.length];
      for (const [i, row] of numbers.entries())
        for (const [j, value] of row.entries()) {
          const level = Math.min(LEVELS, Math.round((Math.abs(value) / limit) * LEVELS));
          if (level) shapes[value < 0 ? 1 : 0][level - 1] += box(x + j * w, y + i * h, w, h);
        }
      paths.forEach((levels, sign) => {
        levels.forEach((path, k) => void set(path, { d: shapes[sign][k] || null }));
      });
    },
  };
}
