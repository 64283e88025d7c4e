// One head as a large picture, with its tokens on both sides.

import { h, s, say, set } from "./dom.js";
import { cut, short } from "./heads.js";
import { paint } from "./pixels.js";

/** @typedef {import("./head_lines.js").Spot} Spot */

const [LEFT, TOP, RIGHT] = [80, 70, 26];
const FULL = 0.62; // of the colour: numbers in ink stand on it
const NUMBERS_UP_TO = 12;

/**
 * @param {{L: number, S: number, onpoint: (to: Spot | null) => void, onpick: (to: Spot) => void}} options
 *   `onpoint`: the mouse is at a row, a column, or away
 */
export function headMap({ L, S, onpoint, onpick }) {
  const cell = Math.max(13, Math.min(34, Math.floor(250 / Math.max(L, S))));
  const [width, height] = [LEFT + S * cell + RIGHT, TOP + L * cell + 2];
  const canvas = h("canvas", { width: S, height: L });
  canvas.style.cssText =
    `left: ${(100 * LEFT) / width}%; top: ${(100 * TOP) / height}%;` +
    `width: ${(100 * S * cell) / width}%; height: ${(100 * L * cell) / height}%`;
  const middle = { "dominant-baseline": "central" };
  const rows = Array.from({ length: L }, (_, q) =>
    s("text", { x: LEFT - 5, y: TOP + (q + 0.5) * cell, "text-anchor": "end", ...middle }),
  );
  const columns = Array.from({ length: S }, (_, k) =>
    s("text", { transform: `translate(${LEFT + (k + 0.6) * cell} ${TOP - 5}) rotate(-60)` }),
  );
  const numbers = Array.from({ length: Math.max(L, S) <= NUMBERS_UP_TO ? L * S : 0 }, (_, i) =>
    s("text", {
      x: LEFT + ((i % S) + 0.5) * cell,
      y: TOP + (Math.floor(i / S) + 0.5) * cell,
      "text-anchor": "middle",
      class: "att-number",
      ...middle,
    }),
  );
  const edge = s("rect", { x: LEFT, y: TOP, width: S * cell, height: L * cell, class: "att-edge" });
  const band = s("rect", { class: "att-band" });
  const picture = s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img" },
    s("text", { x: 0, y: TOP - 22, class: "att-faint" }, "query ↓"),
    s("text", { x: 0, y: TOP - 6, class: "att-faint" }, "key →"),
    ...rows,
    ...columns,
    edge,
    ...numbers,
    band,
  );

  /** @param {MouseEvent} event @returns {Spot | null} */
  function under(event) {
    const box = picture.getBoundingClientRect();
    const k = Math.floor((((event.clientX - box.left) * width) / box.width - LEFT) / cell);
    const q = Math.floor((((event.clientY - box.top) * height) / box.height - TOP) / cell);
    if (q < 0 && k >= 0 && k < S) return { side: "key", token: k };
    return q >= 0 && q < L && k < S ? { side: "query", token: q } : null;
  }

  const element = h(
    "div",
    {
      class: "att-map",
      style: `max-width: ${width}px`,
      onpointermove: (/** @type {PointerEvent} */ event) =>
        onpoint(event.pointerType === "touch" ? null : under(event)),
      onpointerleave: () => onpoint(null),
      onclick: (/** @type {MouseEvent} */ event) => {
        const to = under(event);
        if (to) onpick(to);
      },
    },
    canvas,
    picture,
  );
  return {
    element,
    /**
     * @param {string} label
     * @param {(q: number, k: number) => number} weight @param {(q: number, k: number) => number} strength  1, or less where faded
     * @param {Record<"query" | "key", string[]>} texts @param {Record<"query" | "key", boolean[]>} faded
     * @param {Spot} spot  the row or column in a frame
     */
    show(label, weight, strength, texts, faded, spot) {
      paint(canvas, (q, k) => FULL * weight(q, k) * strength(q, k));
      set(picture, { "aria-label": label });
      for (const [side, labels] of /** @type {const} */ ([
        ["query", rows],
        ["key", columns],
      ]))
        labels.forEach((each, i) => {
          say(each, cut(texts[side][i], 9));
          const chosen = spot.side === side && spot.token === i;
          set(each, { class: chosen ? "att-chosen" : faded[side][i] ? "att-faint" : null });
        });
      numbers.forEach((each, i) => {
        say(each, short(weight(Math.floor(i / S), i % S)));
      });
      const across = spot.side === "query";
      set(band, {
        x: LEFT + (across ? 0 : spot.token * cell),
        y: TOP + (across ? spot.token * cell : 0),
        width: across ? S * cell : cell,
        height: across ? cell : L * cell,
      });
    },
  };
}
