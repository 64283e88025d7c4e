// Positions that are added: a heatmap of sinusoids, and the dot products that they have with each other.

import { chart } from "./chart.js";
import { h, number, s, say, set } from "./dom.js";
import { heat } from "./heat.js";
import { ALL, COUNT, frequencies, products, sinusoids } from "./positions.js";

/** @param {import("./model.js").State} state */
export function sinusoidView(state) {
  const [X, WIDE, TALL, W] = [40, 320, 256, 366];
  const cells = heat({ x: X, y: 0, width: WIDE, height: TALL });
  const row = s("rect", { x: X, width: WIDE, height: TALL / COUNT, class: "att-frame" });
  const column = s("rect", { y: 0, height: TALL, class: "att-frame" });
  const dials = Array.from({ length: 32 }, () => s("circle", { cy: TALL + 18, class: "att-dial" }));
  const hands = dials.map(() => s("line", { y1: TALL + 18, class: "att-hand" }));
  const ticks = [0, 16, 32, 48, 63].map((t) =>
    s("text", { x: X - 5, y: (t + 0.5) * (TALL / COUNT) + 5, "text-anchor": "end", class: "att-label" }, String(t)),
  );
  const map = s(
    "svg",
    {
      viewBox: `0 -4 ${W} ${TALL + 62}`,
      class: "att-chart att-map",
      role: "img",
      "aria-label": "Positions down, features across; under each pair of features a hand that the position turns.",
      onclick: (/** @type {MouseEvent} */ event) => {
        const at = map.getBoundingClientRect();
        const [x, y] = [event.clientX - at.left, event.clientY - at.top].map((v) => (v * W) / at.width);
        const share = Math.min(0.999, Math.max(0, (x - X) / WIDE));
        const pair = Math.floor((share * state.get("width")) / 2);
        const position = Math.floor(((y - 4) / TALL) * COUNT);
        state.set(y - 4 < TALL ? { pair, position: Math.max(0, position) } : { pair });
      },
    },
    cells.element,
    ...ticks,
    row,
    column,
    ...dials,
    ...hands,
    s(
      "text",
      { transform: `translate(10 ${TALL / 2}) rotate(-90)`, "text-anchor": "middle", class: "att-label" },
      "position",
    ),
    s("text", { x: X + WIDE / 2, y: TALL + 50, "text-anchor": "middle", class: "att-label" }, "blue −1, orange 1"),
    s("text", { x: X, y: TALL + 50, class: "att-label" }, "fast pairs"),
    s("text", { x: X + WIDE, y: TALL + 50, "text-anchor": "end", class: "att-label" }, "slow pairs"),
  );
  const waves = chart({ label: "the two features of one pair by position", name: "position", from: 0, to: COUNT });
  const lines = [waves.line("plain"), waves.line("dashed")];
  const points = [waves.dot("plain"), waves.dot("plain")];
  const title = h("p", { class: "att-title" });
  let drawn = "";
  return {
    element: [
      h("div", { class: "att-half" }, h("p", { class: "att-title" }, "What each position adds"), map),
      h("div", { class: "att-half" }, title, waves.element),
    ],
    draw() {
      const [t, c, width, base] = ["position", "pair", "width", "base"].map(state.get);
      const rows = sinusoids(ALL, width, base);
      const speeds = frequencies(width, base);
      if (drawn !== `${width} ${base}`) cells.show(rows, 1);
      drawn = `${width} ${base}`;
      const wide = WIDE / speeds.length;
      set(row, { y: (t * TALL) / COUNT });
      set(column, { x: X + c * wide, width: wide });
      const r = Math.min(10, wide / 2 - 0.5);
      dials.forEach((dial, k) => {
        const here = k < speeds.length;
        const x = X + (k + 0.5) * wide;
        set(dial, { cx: x, r: here ? r : 0 });
        dial.classList.toggle("att-picked", k === c);
        const [sine, cosine] = here ? [rows[t][2 * k], rows[t][2 * k + 1]] : [0, 0];
        set(hands[k], { x1: x, x2: (x + r * cosine).toFixed(2), y2: (TALL + 18 - r * sine).toFixed(2) });
      });
      waves.show(-1, 1);
      lines.forEach((line, k) => void line.show(rows.map((p) => p[2 * c + k])));
      points.forEach((point, k) => void point.show(t, rows[t][2 * c + k]));
      say(title, `Pair ${c}: sine, and dashed its cosine`);
      const long = /** @param {number} speed */ (speed) => {
        const x = (2 * Math.PI) / speed;
        return x < 100 ? number(x, 1) : Math.round(x).toLocaleString("en-US");
      };
      return (
        `Position ${t} adds ${width} numbers. Its pair ${c} is (${number(rows[t][2 * c])}, ${number(rows[t][2 * c + 1])}): ` +
        `sine and cosine of ${number(t * speeds[c])}, a hand that goes round once in ${long(speeds[c])} positions. ` +
        `The first pair needs ${long(speeds[0])}, the last ${long(speeds[speeds.length - 1])}.`
      );
    },
  };
}

/** @param {import("./model.js").State} state */
export function distanceView(state) {
  const curve = chart({ label: "dot product with each other position", name: "position j", from: 0, to: COUNT });
  const line = curve.line("plain");
  const own = curve.dot("query");
  const other = curve.dot("key");
  const W = 330;
  const columns = Array.from({ length: 32 }, () => s("rect", { class: "att-column" }));
  const parts = s(
    "svg",
    { viewBox: `0 0 ${W} 190`, class: "att-chart", role: "img", "aria-label": "what each pair adds to the product" },
    s("line", { x1: 0, x2: W, y1: 80, y2: 80, class: "att-axis" }),
    ...columns,
    s("text", { x: 0, y: 168, class: "att-label" }, "fast pairs"),
    s("text", { x: W, y: 168, "text-anchor": "end", class: "att-label" }, "slow pairs"),
  );
  const titles = [0, 1].map(() => h("p", { class: "att-title" }));
  return {
    element: [
      h("div", { class: "att-half" }, titles[0], curve.element),
      h("div", { class: "att-half" }, titles[1], parts),
    ],
    draw() {
      const [i, j, shift, width, base] = ["position", "key_position", "shift", "width", "base"].map(state.get);
      const now = products(i, j, shift, width, base);
      curve.show(Math.min(0, Math.floor(Math.min(...now.all))), width / 2, shift);
      line.show(now.all);
      own.show(i, now.all[i]);
      other.show(j, now.all[j]);
      const wide = W / now.parts.length;
      columns.forEach((column, k) => {
        const part = now.parts[k] ?? 0;
        const height = 76 * Math.abs(part);
        set(column, {
          x: k * wide,
          width: k < now.parts.length ? wide - 1 : 0,
          y: part < 0 ? 80 : 80 - height,
          height,
        });
      });
      say(titles[0], `Product of position ${i + shift} with each`);
      say(titles[1], `${i + shift} · ${j + shift} = ${number(now.all[j])}: a sum over ${width / 2} pairs`);
      const far = Math.abs(i - j);
      return (
        `Positions ${i + shift} and ${j + shift}: ${number(now.all[j])}, where a position with itself has ${width / 2}. ` +
        `Every two positions ${far} apart have the same: only the distance counts, not the place, nor which comes first.`
      );
    },
  };
}
