// A plane with points that a finger, a mouse or the arrow keys move.

import { h, number, s, say, set } from "./dom.js";

const SIZE = 320;
const LETTER = 8; // about as wide as a letter of a label

/**
 * @param {{label: string, limit: number, width?: number, height?: number}} options
 *   `limit`: the plane shows −limit to limit on its shorter side
 */
export function plane({ label, limit, width = SIZE, height = SIZE }) {
  let unit = 1;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "att-plane", role: "group", "aria-label": label });
  const element = h("div", { class: "att-plane-box", style: `max-width: ${width}px` }, svg);
  const grid = s("path");
  const ticks = [0, 1].map(() => s("text", { "text-anchor": "end" }));
  svg.append(
    s(
      "g",
      { class: "att-grid", "aria-hidden": true },
      grid,
      s("path", { class: "att-axis", d: `M0 ${height / 2}h${width}M${width / 2} 0v${height}` }),
      ...ticks,
    ),
  );
  zoom(limit);

  /** Show as far as this; a line every 1, 2, 4, …, whose number stands at each axis. @param {number} far */
  function zoom(far) {
    unit = Math.min(width, height) / 2 / far;
    const step = far > limit ? 2 ** Math.ceil(Math.log2(far / limit)) : 1;
    let lines = "";
    for (let k = step; k * unit <= Math.max(width, height) / 2; k += step)
      for (const c of [k, -k]) {
        if (k * unit <= width / 2) lines += `M${x(c)} 0v${height}`;
        if (k * unit <= height / 2) lines += `M0 ${y(c)}h${width}`;
      }
    set(grid, { d: lines });
    for (const tick of ticks) say(tick, String(step));
    set(ticks[0], { x: x(step) - 2, y: y(0) + 13 });
    set(ticks[1], { x: x(0) - 3, y: y(step) + 13 });
  }

  /** @param {number} a */
  function x(a) {
    return width / 2 + a * unit;
  }
  /** @param {number} b */
  function y(b) {
    return height / 2 - b * unit;
  }

  /**
   * A label at a point: on the side that is given as long as there is room for it, and inside the plane.
   * @param {Element} text @param {number} a @param {number} b @param {boolean} right
   */
  function beside(text, a, b, right) {
    const wide = 10 + LETTER * (text.textContent ?? "").length;
    const after = right ? x(a) + wide <= width || x(a) - wide < 0 : x(a) - wide < 0;
    set(text, {
      x: x(a) + (after ? 10 : -10),
      y: Math.min(height - 4, Math.max(12, y(b) + (b >= 0 ? -7 : 15))),
      "text-anchor": after ? "start" : "end",
    });
  }

  return {
    element,
    svg,
    x,
    y,
    zoom,
    beside,
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
     * @param {{role: string, label: string, tip?: boolean}} options  `tip`: none where a handle stands
     */
    arrow({ role, label, tip = true }) {
      const line = s("line", { x1: x(0), y1: y(0) });
      const head = tip && s("path", { d: "M0 0L-9 -4.5L-9 4.5Z" });
      const text = s("text", { class: "att-label" }, label);
      const group = s("g", { class: `att-arrow att-${role}`, "aria-hidden": true }, line, head, text);
      svg.append(group);
      return {
        element: group,
        /** @param {number} a @param {number} b @param {number} [thickness] */
        show(a, b, thickness = 2) {
          const angle = (Math.atan2(-b, a) * 180) / Math.PI;
          set(line, { x2: x(a), y2: y(b), "stroke-width": thickness });
          if (head)
            set(head, {
              transform: `translate(${x(a)} ${y(b)}) rotate(${angle})`,
              visibility: a || b ? null : "hidden",
            });
          beside(text, a, b, a >= 0);
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
