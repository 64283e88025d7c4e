// Controls that the browser knows how to work by key, finger and screen reader.

import { h, say, set } from "./dom.js";

let made = 0;
/** An id that no other control on the page has. */
const id = () => `att-${(made++).toString(36)}-${Math.random().toString(36).slice(2, 8)}`;

/**
 * A slider with its name before it and its value behind it.
 * @param {{label: string, min: number, max: number, step: number, show?: (value: number) => string,
 *   onset: (value: number) => void, role?: string}} options
 */
export function slider({ label, min, max, step, show = String, onset, role }) {
  const name = id();
  const input = h("input", {
    type: "range",
    id: name,
    min,
    max,
    step,
    oninput: () => onset(Number(input.value)),
  });
  const value = h("output", { for: name });
  const element = h(
    "div",
    { class: `att-slider${role ? ` att-${role}` : ""}` },
    h("label", { for: name }, label),
    input,
    value,
  );
  return {
    element,
    input,
    /** @param {number} x */
    show(x) {
      if (Number(input.value) !== x) input.value = String(x);
      const text = show(x);
      say(value, text);
      set(input, { "aria-valuetext": text });
    },
  };
}

/**
 * One of several.
 * @param {{label: string, options: {value: string, text: string}[], onset: (value: string) => void}} options
 */
export function choice({ label, options, onset }) {
  const group = id();
  const inputs = options.map(({ value }) =>
    h("input", { type: "radio", name: group, id: `${group}-${value}`, value, onchange: () => onset(value) }),
  );
  const element = h(
    "fieldset",
    { class: "att-choice" },
    h("legend", {}, label),
    ...options.map(({ value, text }, i) =>
      h("span", { class: "att-option" }, inputs[i], h("label", { for: `${group}-${value}` }, text)),
    ),
  );
  return {
    element,
    /** @param {string} chosen */
    show(chosen) {
      for (const input of inputs) input.checked = input.value === chosen;
    },
  };
}

/**
 * On or off.
 * @param {{label: string, onset: (on: boolean) => void}} options
 */
export function toggle({ label, onset }) {
  const name = id();
  const input = h("input", { type: "checkbox", id: name, onchange: () => onset(input.checked) });
  return {
    element: h("div", { class: "att-toggle" }, input, h("label", { for: name }, label)),
    /** @param {boolean} on */
    show(on) {
      input.checked = on;
    },
  };
}

/**
 * One of several, folded up. Its options may change; the name is for who hears the page.
 * @param {{label: string, onset: (value: string) => void}} options
 */
export function menu({ label, onset }) {
  const element = h("select", { class: "att-menu", "aria-label": label, onchange: () => onset(element.value) });
  return {
    element,
    /** @param {string} chosen @param {{value: string, text: string}[]} options */
    show(chosen, options) {
      const same = options.every(({ text }, i) => element.options[i]?.text === text);
      if (!same || element.options.length !== options.length)
        element.replaceChildren(...options.map(({ value, text }) => h("option", { value }, text)));
      element.value = chosen;
    },
  };
}

/** @param {string} text @param {() => void} onclick */
export const button = (text, onclick) => h("button", { type: "button", class: "att-button", onclick }, text);

/**
 * A small matrix to edit, number by number.
 * @param {{label: string, rows: number, columns: number, limit: number, step?: number, role?: string,
 *   onset: (matrix: number[][]) => void}} options
 */
export function matrix({ label, rows, columns, limit, step = 0.1, role, onset }) {
  /** @type {number[][]} */
  let now = [];
  const inputs = Array.from({ length: rows }, (_, i) =>
    Array.from({ length: columns }, (_, j) =>
      h("input", {
        type: "number",
        min: -limit,
        max: limit,
        step,
        "aria-label": `${label}, row ${i + 1}, column ${j + 1}`,
        onchange: (/** @type {Event} */ event) => {
          const input = /** @type {HTMLInputElement} */ (event.target);
          const x = Number.parseFloat(input.value);
          // What is no number, or out of range, is not taken; what stands in the field then is.
          const kept = Number.isFinite(x) ? Math.min(limit, Math.max(-limit, x)) : now[i][j];
          input.value = String(kept);
          onset(now.map((row, a) => row.map((old, b) => (a === i && b === j ? kept : old))));
        },
      }),
    ),
  );
  const element = h(
    "fieldset",
    { class: `att-matrix${role ? ` att-${role}` : ""}` },
    h("legend", {}, label),
    ...inputs.map((row) => h("div", {}, ...row)),
  );
  return {
    element,
    /** @param {number[][]} matrix @param {boolean} [open] */
    show(matrix, open = true) {
      now = matrix;
      for (const [i, row] of inputs.entries())
        for (const [j, input] of row.entries()) {
          if (Number(input.value) !== matrix[i][j] || input.value === "") input.value = String(matrix[i][j]);
          input.disabled = !open;
        }
    },
  };
}
