// SoftmaxExplorer: scores in, shares out; what temperature and shift do, and where the gradient dies.

import { slider } from "./lib/controls.js";
import { h, number, say } from "./lib/dom.js";
import { frame } from "./lib/frame.js";
import { entropy, frobenius, jacobian, softmax } from "./lib/maths.js";
import { table } from "./lib/table.js";

const LIMIT = 8;

/** @param {number[]} scores @param {number} temperature @param {number} shift */
export function compute(scores, temperature, shift) {
  const weights = softmax(scores.map((x) => (x + shift) / temperature));
  const answer = jacobian(weights);
  // By the scores as they are set: the temperature divides the slope as well.
  const slope = answer.map((row) => row.map((x) => x / temperature));
  return { weights, jacobian: slope, entropy: entropy(weights), norm: frobenius(slope) };
}

/** @param {import("./lib/model.js").Context} context */
function render(context) {
  return frame(context, "softmax", ["scores", "temperature", "shift"], (state) => {
    /** @type {number[]} */
    const first = state.get("scores");
    const names = first.map((_, i) => `key ${i + 1}`);
    const temperature = slider({
      label: "temperature",
      min: 0.1,
      max: 4,
      step: 0.1,
      show: (x) => number(x, 1),
      onset: (x) => state.set({ temperature: x }),
    });
    const shift = slider({
      label: "add to every score",
      min: -100,
      max: 100,
      step: 10,
      show: (x) => number(x, 0),
      onset: (x) => state.set({ shift: x }),
    });
    const rows = first.map((_, i) =>
      slider({
        label: `score of ${names[i]}`,
        min: -LIMIT,
        max: LIMIT,
        step: 0.1,
        show: (x) => number(x, 1),
        role: "key",
        onset: (x) =>
          state.set({
            scores: state.get("scores").map((/** @type {number} */ y, /** @type {number} */ j) => (j === i ? x : y)),
          }),
      }),
    );
    const bars = first.map(() => h("span", { class: "att-bar" }));
    const shares = first.map(() => h("span", {}));
    const slopes = table({
      caption: "Slopes ∂a / ∂z",
      rows: names.map((_, i) => `a${i + 1}`),
      columns: names.map((name) => `z${name.slice(4)}`),
      kind: "signed",
    });
    const list = h(
      "div",
      { class: "att-rows" },
      ...rows.map((row, i) =>
        h(
          "div",
          { class: "att-row" },
          row.element,
          h("div", { class: "att-track att-weight", "aria-hidden": true }, bars[i]),
          shares[i],
        ),
      ),
    );
    return {
      controls: [temperature.element, shift.element],
      body: [
        list,
        h(
          "div",
          { class: "att-slopes" },
          slopes.element,
          h(
            "p",
            { class: "att-note" },
            "Row a1, column z2: what weight 1 gains for each 1 that score 2 rises. A gradient on its way back is multiplied by this table.",
          ),
        ),
      ],
      draw() {
        const now = compute(state.get("scores"), state.get("temperature"), state.get("shift"));
        temperature.show(state.get("temperature"));
        shift.show(state.get("shift"));
        now.weights.forEach((a, i) => {
          rows[i].show(state.get("scores")[i]);
          bars[i].style.width = `${a * 100}%`;
          say(shares[i], number(a, 3));
        });
        slopes.show(now.jacobian, { limit: 0.25 });
        const most = now.weights.indexOf(Math.max(...now.weights));
        const even = Math.log(now.weights.length);
        return (
          `The largest weight is ${number(now.weights[most], 3)}, of ${names[most]}; entropy ${number(now.entropy)} nats, where equal weights have ${number(even)}; ` +
          `all slopes together have the norm ${number(now.norm, 3)}${now.norm < 0.01 ? ": hardly any gradient comes through" : ""}.`
        );
      },
    };
  });
}

export default { render };
