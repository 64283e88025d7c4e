// For the tests: call a function of a module on many inputs; JSON in on standard input, JSON out.
// node call.js src/lib/maths.js softmax   reads [[argument, …], …]; infinities and NaN travel as strings.

const [file, name] = process.argv.slice(2);
const special = new Set(["Infinity", "-Infinity", "NaN"]);
const module = await import(new URL(file, import.meta.url).href);
let text = "";
for await (const piece of process.stdin) text += piece;
const cases = JSON.parse(text, (_, value) => (special.has(value) ? Number(value) : value));
const answers = cases.map((/** @type {any[]} */ given) => module[name](...given));
process.stdout.write(
  JSON.stringify(answers, (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value)),
);
