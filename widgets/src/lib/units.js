// Numbers of any size, in three digits.

const COUNTS = ["", " k", " M", " G", " T", " P", " E"];
const BYTES = [" B", " KiB", " MiB", " GiB", " TiB", " PiB"];

/** @param {number} x @param {number} step @param {string[]} names @param {number} plain  up to here all digits are shown */
function unit(x, step, names, plain) {
  if (x < plain) return `${x.toLocaleString("en-US")}${names[0]}`;
  let k = 0;
  for (; x >= step * (1 - 5e-4) && k < names.length - 1; k++) x /= step;
  return `${Number(x.toPrecision(3)).toLocaleString("en-US")}${names[k]}`;
}

/** @param {number} x */
export const count = (x) => unit(x, 1000, COUNTS, 1e6);

/** @param {number} x */
export const bytes = (x) => unit(x, 1024, BYTES, 1024);

/** How many times as much: 3.9 ×, 4,096 ×. @param {number} x */
export const times = (x) => `${Number(x.toPrecision(x < 100 ? 2 : 3)).toLocaleString("en-US")} ×`;
