// A table of numbers as coloured cells: one stop for the Tab key, arrows inside, each cell read aloud.

import { signed, weight } from "./colour.js";
import { h, number, say, set } from "./dom.js";

/**
 * @param {{caption: string, rows: string[], columns: string[], digits?: number, kind?: "weight" | "signed" | "plain",
 *   rowName?: string, columnName?: string, onpick?: (i: number, j: number) => void,
 *   onpress?: (i: number, j: number) => void}} options
 *   `onpick`: a cell was reached by arrow, click or touch; `onpress`: it was clicked, or Space or Enter pressed in it
 */
export function table(options) {
  const {
    caption,
    rows,
    columns,
    digits = 2,
    kind = "weight",
    rowName = "",
    columnName = "",
    onpick,
    onpress,
  } = options;
  let at = [0, 0];
  const cells = rows.map((_, i) =>
    columns.map((_, j) =>
      h("td", {
        class: onpick || onpress ? "att-open" : null,
        tabindex: i || j ? -1 : 0,
        role: "gridcell",
        onclick: () => {
          reach(i, j);
          onpress?.(i, j);
        },
        onfocus: () => reach(i, j),
      }),
    ),
  );
  const heads = columns.map((text) => h("th", { scope: "col" }, text));
  const sides = rows.map((text) => h("th", { scope: "row" }, text));
  const corner = [rowName && `${rowName}\u00a0↓`, columnName && `${columnName}\u00a0→`].filter(Boolean).join(" ");
  const element = h(
    "div",
    { class: "att-scroll", style: `--att-columns: ${columns.length}` },
    h(
      "table",
      { class: "att-table", role: "grid", "aria-label": caption, onkeydown: move },
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, h("td", { class: "att-corner" }, corner), ...heads)),
      h("tbody", {}, ...cells.map((row, i) => h("tr", {}, sides[i], ...row))),
    ),
  );

  /** @param {number} i @param {number} j */
  function reach(i, j) {
    cells[at[0]][at[1]].tabIndex = -1;
    at = [i, j];
    cells[i][j].tabIndex = 0;
    onpick?.(i, j);
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    if (onpress && (event.key === " " || event.key === "Enter")) {
      event.preventDefault();
      onpress(at[0], at[1]);
    }
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const end = { Home: [at[0], 0], End: [at[0], columns.length - 1] }[event.key];
    if (!step && !end) return;
    const [i, j] = end ?? [at[0] + /** @type {number[]} */ (step)[0], at[1] + /** @type {number[]} */ (step)[1]];
    event.preventDefault();
    cells[i]?.[j]?.focus();
  }

  return {
    element,
    cells,
    /**
     * @param {number[][]} numbers
     * @param {{limit?: number, hidden?: boolean[][] | null, picked?: number[] | null, marked?: number[][], names?: {rows: string[], columns: string[]},
     *   texts?: {shown: string[][], said: string[][]}}} [options]
     *   `limit`: what gets the full colour; `hidden`: hatched, no number; `picked`: the cell in a frame; `marked`: those that it was made from;
     *   `names`: of rows and columns, long ones cut by the style sheet; `texts`: in place of the numbers
     */
    show(numbers, { limit = 1, hidden = null, picked = null, marked = [], names, texts } = {}) {
      const title = (/** @type {HTMLElement} */ head, /** @type {string} */ text) => {
        say(head, text);
        set(head, { title: text });
      };
      names?.rows.forEach((text, i) => void title(sides[i], text));
      names?.columns.forEach((text, j) => void title(heads[j], text));
      for (const [i, row] of cells.entries()) {
        for (const [j, cell] of row.entries()) {
          const x = numbers[i][j];
          const closed = hidden?.[i][j] ?? false;
          const share = Math.abs(x) / limit;
          const text = texts?.said[i][j] ?? (closed ? "hidden" : number(x, digits));
          const fill = kind === "plain" || closed ? "" : kind === "weight" ? weight(share) : signed(x, limit);
          say(cell, texts?.shown[i][j] ?? (closed ? "" : text));
          if (cell.style.getPropertyValue("--att-fill") !== fill) cell.style.setProperty("--att-fill", fill);
          cell.classList.toggle("att-hidden", closed);
          cell.classList.toggle("att-picked", picked?.[0] === i && picked?.[1] === j);
          cell.classList.toggle(
            "att-marked",
            marked.some(([a, b]) => a === i && b === j),
          );
          set(cell, { "aria-label": `${sides[i].textContent}, ${heads[j].textContent}: ${text}` });
        }
      }
    },
  };
}
