// The package anywidget is written for RequireJS, which is not here: take what it would define.
import * as base from "@jupyter-widgets/base";

export const defined = {};
globalThis.define = (_, factory) => Object.assign(defined, factory(base));
