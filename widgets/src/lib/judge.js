// Is an answer right, and if not, what is behind it? Rules as companion/exercises/rule.py writes and judges them.

import { entropy, matmul, softmax, transpose } from "./maths.js";
import { mask } from "./rules.js";

/** @typedef {any} Tree  a number, a text, a switch, a list of trees, or {operation: [trees]} */
/** @typedef {{right: boolean, when: Tree, say: string}} Case */

/**
 * Apply to numbers entry by entry; a single number goes with any size.
 * @param {(...numbers: number[]) => any} one @returns {(...arrays: any[]) => any}
 */
const each =
  (one) =>
  (...arrays) => {
    const sizes = new Set(arrays.filter(Array.isArray).map((x) => x.length));
    if (!sizes.size) return one(...arrays);
    if (sizes.size > 1) throw new Error(`sizes that do not fit: ${[...sizes].join(" and ")}`);
    const [size] = sizes;
    return Array.from({ length: size }, (_, i) => each(one)(...arrays.map((x) => (Array.isArray(x) ? x[i] : x))));
  };

/** @param {(row: number[]) => any} one @returns {(x: any) => any} */
const rows = (one) => (x) => (Array.isArray(x[0]) ? x.map(rows(one)) : one(x));

/** @param {any} x @returns {any[]} */
const flat = (x) => (Array.isArray(x) ? x.flat(Number.POSITIVE_INFINITY) : [x]);

/** @param {any} x @returns {number} */
const sum = (x) => flat(x).reduce((all, y) => all + Number(y), 0);

/** @param {any} a @param {any} b @returns {boolean} */
function same(a, b) {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((x, i) => same(x, b[i]));
  if (Array.isArray(a) || Array.isArray(b)) return false;
  if (typeof a === "string" || typeof b === "string") return a === b;
  return Number(a) === Number(b);
}

/** @type {Record<string, (...parts: any[]) => any>} */
const OPERATIONS = {
  "+": each((a, b) => Number(a) + Number(b)),
  "-": each((a, b) => a - b),
  "*": each((a, b) => a * b),
  "/": each((a, b) => a / b),
  abs: each(Math.abs),
  exp: each(Math.exp),
  log: each(Math.log),
  sqrt: each(Math.sqrt),
  "@": matmul,
  at: (x, index) => x.at(index),
  T: transpose,
  max: (x) => Math.max(...flat(x)),
  min: (x) => Math.min(...flat(x)),
  sum,
  mean: (x) => sum(x) / flat(x).length,
  argmax: (x) => flat(x).indexOf(Math.max(...flat(x))),
  size: (x) => flat(x).length,
  softmax: rows(softmax),
  entropy: rows(entropy),
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  near: (a, target, within) => flat(each((x, y) => Math.abs(x - y))(a, target)).every((gap) => gap <= within),
  same,
  and: (a, b) => Boolean(a && b),
  or: (a, b) => Boolean(a || b),
  not: (a) => !a,
};

/** What a tree comes to for a state. @param {Tree} tree @param {Record<string, any>} given @returns {any} */
export function evaluate(tree, given) {
  if (Array.isArray(tree)) return tree.map((part) => evaluate(part, given));
  if (typeof tree !== "object" || tree === null) return tree;
  const [[name, parts]] = Object.entries(tree);
  if (name === "state") return given[parts];
  if (name === "allowed") return mask(/** @type {any} */ (given)).map((row) => row.map(Number));
  return OPERATIONS[name](...parts.map((/** @type {Tree} */ part) => evaluate(part, given)));
}

/** The first case that holds, or the hint. @param {Case[]} cases @param {string} hint @param {Record<string, any>} given */
export function verdict(cases, hint, given) {
  const found = cases.find(({ when }) => evaluate(when, given));
  return { right: found?.right ?? false, say: found?.say ?? hint };
}

/** A number as one types it: .45, 0,45, 1/3, −2; NaN if it is none. @param {string} text */
export function readNumber(text) {
  let plain = text.trim().replaceAll("−", "-");
  if (plain.split(",").length === 2 && !plain.includes(".")) plain = plain.replace(",", ".");
  const numbers = plain.split("/").map((part) => {
    const bare = part.trim();
    const spelled = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(bare);
    return spelled && Number.isFinite(Number(bare)) ? Number(bare) : Number.NaN;
  });
  if (numbers.length === 1) return numbers[0];
  return numbers.length === 2 && numbers[1] ? numbers[0] / numbers[1] : Number.NaN;
}
