// The palette's roles, one map for weights and one for signed numbers, on light and on dark.

/** Weights: from the background upward, so that zero looks empty. @param {number} share  0 to 1 */
export const weight = (share) => mix("var(--att-weight-full)", clamp(share));

/** Signed numbers: empty at zero. @param {number} x @param {number} limit  the size that gets the full colour */
export const signed = (x, limit) =>
  mix(x < 0 ? "var(--att-negative)" : "var(--att-positive)", limit > 0 ? clamp(Math.abs(x) / limit) : 0);

/** @param {string} colour @param {number} share */
const mix = (colour, share) => `color-mix(in oklab, ${colour} ${(share * 100).toFixed(1)}%, var(--att-paper))`;

/** @param {number} x */
const clamp = (x) => Math.min(1, Math.max(0, Number.isFinite(x) ? x : 0));
