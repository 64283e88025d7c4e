// Who may look at whom: rules, joined, as companion.masks has them.

import { softmax } from "./maths.js";

/** @typedef {"causal" | "padding" | "window" | "document"} Name */
/** @typedef {"off" | "and" | "or" | "and not" | "or not"} How */
/** @typedef {[number, number, boolean]} Cell  query, key, whether it may attend */
/**
 * @typedef {Record<Name, How> & {tokens: string[], length: number, side: string, width: number, ids: number[],
 *   by_hand: Cell[], scores: number[][], inverted: boolean, empty: "zeros" | "nan" | "uniform"}} Given
 */

/** @type {Name[]} */
export const RULES = ["causal", "padding", "window", "document"];
const PAD = "[pad]";

/** Which places hold real tokens. @param {Given} given */
const real = ({ tokens, length, side }) =>
  tokens.map((_, k) => (side === "left" ? k >= tokens.length - length : k < length));

/** What stands in each place. @param {Given} given */
export function names(given) {
  const { tokens, length, side } = given;
  const before = side === "left" ? tokens.length - length : 0;
  return real(given).map((yes, k) => (yes ? tokens[k - before] : PAD));
}

/** The table that the rules and the hand make: true = may attend. @param {Given} given @returns {boolean[][]} */
export function mask(given) {
  const { tokens, width, ids, by_hand } = given;
  const filled = real(given);
  /** @type {Record<Name, (q: number, k: number) => boolean>} */
  const rules = {
    causal: (q, k) => k <= q,
    padding: (_, k) => filled[k],
    window: (q, k) => Math.abs(q - k) < width,
    document: (q, k) => ids[q] === ids[k],
  };
  const active = RULES.filter((name) => given[name] !== "off");
  const answer = tokens.map((_, q) =>
    tokens.map((_, k) =>
      active.reduce((sofar, name, count) => {
        const [join, not] = given[name].split(" ");
        const holds = rules[name](q, k) !== Boolean(not);
        if (!count) return holds;
        return join === "or" ? sofar || holds : sofar && holds;
      }, true),
    ),
  );
  for (const [q, k, allowed] of by_hand) answer[q][k] = Boolean(allowed);
  return answer;
}

/**
 * Weights of a row that sees this much of its scores, by one of three ways to hide.
 * @param {number[]} scores @param {boolean[]} seen @param {Given["empty"]} empty
 */
function row(scores, seen, empty) {
  const filled = scores.map((x, k) => (seen[k] ? x : empty === "uniform" ? -1e9 : -Infinity));
  // A plain softmax takes ∞ from ∞ there.
  return empty === "nan" && !seen.includes(true) ? scores.map(() => Number.NaN) : softmax(filled);
}

/** The table, what the model sees by it, and the weights. @param {Given} given */
export function compute(given) {
  const allowed = mask(given);
  const seen = allowed.map((line) => line.map((yes) => yes !== given.inverted));
  const weights = seen.map((line, q) => row(given.scores[q], line, given.empty));
  const filled = real(given);
  const queries = weights.filter((_, q) => filled[q]);
  /** Share of the real queries' weight. @param {(q: number, k: number) => boolean} on */
  const share = (on) =>
    weights.reduce(
      (sum, line, q) => (filled[q] ? line.reduce((all, a, k) => (on(q, k) ? all + a : all), sum) : sum),
      0,
    ) / (queries.length || 1);
  return {
    allowed,
    seen,
    weights,
    onPads: share((_, k) => !filled[k]),
    onLater: share((q, k) => filled[k] && k > q),
    blind: seen.flatMap((line, q) => (line.includes(true) ? [] : [q])),
  };
}

/** @param {Given} given @param {Name} name */
function word({ tokens, length, side, width, ids }, name) {
  if (name === "causal") return "causal()";
  if (name === "window") return `sliding_window(${width}, causal=False)`;
  if (name === "document") return `document(torch.tensor([[${ids.join(", ")}]]))`;
  if (side === "right") return `padding([${length}])`;
  return `padding(torch.arange(${tokens.length})[None] >= ${tokens.length - length})`;
}

/** What makes the mask, in companion's words. @param {Given} given */
export function code(given) {
  const size = given.tokens.length;
  let [text, joined] = ["", ""];
  for (const name of RULES) {
    const how = given[name];
    if (how === "off") continue;
    const term = (how.endsWith("not") ? "~" : "") + word(given, name);
    const sign = how.startsWith("or") ? "|" : "&";
    if (text) {
      text = `${joined && joined !== sign ? `(${text})` : text} ${sign} ${term}`;
      joined = sign;
    } else text = term;
  }
  if (!given.by_hand.length) return `mask = ${text || "None"}`;
  const whole = joined || text.startsWith("~") ? `(${text})` : text;
  const lines = [
    `mask = ${text ? `${whole}.dense(1, 1, ${size}, ${size})[0, 0]` : `torch.ones(${size}, ${size}).bool()`}`,
  ];
  for (const [value, spelled] of /** @type {const} */ ([
    [true, "True"],
    [false, "False"],
  ])) {
    const cells = given.by_hand.filter((cell) => Boolean(cell[2]) === value);
    if (cells.length === 1) lines.push(`mask[${cells[0][0]}, ${cells[0][1]}] = ${spelled}`);
    else if (cells.length)
      lines.push(
        `mask[[${cells.map((cell) => cell[0]).join(", ")}], [${cells.map((cell) => cell[1]).join(", ")}]] = ${spelled}`,
      );
  }
  return lines.join("\n");
}

/**
 * The cells set by hand, after one more; a cell that the rules give anyway is not kept.
 * @param {Given} given @param {number} q @param {number} k @param {boolean} allowed @returns {Cell[]}
 */
export function withCell(given, q, k, allowed) {
  const others = given.by_hand.filter(([a, b]) => a !== q || b !== k);
  if (mask({ ...given, by_hand: [] })[q][k] !== allowed) others.push([q, k, allowed]);
  return others.sort((one, two) => one[0] - two[0] || one[1] - two[1]);
}

/** Begin a document at a token, or join it to the one before. @param {number[]} ids @param {number} at */
export function parted(ids, at) {
  let count = 0;
  return ids.map((id, k) => {
    const begins = k > 0 && (k === at) !== (id !== ids[k - 1]);
    if (begins) count++;
    return count;
  });
}
