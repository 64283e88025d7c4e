// Attention weights as a page carries them, and what one token's row or column says.

import { quoted } from "./dom.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MARKS = ".!~";

/** @typedef {{shape: number[], parts: number, text: string}} Packed  as companion.widgets.packed writes it */

/** All weights, in order. @param {Packed} packed @returns {number[]} */
export function unpack({ parts, text }) {
  const numbers = [];
  if (parts === 255) {
    let more = 0;
    for (const letter of text) {
      const mark = MARKS.indexOf(letter);
      if (mark >= 0) more = 64 * (mark + 1);
      else {
        numbers.push((more + LETTERS.indexOf(letter)) / parts);
        more = 0;
      }
    }
  } else
    for (let i = 0; i < text.length; i += 3)
      numbers.push(
        (LETTERS.indexOf(text[i]) * 4096 + LETTERS.indexOf(text[i + 1]) * 64 + LETTERS.indexOf(text[i + 2])) / parts,
      );
  return numbers;
}

/** Tokens that stand for no text: [CLS], <s>, <|endoftext|>. @param {string} token */
export const isSpecial = (token) => /^(\[[A-Za-z]+\]|<\|?\/?[A-Za-z_]+\|?>)$/.test(token);

/** Words that come more than once are told apart by their count. @param {string[]} tokens */
export function told(tokens) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return tokens.map((token) => {
    const count = (seen.get(token) ?? 0) + 1;
    seen.set(token, count);
    return tokens.indexOf(token) === tokens.lastIndexOf(token) ? quoted(token) : `${quoted(token)} (${ordinal(count)})`;
  });
}

/** @param {number} n */
const ordinal = (n) => `${n}${["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] ?? "th"}`;

/**
 * The largest weights of a row or column, and what is left for the others.
 * @param {number[]} weights @param {boolean[]} left  out: faded
 * @param {number} count  at most; none that rounds to nothing, but for the very first
 */
export function largest(weights, left, count) {
  const order = weights
    .map((a, k) => ({ a, k }))
    .filter(({ k }) => !left[k])
    .sort((one, two) => two.a - one.a || one.k - two.k);
  const sum = (/** @type {{a: number}[]} */ some) => some.reduce((all, { a }) => all + a, 0);
  const first = order.slice(0, count).filter(({ a }, place) => place === 0 || a >= 0.005);
  return {
    first,
    others: order.length - first.length,
    rest: sum(order.slice(first.length)),
    faded: weights.reduce((all, a, k) => (left[k] ? all + a : all), 0),
    total: weights.reduce((all, a) => all + a, 0),
  };
}

/** As people write weights: .68, and 0 for what rounds to nothing. @param {number} a */
export function short(a) {
  const text = a.toFixed(2);
  return text === "0.00" ? "0" : text.replace(/^0/, "");
}

/** Cut what is long; a whole letter at a time. @param {string} text @param {number} length */
export function cut(text, length) {
  const letters = Array.from(text);
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : text;
}
