// A plane with points that a finger, a mouse or the arrow keys move.

import { h, number, s, set } from "./dom.js";

const SIZE = 320;

/**
 * @param {{label: string, limit: number, width?: number, height?: number}} options
 *   `limit`: the plane shows −limit to limit on its shorter side
 */
export function plane({ label, limit, width = SIZE, height = SIZE }) {
  const unit = Math.min(width, height) / 2 / limit;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "att-plane", role: "group", "aria-label": label });
  const element = h("div", { class: "att-plane-box", style: `max-width: ${width}px` }, svg);
  const grid = s("g", { class: "att-grid", "aria-hidden": true });
  for (let k = Math.ceil(-width / 2 / unit); k <= width / 2 / unit; k++)
    grid.append(s("line", { x1: x(k), x2: x(k), y1: 0, y2: height, class: k ? null : "att-axis" }));
  for (let k = Math.ceil(-height / 2 / unit); k <= height / 2 / unit; k++)
    grid.append(s("line", { x1: 0, x2: width, y1: y(k), y2: y(k), class: k ? null : "att-axis" }));
  svg.append(grid);

  /** @param {number} a */
  function x(a) {
    return width / 2 + a * unit;
  }
  /** @param {number} b */
  function y(b) {
    return height / 2 - b * unit;
  }

  return {
    element,
    svg,
    x,
    y,
    unit,
    /**
     * A point that can be moved.
     * @param {{name: string, role: string, step?: number, onmove: (a: number, b: number) => void}} options
     *   `role`: a name of the palette; `step`: how far an arrow key goes (shift: ten times)
     */
    handle({ name, role, step = 0.1, onmove }) {
      let here = [0, 0];
      /** @param {number} a @param {number} b */
      const go = (a, b) => onmove(bounded(a, width / 2 / unit, step), bounded(b, height / 2 / unit, step));
      const dot = s("circle", { r: 7, class: "att-dot" });
      const handle = s(
        "g",
        {
          class: `att-handle att-${role}`,
          tabindex: 0,
          role: "slider",
          "aria-roledescription": "point in the plane; arrow keys move it",
          "aria-valuemin": -limit,
          "aria-valuemax": limit,
          onkeydown: (/** @type {KeyboardEvent} */ event) => {
            const way = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
            if (!way) return;
            event.preventDefault();
            const far = event.shiftKey ? 10 * step : step;
            go(here[0] + way[0] * far, here[1] + way[1] * far);
          },
          onpointerdown: (/** @type {PointerEvent} */ event) => {
            handle.setPointerCapture(event.pointerId);
            handle.focus();
            event.preventDefault();
          },
          onpointermove: (/** @type {PointerEvent} */ event) => {
            if (!handle.hasPointerCapture(event.pointerId)) return;
            const box = svg.getBoundingClientRect();
            const zoom = width / box.width;
            go(
              ((event.clientX - box.left) * zoom - width / 2) / unit,
              (height / 2 - (event.clientY - box.top) * zoom) / unit,
            );
          },
        },
        s("circle", { r: 22, class: "att-reach" }), // a finger is wider than a dot
        dot,
      );
      svg.append(handle);
      return {
        element: handle,
        /** @param {number} a @param {number} b */
        show(a, b) {
          here = [a, b];
          set(handle, {
            transform: `translate(${x(a)} ${y(b)})`,
            "aria-label": name,
            "aria-valuenow": a,
            "aria-valuetext": `${number(a)}, ${number(b)}`,
          });
        },
      };
    },
    /**
     * An arrow from the origin, with a label at its tip.
     * @param {{role: string, label: string}} options
     */
    arrow({ role, label }) {
      const line = s("line", { x1: x(0), y1: y(0) });
      const head = s("path", { d: "M0 0L-9 -4.5L-9 4.5Z" });
      const text = s("text", { class: "att-label" }, label);
      const group = s("g", { class: `att-arrow att-${role}`, "aria-hidden": true }, line, head, text);
      svg.append(group);
      return {
        element: group,
        /** @param {number} a @param {number} b @param {number} [thickness] */
        show(a, b, thickness = 2) {
          const angle = (Math.atan2(-b, a) * 180) / Math.PI;
          set(line, { x2: x(a), y2: y(b), "stroke-width": thickness });
          set(head, { transform: `translate(${x(a)} ${y(b)}) rotate(${angle})` });
          const right = a >= 0;
          set(text, {
            x: x(a) + (right ? 8 : -8),
            y: y(b) + (b >= 0 ? -6 : 14),
            "text-anchor": right ? "start" : "end",
          });
        },
      };
    },
  };
}

/** @param {number} value @param {number} limit @param {number} step */
function bounded(value, limit, step) {
  const steps = Math.round(Math.min(limit, Math.max(-limit, value)) / step);
  return Number((steps * step).toFixed(6));
}
