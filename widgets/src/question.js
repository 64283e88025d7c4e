// QuestionView: a question that answers at once, with the misconception behind a wrong answer.

import { button } from "./lib/controls.js";
import { h } from "./lib/dom.js";
import { readNumber, verdict } from "./lib/judge.js";

/** Text, with code between backticks. @param {string} text */
const prose = (text) => text.split("`").map((piece, i) => (i % 2 ? h("code", { class: "att-mono" }, piece) : piece));

/** Stars, as one says them. @param {string} text */
const spoken = (text) => text.replace(/★+☆*/, (stars) => ["easy", "medium", "hard"][stars.indexOf("☆") - 1] ?? "hard");

let made = 0;

/** A figure inside the question, drawn by its own script. @param {any} model */
async function drawn(model) {
  const url = URL.createObjectURL(new Blob([model.get("_esm")], { type: "text/javascript" }));
  const { default: script } = await import(url).finally(() => URL.revokeObjectURL(url));
  const el = h("div", {});
  const stop = script.render({ model, el });
  return { element: h("div", { class: "att-worked" }, h("style", {}, model.get("_css")), el), stop };
}

/** @param {import("./lib/model.js").Context & {model: {widget_manager: {get_model: (id: string) => Promise<any>}}}} context */
async function render({ model, el }) {
  const kind = model.get("kind");
  const name = model.get("figure")?.replace("IPY_MODEL_", "");
  const figure = name ? await model.widget_manager.get_model(name) : null;
  const inside = figure && (await drawn(figure));
  const id = `att-q-${(made++).toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
  const status = h("p", { class: "att-verdict", role: "status" });
  const prompt = () => prose(model.get("prompt"));

  /** @type {HTMLInputElement[]} */
  const picks = model
    .get("options")
    .map((/** @type {{name: string}} */ option, /** @type {number} */ i) =>
      h("input", { type: "radio", name: id, id: `${id}-${i}`, value: option.name, onchange: () => show() }),
    );
  const field = h("input", {
    type: "text",
    id,
    inputmode: "decimal",
    autocomplete: "off",
    class: "att-answer",
    oninput: () => show(),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") check();
    },
  });

  /** What stands on the page now, as it would be handed in; null if nothing does. */
  function draft() {
    if (kind === "choice") return picks.find((pick) => pick.checked)?.value ?? null;
    if (kind === "number") {
      const number = readNumber(field.value);
      return Number.isNaN(number) ? null : number;
    }
    return figure && Object.fromEntries(model.get("names").map((/** @type {string} */ n) => [n, figure.get(n)]));
  }

  /** @param {any} answer */
  function judged(answer) {
    const given = { choice: { choice: answer }, number: { value: answer } }[/** @type {string} */ (kind)] ?? answer;
    return verdict(model.get("cases"), model.get("hint"), given);
  }

  /** @param {"" | "right" | "wrong"} mood @param {string} text */
  function tell(mood, text) {
    if (status.dataset.text === text) return;
    status.dataset.text = text;
    status.className = `att-verdict ${mood && `att-${mood}`}`;
    status.replaceChildren(...prose(text));
  }

  /** The verdict, as long as what stands on the page is what was handed in. */
  function show() {
    const answer = model.get("answer");
    const given = answer !== null && JSON.stringify(sorted(draft())) === JSON.stringify(sorted(answer));
    if (!given) return tell("", model.get("before"));
    const { right, say } = judged(answer);
    tell(right ? "right" : "wrong", `${right ? "Right." : "Not yet."} ${say}`);
  }

  function check() {
    const answer = draft();
    if (answer === null) {
      const missing = kind === "number" && field.value.trim() ? "That is no number: write 0.45, .45 or 9/20." : null;
      return tell("wrong", missing ?? model.get("before"));
    }
    model.set("answer", answer);
    model.save_changes();
    show();
  }

  /** An answer from elsewhere: a cell of the notebook, or an earlier day. */
  function heard() {
    const answer = model.get("answer");
    for (const pick of picks) pick.checked = pick.value === answer;
    if (kind === "number" && answer !== null && readNumber(field.value) !== answer) field.value = String(answer);
    show();
  }

  const press =
    kind === "code"
      ? button("Hint", () => tell("", `${model.get("hint")} ${model.get("before")}`))
      : button("Check", check);
  const body = {
    choice: () =>
      h(
        "fieldset",
        { class: "att-ask" },
        h("legend", { class: "att-prompt" }, ...prompt()),
        ...model
          .get("options")
          .map((/** @type {{text: string}} */ option, /** @type {number} */ i) =>
            h("div", { class: "att-pick" }, picks[i], h("label", { for: `${id}-${i}` }, ...prose(option.text))),
          ),
        press,
      ),
    number: () =>
      h(
        "div",
        {},
        h("label", { for: id, class: "att-prompt" }, ...prompt()),
        h("div", { class: "att-entry" }, field, press),
      ),
    widget: () => h("div", {}, h("p", { class: "att-prompt" }, ...prompt()), inside?.element, press),
    code: () => h("div", {}, h("p", { class: "att-prompt" }, ...prompt()), press),
  }[/** @type {"choice" | "number" | "widget" | "code"} */ (kind)]();
  el.replaceChildren(
    h(
      "div",
      { class: "att-figure att-question", role: "group", "aria-label": spoken(model.get("alt")) },
      h(
        "p",
        { class: "att-about" },
        h("span", { role: "img", "aria-label": spoken(model.get("about")) }, model.get("about")),
      ),
      body,
      status,
    ),
  );
  heard();

  const watched = figure ? model.get("names") : [];
  model.on("change:answer", heard);
  for (const trait of watched) figure.on(`change:${trait}`, show);
  return () => {
    model.off("change:answer", heard);
    for (const trait of watched) figure.off(`change:${trait}`, show);
    inside?.stop?.();
  };
}

/** Names in order, so that two states can be compared as texts. @param {any} state */
const sorted = (state) =>
  state && typeof state === "object" && !Array.isArray(state)
    ? Object.fromEntries(Object.entries(state).sort(([a], [b]) => (a < b ? -1 : 1)))
    : state;

export default { render };
