// MaskEditor: rules about pairs, joined; the table that they make, single cells by hand; the weights that follow.

import { choice, menu, slider, toggle } from "./lib/controls.js";
import { h, number, say, set } from "./lib/dom.js";
import { frame } from "./lib/frame.js";
import { code, compute, mask, names, parted, RULES, withCell } from "./lib/rules.js";
import { table } from "./lib/table.js";

/** @typedef {import("./lib/rules.js").Given} Given */
/** @typedef {import("./lib/rules.js").Name} Name */

const TRAITS = [...RULES, "tokens", "length", "side", "width", "ids", "by_hand", "scores", "inverted", "empty"];

const WAYS = {
  zeros: "weight 0: companion, SDPA",
  nan: "score −∞, plain softmax",
  uniform: "score −1e9, plain softmax",
};

/** Cells with weight where the mask says that there must be none. @param {ReturnType<typeof compute>} now */
const leaking = (now) =>
  now.weights.flatMap((line, q) => line.flatMap((a, k) => (a >= 0.005 && !now.allowed[q][k] ? [[q, k]] : [])));

/** @param {Given} given @param {ReturnType<typeof compute>} now @param {string[]} tokens */
function sentence(given, now, tokens) {
  const size = tokens.length;
  const open = now.seen.flat().filter(Boolean).length;
  const rows = now.blind.map((q) => `${q + 1} (${tokens[q]})`).join(", ");
  const who = now.blind.length === size ? "All rows" : `${now.blind.length > 1 ? "Rows" : "Row"} ${rows}`;
  const fate = {
    zeros: "weights of zero",
    nan: "∞ − ∞ is NaN, and the next layer carries it to every row",
    uniform: `a tie at −1e9 gives each key ${number(1 / size)}, the hidden ones too`,
  }[given.empty];
  const empties = now.blind.length ? `${who} may see nothing: ${fate}.` : "No row is empty.";
  const shares = `Of the real tokens' weight ${number(now.onPads)} lies on padding and ${number(now.onLater)} on later tokens.`;
  const read = given.inverted ? "Read the other way round (such a model wants ~mask), " : "";
  const leaks = leaking(now).length;
  const marked = leaks ? ` ${leaks} weights, framed in dashes, stand where the mask has F.` : "";
  return `${read}${open} of ${size * size} pairs may attend. ${shares} ${empties}${marked}`;
}

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "mask_editor", TRAITS, (state) => {
    const given = () => /** @type {Given} */ (Object.fromEntries(TRAITS.map((name) => [name, state.get(name)])));
    /** @type {string[]} */
    const tokens = state.get("tokens");
    const size = tokens.length;
    const each = tokens.map((_, k) => k);

    const length = slider({
      label: "real tokens",
      min: 0,
      max: size,
      step: 1,
      role: "key",
      onset: (x) => state.set({ length: x }),
    });
    const side = choice({
      label: "padding on the",
      options: [
        { value: "right", text: "right" },
        { value: "left", text: "left" },
      ],
      onset: (x) => state.set({ side: x }),
    });
    const width = slider({
      label: "less than",
      min: 1,
      max: size,
      step: 1,
      role: "key",
      show: (x) => `${x} apart`,
      onset: (x) => state.set({ width: x }),
    });
    const breaks = each.slice(1).map((k) =>
      h("button", {
        type: "button",
        class: "att-button",
        onclick: () => state.set({ ids: parted(state.get("ids"), k) }),
      }),
    );
    const rules = [
      { name: "causal", text: "causal: the key comes no later", more: [] },
      { name: "padding", text: "padding: the key is a real token", more: [length.element, side.element] },
      { name: "window", text: "window: both are near each other", more: [width.element] },
      { name: "document", text: "documents: both are in the same", more: [h("span", {}, "begin at"), ...breaks] },
    ].map(({ name, text, more }) => {
      const box = toggle({ label: text, onset: (on) => state.set({ [name]: on ? "and" : "off" }) });
      const how = menu({ label: `how ${name} is joined`, onset: (x) => state.set({ [name]: x }) });
      const rest = h("div", { class: "att-more" }, ...more);
      return {
        name: /** @type {Name} */ (name),
        box,
        how,
        rest,
        row: h("div", { class: "att-rule" }, how.element, box.element, rest),
      };
    });

    const cells = table({
      caption: "The mask (hatched: hidden)",
      rows: tokens,
      columns: tokens,
      rowName: "query",
      columnName: "key",
      onpress: (q, k) => {
        if (!painted) put(q, k, !mask(given())[q][k]);
      },
    });
    const ends = each.map(() => h("td", { class: "att-end" }));
    cells.cells.forEach((line, q) => void line[0].parentElement?.append(ends[q]));
    const shares = table({ caption: "Weights A", rows: tokens, columns: tokens, rowName: "query", columnName: "key" });

    /** @param {number} q @param {number} k @param {boolean} allowed */
    const put = (q, k, allowed) => state.set({ by_hand: withCell(given(), q, k, allowed) });
    // A stroke sets every cell that it crosses to what a click would have made of the first.
    /** @type {{q: number, k: number, allowed: boolean} | null} */
    let stroke = null;
    let painted = false;
    const where = (/** @type {EventTarget | null} */ target) => {
      const cell = target instanceof Element ? target.closest("[role=gridcell]") : null;
      const q = cells.cells.findIndex((line) => line.includes(/** @type {any} */ (cell)));
      return q < 0 ? null : { q, k: cells.cells[q].indexOf(/** @type {any} */ (cell)) };
    };
    cells.element.classList.add("att-mask");
    cells.element.addEventListener("pointerdown", (event) => {
      const at = where(event.target);
      painted = false;
      stroke = at && event.isPrimary && event.button === 0 ? { ...at, allowed: !mask(given())[at.q][at.k] } : null;
    });
    cells.element.addEventListener("pointermove", (event) => {
      if (!stroke || !event.buttons) return;
      const root = /** @type {Document} */ (cells.element.getRootNode());
      const at = where(root.elementFromPoint(event.clientX, event.clientY)); // a finger's events stay with its first cell
      if (!at || (!painted && at.q === stroke.q && at.k === stroke.k)) return;
      if (!painted) put(stroke.q, stroke.k, stroke.allowed);
      painted = true;
      put(at.q, at.k, stroke.allowed);
    });
    const lift = () => {
      stroke = null;
    };
    cells.element.addEventListener("pointerup", lift);
    cells.element.addEventListener("pointercancel", lift);

    const inverted = toggle({
      label: "the model reads T as hidden (nn.MultiheadAttention)",
      onset: (on) => state.set({ inverted: on }),
    });
    const empty = choice({
      label: "Hide by",
      options: Object.entries(WAYS).map(([value, text]) => ({ value, text })),
      onset: (x) => state.set({ empty: x }),
    });
    const source = h("code", {});
    const half = size > 7 ? "att-full" : "att-half";
    return {
      controls: [
        h(
          "fieldset",
          { class: "att-rules" },
          h("legend", {}, "A query may look at a key"),
          ...rules.map((rule) => rule.row),
        ),
      ],
      body: [
        h(
          "div",
          { class: half },
          cells.element,
          h("p", { class: "att-note" }, "T: True, F: False. Click a cell, or press Space in it, to set it by hand."),
          inverted.element,
        ),
        h("div", { class: half }, shares.element, empty.element),
        h("pre", { class: "att-code" }, source),
      ],
      draw() {
        const g = given();
        const now = compute(g);
        const shown = names(g);
        let first = true;
        for (const { name, box, how, rest } of rules) {
          const on = g[name] !== "off";
          box.show(on);
          const joins = first
            ? [
                ["and", "if"],
                ["and not", "if not"],
              ]
            : ["and", "or", "and not", "or not"].map((x) => [x, x]);
          const chosen = first ? g[name].replace("or", "and") : g[name];
          how.show(
            on ? chosen : "off",
            on ? joins.map(([value, text]) => ({ value, text })) : [{ value: "off", text: "–" }],
          );
          how.element.disabled = !on;
          rest.hidden = !on && name !== "padding"; // padding is there, whether a rule says so or not
          if (on) first = false;
        }
        length.show(g.length);
        side.show(g.side);
        width.show(g.width);
        breaks.forEach((button, i) => {
          say(button, shown[i + 1]);
          set(button, {
            "aria-pressed": String(g.ids[i + 1] !== g.ids[i]),
            "aria-label": `${shown[i + 1]}, place ${i + 2}`,
          });
        });
        inverted.show(g.inverted);
        empty.show(g.empty);

        const byHand = new Set(g.by_hand.map(([q, k]) => q * size + k));
        const labels = { rows: shown, columns: shown };
        cells.show(
          now.seen.map((line) => line.map(Number)),
          {
            hidden: now.seen.map((line) => line.map((yes) => !yes)),
            names: labels,
            texts: {
              shown: now.allowed.map((line) => line.map((yes) => (yes ? "T" : "F"))),
              said: now.allowed.map((line, q) =>
                line.map(
                  (yes, k) =>
                    `${yes ? "True" : "False"}, ${now.seen[q][k] ? "may attend" : "hidden"}${byHand.has(q * size + k) ? ", set by hand" : ""}`,
                ),
              ),
            },
          },
        );
        cells.cells.forEach((line, q) => {
          line.forEach((cell, k) => void cell.classList.toggle("att-by-hand", byHand.has(q * size + k)));
          say(ends[q], now.blind.includes(q) ? "empty" : "");
        });
        shares.show(now.weights, {
          names: labels,
          hidden: now.seen.map((line, q) => line.map((yes, k) => !yes && now.weights[q][k] === 0)),
          marked: leaking(now),
        });
        say(source, code(g));
        return sentence(g, now, shown);
      },
    };
  });
}

export default { render };
