// What a decoder's attention layers compute and hold at each token, with and without a cache of keys and values.

/** @typedef {{layers: number, heads: number, kvHeads: number, width: number, size: number}} Decoder  `size`: bytes a number */

/** Multiply-adds of one layer: of the four projections of a token, and of one query meeting one key and value, in all heads. @param {Decoder} of */
function prices({ heads, kvHeads, width }) {
  const model = heads * width;
  return { token: model * width * (2 * heads + 2 * kvHeads), pair: 2 * heads * width };
}

/** Multiply-adds at token t. @param {Decoder} of @param {number} t  from 1 */
export function work(of, t) {
  const { token, pair } = prices(of);
  return { without: of.layers * (t * token + t * t * pair), with: of.layers * (token + t * pair) };
}

/** Multiply-adds at tokens 1 to t together. @param {Decoder} of @param {number} t */
export function workSoFar(of, t) {
  const { token, pair } = prices(of);
  const [sum, squares] = [(t * (t + 1)) / 2, (t * (t + 1) * (2 * t + 1)) / 6];
  return { without: of.layers * (sum * token + squares * pair), with: of.layers * (t * token + sum * pair) };
}

/** Bytes of keys and values that are kept for the next token. @param {Decoder} of @param {number} t */
export const kept = ({ layers, kvHeads, width, size }, t) => 2 * layers * kvHeads * width * t * size;

/** Bytes of the queries, keys, values and weights that one layer makes at token t, and drops. @param {Decoder} of @param {number} t */
export function made({ heads, kvHeads, width, size }, t) {
  const rows = /** @param {number} n */ (n) => n * ((heads + 2 * kvHeads) * width + heads * t) * size;
  return { without: rows(t), with: rows(1) };
}

/** @typedef {"new" | "kept" | "again" | ""} Kind  needed and made now, read from the cache, made in vain, not there */

/**
 * What happens at token t to each token's query, key and value, and to each score (queries down, keys across).
 * @param {number} count  tokens shown @param {number} t @param {boolean} cached
 * @returns {{query: Kind[], key: Kind[], value: Kind[], scores: Kind[][]}}
 */
export function cells(count, t, cached) {
  const row = /** @param {Kind} before @returns {Kind[]} */ (before) =>
    Array.from({ length: count }, (_, j) => (j + 1 < t ? before : j + 1 === t ? "new" : ""));
  const old = cached ? "kept" : "again";
  return {
    query: row(cached ? "" : "again"),
    key: row(old),
    value: row(old),
    scores: Array.from({ length: count }, (_, i) =>
      Array.from({ length: count }, (_, j) => (i >= t || j >= t ? "" : i === t - 1 ? "new" : cached ? "" : "again")),
    ),
  };
}
