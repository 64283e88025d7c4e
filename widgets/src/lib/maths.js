// What companion computes, in the browser. A test holds each function to PyTorch's numbers.

/** @typedef {number[]} Vector */
/** @typedef {number[][]} Matrix  rows of equal length */

/** @param {Vector} a @param {Vector} b */
export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** @param {Vector} a */
export const norm = (a) => Math.sqrt(dot(a, a));

/** @param {Matrix} a @returns {Matrix} */
export const transpose = (a) => (a.length ? a[0].map((_, j) => a.map((row) => row[j])) : []);

/** @param {Matrix} a @param {Matrix} b @returns {Matrix} */
export function matmul(a, b) {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

/**
 * Shares of one. Minus infinity gets none; where nothing may be seen, all are zero.
 * @param {Vector} scores @returns {Vector}
 */
export function softmax(scores) {
  const largest = Math.max(...scores);
  if (largest === -Infinity) return scores.map(() => 0);
  const terms = scores.map((x) => Math.exp(x - largest));
  const total = terms.reduce((sum, x) => sum + x, 0);
  return terms.map((x) => x / total);
}

/** Log of the sum of the exponentials; minus infinity where nothing may be seen. @param {Vector} scores */
export function logsumexp(scores) {
  const largest = Math.max(...scores);
  if (largest === -Infinity) return -Infinity;
  return largest + Math.log(scores.reduce((sum, x) => sum + Math.exp(x - largest), 0));
}

/** How each weight answers to each score: diag(a) − a aᵀ. @param {Vector} weights @returns {Matrix} */
export const jacobian = (weights) => weights.map((a, i) => weights.map((b, j) => (i === j ? a : 0) - a * b));

/** In nats; 0 · log 0 is 0. @param {Vector} weights */
export const entropy = (weights) => weights.reduce((sum, a) => sum - (a > 0 ? a * Math.log(a) : 0), 0);

/** Root of the sum of squares. @param {Matrix} a */
export const frobenius = (a) => Math.sqrt(a.reduce((sum, row) => sum + dot(row, row), 0));

/**
 * Attention with its work shown: every matrix on the way.
 * @param {{query: Matrix, key: Matrix, value: Matrix, allowed?: boolean[][] | null, scale?: number | null}} input
 *   (L, D), (S, D), (S, E); true where a query may attend; 1/√D without a scale
 */
export function attention({ query, key, value, allowed = null, scale = null }) {
  const factor = scale ?? 1 / Math.sqrt(query[0].length);
  const scores = matmul(query, transpose(key));
  const scaled = scores.map((row) => row.map((x) => x * factor));
  const masked = scaled.map((row, i) => row.map((x, j) => (allowed && !allowed[i][j] ? -Infinity : x)));
  const weights = masked.map(softmax);
  return { scores, scaled, masked, weights, output: matmul(weights, value) };
}
