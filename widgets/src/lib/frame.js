// The frame of every figure: controls, a body, a line that says what is seen, a way back.

import { h, say } from "./dom.js";
import { bind } from "./model.js";

/**
 * Build a figure in `el`; returns what an anywidget's `render` returns, the clean-up.
 * @param {import("./model.js").Context} context
 * @param {string} name  of the figure; its style sheet applies inside `.att-<name>` alone
 * @param {string[]} names  the traits that it draws
 * @param {(state: import("./model.js").State) => {controls?: Node[], body: Node[], look?: string, draw: () => string}} build
 *   `look`: shared classes of the style sheet; `draw` brings the body up to date and returns the sentence that is announced
 */
export function frame({ model, el }, name, names, build) {
  const state = bind(model, [...names, "alt"]);
  const status = h("p", { class: "att-status", role: "status" });
  const { controls = [], body, look = "", draw } = build(state);
  const reset = h("button", { type: "button", class: "att-reset", onclick: () => state.reset() }, "Reset");
  const root = h(
    "div",
    { class: `att-figure att-${name} ${look}`, role: "group" },
    h("div", { class: "att-controls" }, ...controls, reset),
    h("div", { class: "att-body" }, ...body),
    status,
  );
  el.replaceChildren(root);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let later;
  state.onChange(() => {
    root.setAttribute("aria-label", String(model.get("alt")));
    const sentence = draw();
    // A screen reader is told when the hand rests, not at each step of a drag.
    clearTimeout(later);
    if (status.textContent) later = setTimeout(() => say(status, sentence), 250);
    else say(status, sentence);
  });
  return () => {
    clearTimeout(later);
    state.stop();
  };
}
