// PositionExplorer: four ways to tell attention where a token stands, and what each leaves of distance and direction.

import { choice, slider } from "./lib/controls.js";
import { say } from "./lib/dom.js";
import { frame } from "./lib/frame.js";
import { COUNT } from "./lib/positions.js";
import { distanceView, sinusoidView } from "./lib/positions_added.js";
import { alibiView, HEADS, rotaryView } from "./lib/positions_scored.js";

const NAMES = ["view", "position", "key_position", "shift", "pair", "width", "base", "query", "key", "heads", "head"];

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "position", NAMES, (state) => {
    const views = {
      sinusoids: { name: "sinusoids", ...sinusoidView(state) },
      distance: { name: "their products", ...distanceView(state) },
      rotary: { name: "rotary", ...rotaryView(state) },
      alibi: { name: "ALiBi", ...alibiView(state) },
    };
    const view = choice({
      label: "show",
      options: Object.entries(views).map(([value, { name }]) => ({ value, text: name })),
      onset: (x) => state.set({ view: x }),
    });
    /** @param {string} name @param {string} label @param {number} min @param {number} max @param {string} [role] */
    const whole = (name, label, min, max, role) =>
      slider({ label, min, max, step: 1, role, onset: (x) => state.set({ [name]: x }) });
    const width = slider({
      label: "features",
      min: 3,
      max: 6,
      step: 1,
      show: (x) => String(2 ** x),
      onset: (x) => state.set({ width: 2 ** x, pair: Math.min(state.get("pair"), 2 ** (x - 1) - 1) }),
    });
    const base = slider({
      label: "base",
      min: 1,
      max: 6,
      step: 1,
      show: (x) => (10 ** x).toLocaleString("en-US"),
      onset: (x) => state.set({ base: 10 ** x }),
    });
    const heads = slider({
      label: "heads",
      min: 1,
      max: HEADS,
      step: 1,
      onset: (x) => state.set({ heads: x, head: Math.min(state.get("head"), x - 1) }),
    });
    const head = slider({ label: "head", min: 1, max: HEADS, step: 1, onset: (x) => state.set({ head: x - 1 }) });
    const position = whole("position", "position", 0, COUNT - 1, "query");
    const key = whole("key_position", "position j", 0, COUNT - 1, "key");
    const shift = whole("shift", "move both by", 0, 1000);
    const pair = whole("pair", "pair", 0, 31);
    /** Which views have which slider. @type {[{element: HTMLElement}, string][]} */
    const uses = [
      [position, "sinusoids distance rotary"],
      [key, "distance rotary"],
      [shift, "distance rotary"],
      [pair, "sinusoids rotary"],
      [width, "sinusoids distance rotary"],
      [base, "sinusoids distance rotary"],
      [heads, "alibi"],
      [head, "alibi"],
    ];
    return {
      controls: [view.element, ...uses.map(([control]) => control.element)],
      body: Object.values(views).flatMap(({ element }) => element),
      look: "att-many",
      draw() {
        const now = /** @type {keyof typeof views} */ (state.get("view"));
        view.show(now);
        for (const [control, where] of uses) control.element.hidden = !where.split(" ").includes(now);
        for (const [name, { element }] of Object.entries(views)) for (const part of element) part.hidden = name !== now;
        const labels =
          now === "rotary"
            ? ["query's position", "key's position"]
            : [now === "sinusoids" ? "position" : "position i", "position j"];
        [position, key].forEach(({ element }, k) => {
          say(/** @type {Element} */ (element.firstElementChild), labels[k]);
        });
        position.show(state.get("position"));
        key.show(state.get("key_position"));
        shift.show(state.get("shift"));
        pair.input.max = String(state.get("width") / 2 - 1);
        pair.show(state.get("pair"));
        width.show(Math.log2(state.get("width")));
        base.show(Math.round(Math.log10(state.get("base"))));
        heads.show(state.get("heads"));
        head.input.max = String(state.get("heads"));
        head.show(state.get("head") + 1);
        return views[now].draw();
      },
    };
  });
}

export default { render };
