// Random numbers that a seed brings back, alike in every browser.

/** Uniform on [0, 1). @param {number} seed @returns {() => number} */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    // A counter, scrambled: one-to-one on 32 bits, so that no state is lost.
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** Standard normal, by Box and Muller. @param {number} seed @returns {() => number} */
export function normal(seed) {
  const draw = uniform(seed);
  let kept = Number.NaN;
  return () => {
    if (!Number.isNaN(kept)) {
      const given = kept;
      kept = Number.NaN;
      return given;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - draw()));
    const angle = 2 * Math.PI * draw();
    kept = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
}

/** So many numbers at once. @param {"uniform" | "normal"} kind @param {number} seed @param {number} count */
export function draws(kind, seed, count) {
  const draw = kind === "normal" ? normal(seed) : uniform(seed);
  return Array.from({ length: count }, draw);
}
