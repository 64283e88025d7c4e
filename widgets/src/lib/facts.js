// What a figure counts: a small table of text, and bars that grow.

import { h, say, set } from "./dom.js";

/** @param {{caption: string, rows: string[], columns: string[]}} options */
export function facts({ caption, rows, columns }) {
  const cells = rows.map(() => columns.map(() => h("td", {})));
  const sides = rows.map((text) => h("th", { scope: "row" }, text));
  return {
    element: h(
      "div",
      { class: "att-scroll" },
      h(
        "table",
        { class: "att-table att-facts" },
        h("caption", {}, caption),
        h("thead", {}, h("tr", {}, h("td", {}), ...columns.map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, ...cells.map((row, i) => h("tr", {}, sides[i], ...row))),
      ),
    ),
    /** @param {string[][]} texts @param {string[]} [names] */
    show(texts, names = []) {
      names.forEach((text, i) => void say(sides[i], text));
      texts.forEach((row, i) => {
        row.forEach((text, j) => void say(cells[i][j], text));
      });
    },
  };
}

/** @param {string[]} names  one bar each @param {string} [role]  a name of the palette */
export function bars(names, role = "") {
  const heads = names.map((name) => h("span", {}, name));
  const fills = names.map(() => h("span", { class: "att-bar" }));
  const sizes = names.map(() => h("span", { class: "att-amount" }));
  const element = h(
    "div",
    { class: `att-bars${role ? ` att-${role}` : ""}` },
    ...names.map((_, i) =>
      h("div", {}, heads[i], h("span", { class: "att-track", "aria-hidden": true }, fills[i]), sizes[i]),
    ),
  );
  return {
    element,
    /** @param {number[]} shares  0 to 1 @param {string[]} amounts @param {string[]} [texts]  other names */
    show(shares, amounts, texts = []) {
      texts.forEach((text, i) => void say(heads[i], text));
      shares.forEach((share, i) => {
        set(fills[i], { style: `width: ${(100 * Math.min(1, share)).toFixed(2)}%` });
        say(sizes[i], amounts[i]);
      });
    },
  };
}
