// Elements, made without ever reading text as HTML: what a reader types is shown as it was typed.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {string | number | Node | null | undefined | false} Child */

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes  `on…` are listeners, null and false are left out
 * @param {Child[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, spelled(name, value));
  }
  // JupyterLab would take the arrow keys for its cells.
  if ("tabindex" in attributes || element.matches("input, select, button"))
    element.setAttribute("data-lm-suppress-shortcuts", "");
  for (const child of children)
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
  return element;
}

/** An attribute that is there is on; ARIA's say so in words. @param {string} name @param {any} value */
const spelled = (name, value) => (value === true && !name.startsWith("aria-") ? "" : String(value));

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [attributes] @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export const h = (tag, attributes = {}, ...children) =>
  /** @type {any} */ (fill(document.createElement(tag), attributes, children));

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [attributes] @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export const s = (tag, attributes = {}, ...children) =>
  /** @type {any} */ (fill(document.createElementNS(SVG, tag), attributes, children));

/** Change attributes only where they differ: a browser repaints less. @param {Element} element @param {Record<string, any>} attributes */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else {
      const text = spelled(name, value);
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
    }
  }
}

/** @param {Element} element @param {string} text */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A token in quotation marks; one that runs from right to left does not turn the numbers behind it.
 * @param {string} token
 */
export const quoted = (token) =>
  `“${/\p{Script=Hebrew}|\p{Script=Arabic}/u.test(token) ? `\u2068${token}\u2069` : token}”`;

/** A number as the book prints it: a true minus sign, fixed decimals, no "-0". @param {number} x @param {number} [digits] */
export function number(x, digits = 2) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const text = x.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}
