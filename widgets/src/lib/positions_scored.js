// Positions that change the score alone: a query and a key that are turned, and a bias that grows with distance.

import { chart } from "./chart.js";
import { h, number, s, say, set } from "./dom.js";
import { entropy, norm } from "./maths.js";
import { plane } from "./plane.js";
import { ALL, bias, COUNT, fading, frequencies, rotated, slopes } from "./positions.js";
import { table } from "./table.js";

export const HEADS = 16;
const SMALL = 6; // queries and keys of the bias table

/** The way from one angle to another, the way that angles count: an arc of less than a turn. @param {number} from @param {number} angle @param {number} r */
function arc(from, angle, r) {
  const part = angle % (2 * Math.PI);
  const at = /** @param {number} a */ (a) => `${(r * Math.cos(a)).toFixed(2)} ${(-r * Math.sin(a)).toFixed(2)}`;
  return `M${at(from)}A${r} ${r} 0 ${part > Math.PI ? 1 : 0} 0 ${at(from + part)}`;
}

/** @param {import("./model.js").State} state */
export function rotaryView(state) {
  const field = plane({ label: "one pair of features of a query and a key", limit: 2, width: 300, height: 300 });
  const arcs = ["query", "key"].map((role) => s("path", { class: `att-arc att-${role}` }));
  field.svg.append(s("g", { transform: `translate(${field.x(0)} ${field.y(0)})`, "aria-hidden": true }, ...arcs));
  const ghosts = ["query", "key"].map((role) => field.arrow({ role, label: "", tip: false }));
  for (const ghost of ghosts) ghost.element.classList.add("att-ghost");
  const arrows = [field.arrow({ role: "query", label: "q turned" }), field.arrow({ role: "key", label: "k turned" })];
  const handles = ["query", "key"].map((role) =>
    field.handle({ name: `${role} before it is turned`, role, onmove: (a, b) => state.set({ [role]: [a, b] }) }),
  );
  const wave = chart({
    label: "score by distance",
    name: "key position − query position",
    from: -COUNT,
    to: COUNT,
  });
  const line = wave.line("plain");
  const point = wave.dot("plain");
  const title = h("p", { class: "att-title" });
  return {
    element: [
      h(
        "div",
        { class: "att-half" },
        h("p", { class: "att-title" }, "A query and a key, turned by position"),
        field.element,
      ),
      h("div", { class: "att-half" }, title, wave.element),
    ],
    draw() {
      const [query, key, i, j, shift, c] = ["query", "key", "position", "key_position", "shift", "pair"].map(state.get);
      const speed = frequencies(state.get("width"), state.get("base"))[c];
      const now = rotated(query, key, i + shift, j + shift, speed);
      [query, key].forEach((point, k) => {
        const angle = speed * ((k ? j : i) + shift);
        const [a, b] = k ? now.key : now.query;
        ghosts[k].show(point[0], point[1], 1);
        handles[k].show(point[0], point[1]);
        arrows[k].show(a, b, 3);
        set(arcs[k], { d: norm(point) ? arc(Math.atan2(point[1], point[0]), angle, k ? 34 : 24) : null });
      });
      const limit = Math.max(0.1, norm(query) * norm(key));
      wave.show(-limit, limit);
      line.show(Array.from({ length: 2 * COUNT + 1 }, (_, k) => rotated(query, key, 0, k - COUNT, speed).score));
      point.show(j - i, now.score);
      say(title, `Score of pair ${c} at each distance`);
      return (
        `Pair ${c} turns by ${Number(speed.toPrecision(2))} radians a position: the query ${i + shift} times, the key ${j + shift} times. ` +
        `Their score is ${number(now.score, 3)}, and stays so when both move on: only ${j} − ${i} = ${number(j - i, 0)} counts.`
      );
    },
  };
}

/** @param {import("./model.js").State} state */
export function alibiView(state) {
  const [W, H] = [330, 150];
  const columns = Array.from({ length: HEADS }, (_, k) =>
    s("rect", { class: "att-column", onclick: () => k < state.get("heads") && state.set({ head: k }) }),
  );
  const ticks = [1, 4, 8].map((k) =>
    s("text", { x: 44, y: (k / 8.5) * H + 5, "text-anchor": "end", class: "att-label" }, `1/${2 ** k}`),
  );
  const steep = s(
    "svg",
    {
      viewBox: `0 0 ${W} ${H + 20}`,
      class: "att-chart",
      role: "img",
      "aria-label": "slope of each head, on a scale of powers",
    },
    ...ticks,
    ...columns,
    s("line", { x1: 48, x2: W, y1: H, y2: H, class: "att-axis" }),
    s("text", { x: (W + 48) / 2, y: H + 17, "text-anchor": "middle", class: "att-label" }, "head"),
  );
  const share = chart({ label: "weights by distance", name: "distance back from the query", from: 0, to: COUNT });
  const lines = columns.map(() => share.line("faint"));
  const picked = share.line("share");
  const names = /** @param {string} letter */ (letter) => ALL.slice(0, SMALL).map((k) => `${letter}${k + 1}`);
  const values = table({
    caption: "What the head adds to each score",
    rows: names("q"),
    columns: names("k"),
    kind: "signed",
  });
  const hidden = names("").map((_, i) => names("").map((_, j) => j > i));
  return {
    element: [
      h(
        "div",
        { class: "att-half" },
        h("p", { class: "att-title" }, "Slope of each head"),
        steep,
        h("p", { class: "att-title" }, "Weights, if all scores were equal"),
        share.element,
      ),
      h("div", { class: "att-half" }, values.element),
    ],
    draw() {
      const [heads, head] = [state.get("heads"), Math.min(state.get("head"), state.get("heads") - 1)];
      const all = slopes(heads);
      const wide = (W - 48) / heads;
      columns.forEach((column, k) => {
        const height = k < heads ? H * (1 + Math.log2(all[k]) / 8.5) : 0;
        set(column, { x: 49 + k * wide, width: Math.max(0, wide - 2), y: H - height, height });
        column.classList.toggle("att-picked", k === head);
      });
      share.show(0, 1);
      const fades = all.map((slope) => fading(slope, COUNT));
      const most = Math.max(...fades.map((row) => row[0]));
      share.show(0, Math.ceil(most * 10) / 10);
      lines.forEach((line, k) => {
        set(line.element, { visibility: k < heads ? null : "hidden" });
        if (k < heads) line.show(fades[k]);
      });
      picked.show(fades[head]);
      values.show(bias(all[head], SMALL, SMALL), { limit: 1, hidden });
      const power = 2 ** Math.floor(Math.log2(heads));
      const filled =
        heads > power ? ` (${power} have the slopes of ${power} heads, the others fill in from ${2 * power})` : "";
      return (
        `Head ${head + 1} of ${heads}${filled} takes ${Number(all[head].toPrecision(3))} from the score for each position back. ` +
        `With equal scores the nearest key gets ${number(fades[head][0])}, and the weights are as spread out as ${number(Math.exp(entropy(fades[head])), 1)} equal ones would be, of ${COUNT} keys.`
      );
    },
  };
}
