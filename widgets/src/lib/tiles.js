// Attention a tile of scores at a time: which tiles, what is kept between them, and what crosses to slow memory.

import { attention, dot } from "./maths.js";

/** @typedef {{L: number, S: number, rows: number, columns: number, causal: boolean}} Cut  `rows` × `columns` scores a tile */
/** @typedef {{i0: number, i1: number, j0: number, j1: number, first: boolean, last: boolean}} Tile  ends are excluded */
/** @typedef {{before: number, maximum: number, factor: number, sum: number, total: number, output: number[]}} Kept */

/** How many keys the last of the queries before `i1` sees; the last query stands at the last key. @param {Cut} cut @param {number} i1 */
const reach = ({ L, S, causal }, i1) => (causal ? Math.min(S, Math.max(0, S - L + i1)) : S);

/** The tiles in which something is seen, one block of queries after another. @param {Cut} cut @returns {Tile[]} */
export function tiles(cut) {
  const all = [];
  for (let i0 = 0; i0 < cut.L; i0 += cut.rows) {
    const i1 = Math.min(cut.L, i0 + cut.rows);
    const seen = reach(cut, i1);
    for (let j0 = 0; j0 < seen; j0 += cut.columns)
      all.push({ i0, i1, j0, j1: Math.min(cut.S, j0 + cut.columns), first: !j0, last: j0 + cut.columns >= seen });
  }
  return all;
}

/**
 * Online softmax over the tiles: the scores of each, and what is kept of each of its queries afterwards.
 * @param {number[][]} query @param {number[][]} key @param {number[][]} value @param {Cut} cut
 */
export function walk(query, key, value, cut) {
  const allowed = query.map((_, i) => key.map((_, j) => j < reach(cut, i + 1)));
  const plain = attention({ query, key, value, allowed });
  /** @type {Kept[]} */
  const now = query.map(() => ({
    before: -Infinity,
    maximum: -Infinity,
    factor: 0,
    sum: 0,
    total: 0,
    output: value[0].map(() => 0),
  }));
  const steps = tiles(cut).map((tile) => {
    const scores = plain.masked.slice(tile.i0, tile.i1).map((row) => row.slice(tile.j0, tile.j1));
    const values = value.slice(tile.j0, tile.j1);
    const kept = scores.map((row, r) => {
      const old = now[tile.i0 + r];
      const maximum = Math.max(old.maximum, ...row);
      const base = maximum === -Infinity ? 0 : maximum; // nothing seen yet: −∞ − (−∞) would be no number
      const factor = Math.exp(old.maximum - base);
      const terms = row.map((score) => Math.exp(score - base));
      const sum = terms.reduce((a, b) => a + b, 0);
      const output = old.output.map(
        (o, e) =>
          factor * o +
          dot(
            terms,
            values.map((v) => v[e]),
          ),
      );
      return { before: old.maximum, maximum, factor, sum, total: factor * old.total + sum, output };
    });
    kept.forEach((row, r) => {
      now[tile.i0 + r] = row;
    });
    return { tile, scores, kept };
  });
  const output = now.map((row) => row.output.map((o) => (row.total ? o / row.total : 0)));
  const apart = output.map((row, i) => Math.max(...row.map((o, e) => Math.abs(o - plain.output[i][e]))));
  return { steps, output, apart };
}

/**
 * Numbers that cross between fast and slow memory, and floating-point operations of the two matrix products, of a head
 * of width d. Naive: Q and K in, scores out; scores in, weights out; weights and V in, O out. In blocks: Q in and O out
 * once; K and V in once for each block of queries that sees them.
 * @param {Cut} cut @param {number} d
 */
export function traffic(cut, d) {
  const { L, S } = cut;
  let [moved, met] = [0, 0];
  for (let i0 = 0; i0 < L; i0 += cut.rows) {
    const i1 = Math.min(L, i0 + cut.rows);
    const seen = Math.min(S, Math.ceil(reach(cut, i1) / cut.columns) * cut.columns);
    moved += (i1 - i0) * d * (seen ? 2 : 1) + 2 * seen * d; // who sees nothing gets zeros, unread
    met += (i1 - i0) * seen;
  }
  return {
    naive: { moved: 2 * d * (L + S) + 4 * L * S, flops: 4 * L * S * d },
    tiled: { moved, flops: 4 * met * d },
  };
}

/** The numbers that cross in one step. @param {Tile} tile @param {number} d */
export const crossing = ({ i0, i1, j0, j1, first, last }, d) =>
  d * ((i1 - i0) * (Number(first) + Number(last)) + 2 * (j1 - j0));

/**
 * The largest B for which blocks of Q, O, K and V of B rows and a B × B tile of scores are held at once: 4Bd + B² ≤ M.
 * @param {number} room  M, in numbers @param {number} d
 */
export const fit = (room, d) => Math.max(1, Math.floor(Math.sqrt(4 * d * d + room) - 2 * d));
