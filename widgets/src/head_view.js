// HeadView: every head small, one large, and the lines of one token.

import { choice, toggle } from "./lib/controls.js";
import { h, number, say } from "./lib/dom.js";
import { frame } from "./lib/frame.js";
import { headGrid } from "./lib/head_grid.js";
import { headLines } from "./lib/head_lines.js";
import { headMap } from "./lib/head_map.js";
import { isSpecial, largest, told, unpack } from "./lib/heads.js";

/** @typedef {import("./lib/head_lines.js").Side} Side */
/** @typedef {import("./lib/head_lines.js").Spot} Spot */

const FAINT = 0.15;
const TRAITS = ["tokens", "queries", "weights", "layer", "head", "side", "token", "overview", "fade"];

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "head_view", TRAITS, (state) => {
    const [layers, heads, L, S] = state.get("weights").shape;
    /** @type {Spot | null} */
    let hover = null; // isolated for as long as the mouse is there
    /** @param {Spot | null} to */
    const onpoint = (to) => {
      if (hover?.side === to?.side && hover?.token === to?.token) return;
      hover = to;
      state.redraw();
    };
    const onpick = (/** @type {Spot} */ to) => state.set(to);

    const grid = headGrid({ layers, heads, L, S, onpick: (layer, head) => state.set({ layer, head }) });
    const map = headMap({ L, S, onpoint, onpick });
    const lines = headLines({ L, S, onpoint, onpick });
    const fade = toggle({
      label: "fade [CLS] and the like; no weight changes",
      onset: (on) => state.set({ fade: on }),
    });
    const overview = choice({
      label: "Small pictures:",
      options: [
        { value: "heads", text: "all tokens" },
        { value: "token", text: "the chosen one" },
      ],
      onset: (x) => state.set({ overview: x }),
    });
    const note = h("p", { class: "att-note" });

    /** @type {import("./lib/heads.js").Packed | null} */
    let packed = null;
    /** @type {number[]} */
    let all = [];
    let drawn = ""; // what the small pictures show
    return {
      controls: [overview.element, fade.element],
      body: [
        h("p", { class: "att-title att-full" }, "All heads: layers down, heads across"),
        h("div", { class: "att-scroll att-full" }, grid.element),
        map.element,
        lines.element,
        note,
      ],
      draw() {
        const given = /** @type {import("./lib/heads.js").Packed} */ (state.get("weights"));
        if (packed !== given) {
          packed = given;
          all = unpack(given);
          drawn = "";
          const parts = given.parts === 255 ? "255ths" : "65,535ths";
          say(
            note,
            `Layers and heads count from 0, as in code. Weights are rounded to whole ${parts} of one; ` +
              "the small pictures show their square roots.",
          );
        }
        const key = /** @type {string[]} */ (state.get("tokens"));
        const own = /** @type {string[]} */ (state.get("queries"));
        const texts = { query: own.length ? own : key, key };
        const names = { query: told(texts.query), key: told(key) };
        const [layer, head, fades] = [state.get("layer"), state.get("head"), state.get("fade")];
        const stop = {
          side: /** @type {Side} */ (state.get("side")),
          token: /** @type {number} */ (state.get("token")),
        };
        const spot = hover ?? stop;
        const across = spot.side === "query";
        const faded = {
          query: texts.query.map((x) => fades && isSpecial(x)),
          key: key.map((x) => fades && isSpecial(x)),
        };
        const strength = (/** @type {number} */ q, /** @type {number} */ k) =>
          faded.query[q] || faded.key[k] ? FAINT : 1;
        const start = (layer * heads + head) * L * S;
        const weight = (/** @type {number} */ q, /** @type {number} */ k) => all[start + q * S + k];
        const line = Array.from({ length: across ? S : L }, (_, i) =>
          across ? weight(spot.token, i) : weight(i, spot.token),
        );

        const alone = state.get("overview") === "token";
        overview.show(state.get("overview"));
        fade.show(fades);
        fade.element.hidden = ![...texts.query, ...key].some(isSpecial);
        const wanted = `${fades} ${alone && `${spot.side} ${spot.token}`}`;
        if (wanted !== drawn)
          grid.paint((n, q, k) => {
            const [i, j] = alone ? (across ? [spot.token, k] : [q, spot.token]) : [q, k];
            return Math.sqrt(all[n * L * S + i * S + j]) * strength(i, j);
          });
        drawn = wanted;
        grid.choose(layer, head);
        const label = `the weights of layer ${layer}, head ${head}: ${L} queries by ${S} keys`;
        map.show(label, weight, strength, texts, faded, spot);
        lines.show(spot, stop, line, texts, names, faded);
        return reading({ layer, head, ...spot }, line, names, faded[across ? "key" : "query"]);
      },
    };
  });
}

/**
 * A row or a column in words.
 * @param {{layer: number, head: number, side: Side, token: number}} here
 * @param {number[]} line  its weights
 * @param {Record<Side, string[]>} names
 * @param {boolean[]} faded  of the tokens on the other side
 */
export function reading({ layer, head, side, token }, line, names, faded) {
  const other = side === "query" ? "key" : "query";
  const found = largest(line, faded, 3);
  const first = found.first.map(({ a, k }) => `${names[other][k]} ${number(a)}`).join(", ") || "no other token";
  const does = side === "query" ? "looks at" : "is looked at by";
  const verb = side === "query" ? "share" : "give";
  const who = found.others === 1 ? `the other one ${verb}s` : `the other ${found.others} ${verb}`;
  const rest = found.others ? `; ${who} ${number(found.rest)}` : "";
  const special = faded.some(Boolean)
    ? `; special tokens ${side === "query" ? "take" : "give"} ${number(found.faded)}`
    : "";
  const sum = side === "key" ? ` In all it gets ${number(found.total)} of ${line.length} tokens’ weight.` : "";
  return `Layer ${layer}, head ${head}: ${names[side][token]} ${does} ${first}${rest}${special}.${sum}`;
}

export default { render };
