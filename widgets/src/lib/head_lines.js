// Queries on the left, keys on the right, and the lines of one of them: as wide as its weights.

import { h, s, say, set } from "./dom.js";
import { short } from "./heads.js";

/** @typedef {"query" | "key"} Side */
/** @typedef {{side: Side, token: number}} Spot  one token */

const ROW = 24; // pixels of a token: what a finger needs
const FAINT = 0.15;

/**
 * @param {{L: number, S: number, onpoint: (to: Spot | null) => void, onpick: (to: Spot) => void}} options
 *   `onpoint`: the mouse is at a token, or away
 */
export function headLines({ L, S, onpoint, onpick }) {
  const count = { query: L, key: S };
  /** @param {Side} side */
  const tokens = (side) =>
    Array.from({ length: count[side] }, (_, token) => {
      const [word, share] = [h("span", { class: "att-word" }), h("span", { class: "att-share" })];
      const option = h(
        "div",
        {
          role: "option",
          class: "att-token",
          onclick: () => onpick({ side, token }),
          onpointerenter: (/** @type {PointerEvent} */ event) => {
            if (event.pointerType !== "touch") onpoint({ side, token });
          },
        },
        word,
        " ", // between the two, where both are read out
        share,
      );
      return { word, share, option };
    });
  const all = { query: tokens("query"), key: tokens("key") };

  /** @param {Side} side @param {KeyboardEvent} event */
  function walk(side, event) {
    const here = all[side].findIndex(({ option }) => option === event.target);
    /** @type {[Side, number] | undefined} */
    const to = {
      ArrowUp: /** @type {[Side, number]} */ ([side, here - 1]),
      ArrowDown: /** @type {[Side, number]} */ ([side, here + 1]),
      ArrowLeft: /** @type {[Side, number]} */ (["query", here]),
      ArrowRight: /** @type {[Side, number]} */ (["key", here]),
      Home: /** @type {[Side, number]} */ ([side, 0]),
      End: /** @type {[Side, number]} */ ([side, count[side] - 1]),
      " ": /** @type {[Side, number]} */ ([side, here]),
      Enter: /** @type {[Side, number]} */ ([side, here]),
    }[event.key];
    if (!to || here < 0) return;
    event.preventDefault();
    const spot = { side: to[0], token: Math.max(0, Math.min(count[to[0]] - 1, to[1])) };
    onpoint(null);
    onpick(spot);
    const { option } = all[spot.side][spot.token];
    option.tabIndex = 0; // at once, so that it can be focused
    option.focus();
  }

  /** @param {Side} side */
  const list = (side) =>
    h(
      "div",
      {
        role: "listbox",
        class: `att-list att-${side}`,
        "aria-label": side === "query" ? "queries" : "keys",
        onkeydown: (/** @type {KeyboardEvent} */ event) => walk(side, event),
      },
      h("div", { class: "att-side", "aria-hidden": true }, side),
      ...all[side].map(({ option }) => option),
    );
  const tall = Math.max(L, S) * ROW;
  const lines = Array.from({ length: Math.max(L, S) }, () => s("line", { x1: 0, x2: 100 }));
  const element = h(
    "div",
    { class: "att-web", onpointerleave: () => onpoint(null) },
    list("query"),
    s(
      "svg",
      {
        viewBox: `0 0 100 ${tall}`,
        preserveAspectRatio: "none",
        style: `height: ${tall}px`,
        "aria-hidden": true,
      },
      ...lines,
    ),
    list("key"),
  );
  return {
    element,
    /**
     * @param {Spot} spot  whose lines @param {Spot} stop  where the Tab key comes in @param {number[]} line  its weights
     * @param {Record<Side, string[]>} texts @param {Record<Side, string[]>} names  as they are said
     * @param {Record<Side, boolean[]>} faded
     */
    show(spot, stop, line, texts, names, faded) {
      const across = spot.side === "query";
      const other = across ? "key" : "query";
      lines.forEach((each, i) => {
        const a = line[i] ?? 0;
        const [from, to] = across ? [spot.token, i] : [i, spot.token];
        set(each, {
          y1: (from + 0.5) * ROW,
          y2: (to + 0.5) * ROW,
          "stroke-width": (0.5 + 7 * a).toFixed(2),
          opacity: a < 0.005 ? 0 : faded[other][i] ? FAINT : (0.3 + 0.7 * a).toFixed(2),
        });
      });
      for (const side of /** @type {const} */ (["query", "key"]))
        all[side].forEach(({ word, share, option }, i) => {
          const weighed = side === other;
          say(word, texts[side][i]);
          say(share, weighed ? short(line[i]) : "");
          set(option, {
            "aria-label": weighed ? `${names[side][i]} ${short(line[i])}` : names[side][i],
            "aria-selected": String(spot.side === side && spot.token === i),
            title: texts[side][i],
            // One stop in each list: at the chosen token, or else at the first.
            tabindex: (stop.side === side ? stop.token === i : i === 0) ? 0 : -1,
            style: weighed ? `--att-share: ${(100 * line[i] * (faded[side][i] ? FAINT : 1)).toFixed(1)}%` : null,
          });
          option.classList.toggle("att-faint", faded[side][i]);
        });
    },
  };
}
