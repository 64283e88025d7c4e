// Lines and dots over one axis; the other's ends are written beside it.

import { number, s, say, set } from "./dom.js";

const [TOP, BOTTOM, LEFT] = [8, 38, 40];

/**
 * @param {{label: string, name: string, from: number, to: number, ticks?: number, width?: number, height?: number}} options
 *   `name`: of the axis across, which goes `from`, `to`
 */
export function chart({ label, name, from, to, ticks = 5, width = 330, height = 190 }) {
  let [low, high] = [0, 1];
  /** @param {number} a */
  const x = (a) => LEFT + ((a - from) / (to - from)) * (width - LEFT - 14);
  /** @param {number} b */
  const y = (b) => TOP + ((high - b) / (high - low)) * (height - TOP - BOTTOM);
  const places = Array.from({ length: ticks }, (_, k) => Math.round(from + ((to - from) * k) / (ticks - 1)));
  const marks = places.map((a) => s("text", { x: x(a), y: height - 22, "text-anchor": "middle", class: "att-label" }));
  const ends = [TOP + 5, height - BOTTOM + 4].map((v) =>
    s("text", { x: LEFT - 5, y: v, "text-anchor": "end", class: "att-label" }),
  );
  const zero = s("line", { x1: LEFT, x2: width - 14, class: "att-axis" });
  const title = s("text", { x: (LEFT + width) / 2, y: height - 5, "text-anchor": "middle", class: "att-label" }, name);
  const inside = s("g", {});
  const element = s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "att-chart", role: "img", "aria-label": label },
    zero,
    inside,
    ...marks,
    ...ends,
    title,
  );
  return {
    element,
    /** The axes' ends; the ticks count from `shift`. @param {number} bottom @param {number} top @param {number} [shift] */
    show(bottom, top, shift = 0) {
      [low, high] = [bottom, top];
      say(ends[0], number(top, top < 10 && top % 1 ? 1 : 0));
      say(ends[1], number(bottom, bottom > -10 && bottom % 1 ? 1 : 0));
      set(zero, { y1: y(Math.max(0, low)), y2: y(Math.max(0, low)) });
      places.forEach((a, k) => void say(marks[k], number(a + shift, 0)));
    },
    /** @param {string} kind  of the class `att-<kind>` */
    line(kind) {
      const path = s("path", { class: `att-line att-${kind}` });
      inside.append(path);
      return {
        element: path,
        /** @param {number[]} values  at from, from + 1, … */
        show(values) {
          const points = values.map((b, k) => `${x(from + k).toFixed(1)} ${y(b).toFixed(1)}`);
          set(path, { d: `M${points.join("L")}` });
        },
      };
    },
    /** @param {string} kind */
    dot(kind) {
      const circle = s("circle", { r: 5, class: `att-point att-${kind}` });
      inside.append(circle);
      return {
        element: circle,
        /** @param {number} a @param {number} b */
        show: (a, b) => set(circle, { cx: x(a), cy: y(b) }),
      };
    },
  };
}
