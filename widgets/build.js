// Bundle each figure into companion/widgets/static, as Python loads it: `npm run build`, or with --check only compare.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { build } from "esbuild";

const source = new URL("src/", import.meta.url);
const target = new URL("../companion/widgets/static/", import.meta.url);
const check = process.argv.includes("--check");
const stale = [];

/** @param {string} name @param {string} text */
function store(name, text) {
  const file = new URL(name, target);
  let before = "";
  try {
    before = readFileSync(file, "utf8");
  } catch {
    // not there yet
  }
  if (before === text) return;
  stale.push(name);
  if (!check) writeFileSync(file, text);
}

const options = {
  bundle: true,
  minify: true,
  write: false,
  target: ["es2022", "chrome111", "firefox113", "safari16.2"],
  legalComments: "none",
};
const names = readdirSync(source)
  .filter((name) => name.endsWith(".js"))
  .map((name) => basename(name, ".js"));
for (const name of names) {
  const script = await build({
    ...options,
    entryPoints: [new URL(`${name}.js`, source).pathname],
    format: "esm",
    charset: "utf8",
  });
  store(`${name}.js`, script.outputFiles[0].text);
  const own = readdirSync(source).includes(`${name}.css`) ? readFileSync(new URL(`${name}.css`, source), "utf8") : "";
  // Its own rules hold inside it alone, and before the shared ones: a page has several figures, each with its sheet.
  const css = `${readFileSync(new URL("style.css", source), "utf8")}.att-figure.att-${name} { ${own} }`;
  const style = await build({ ...options, stdin: { contents: css, loader: "css" }, charset: "utf8" });
  store(`${name}.css`, style.outputFiles[0].text);
}
if (check && stale.length) {
  console.error(`not what the sources give: ${stale.join(", ")}; run make widgets`);
  process.exit(1);
}
console.log(stale.length ? `bundled ${stale.join(", ")}` : `${names.length} figures, all current`);
