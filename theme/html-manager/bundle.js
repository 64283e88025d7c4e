// node bundle.js: html-manager and what it needs, as one script and one style sheet in dist/.
import { build } from "esbuild";

const unread = [".woff", ".ttf", ".eot", ".svg", ".png"]; // every browser here takes woff2
await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["html-manager.js"],
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  logLevel: "error",
  define: { global: "globalThis", "process.env.NODE_ENV": '"production"', "process.env": "{}", __webpack_public_path__: '""' },
  loader: { ".woff2": "file", ...Object.fromEntries(unread.map((end) => [end, "empty"])) },
});
