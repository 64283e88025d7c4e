// Positions as vectors, as angles and as a bias, as companion has them: frequencies and slopes are float32.

import { dot, softmax } from "./maths.js";

/** How many positions a figure shows. */
export const COUNT = 64;
export const ALL = Array.from({ length: COUNT }, (_, t) => t);

const f = Math.fround;

/** How far each pair of features turns a position, in radians. @param {number} width  even @param {number} base */
export const frequencies = (width, base) => Array.from({ length: width / 2 }, (_, c) => f(base ** ((-2 * c) / width)));

/**
 * Rows of sin 0, cos 0, sin 1, cos 1, …: what SinusoidalPositions adds.
 * @param {number[]} positions @param {number} width @param {number} base
 */
export function sinusoids(positions, width, base) {
  const speeds = frequencies(width, base);
  return positions.map((t) => speeds.flatMap((speed) => [Math.sin(t * speed), Math.cos(t * speed)]));
}

/** A point of the plane turned about the origin. @param {number[]} point @param {number} angle  in radians */
export const turn = ([a, b], angle) => [
  a * Math.cos(angle) - b * Math.sin(angle),
  a * Math.sin(angle) + b * Math.cos(angle),
];

/** One slope a head; where H is no power of two, every other one of the next power fills up. @param {number} heads */
export function slopes(heads) {
  const power = 2 ** Math.floor(Math.log2(heads));
  const geometric = /** @param {number} n */ (n) => Array.from({ length: n }, (_, h) => f(2 ** ((-8 * (h + 1)) / n)));
  return [...geometric(power), ...geometric(2 * power).filter((_, h) => h % 2 === 0)].slice(0, heads);
}

/** What a slope takes from each score; the last query stands at the last key. @param {number} slope @param {number} L @param {number} S */
export const bias = (slope, L, S) =>
  Array.from({ length: L }, (_, i) => Array.from({ length: S }, (_, j) => 0 - f(slope * Math.abs(S - L + i - j))));

/** The weights at distance 0, 1, … back where all scores are equal. @param {number} slope @param {number} count */
export const fading = (slope, count) => softmax(bias(slope, 1, count)[0]).reverse();

/**
 * The dot product of one position's vector with each of the others'; `parts`: what each pair adds to one of them.
 * @param {number} i @param {number} j @param {number} shift  added to all positions @param {number} width @param {number} base
 */
export function products(i, j, shift, width, base) {
  const rows = sinusoids(
    ALL.map((t) => t + shift),
    width,
    base,
  );
  const [p, q] = [rows[i], rows[j]];
  const parts = Array.from({ length: width / 2 }, (_, c) => p[2 * c] * q[2 * c] + p[2 * c + 1] * q[2 * c + 1]);
  return { all: rows.map((row) => dot(p, row)), parts };
}

/**
 * One pair of features of a query and a key, each turned by its position, and their score.
 * @param {number[]} query @param {number[]} key @param {number} i @param {number} j @param {number} speed
 */
export function rotated(query, key, i, j, speed) {
  const [q, k] = [turn(query, i * speed), turn(key, j * speed)];
  return { query: q, key: k, score: dot(q, k) };
}
