// What a figure asks of the model behind it: anywidget's, or the page's own where there is no kernel.

/**
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} set
 * @property {() => void} save_changes
 * @property {(event: string, callback: () => void) => void} on
 * @property {(event: string, callback?: (() => void) | null) => void} off
 */

/** @typedef {{model: Model, el: HTMLElement}} Context */

/**
 * The state of a figure: the model's traits, with one redraw however many of them change at once.
 * @param {Model} model
 * @param {string[]} names  of the traits
 */
export function bind(model, names) {
  /** @type {() => void} */
  let redraw = () => {};
  let waiting = false;
  let saving = 0;
  const changed = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      redraw();
    });
  };
  for (const name of names) model.on(`change:${name}`, changed);
  return {
    /** @param {string} name */
    get: (name) => model.get(name),
    /** Set traits, draw at once, tell the kernel once a frame. @param {Record<string, any>} values */
    set(values) {
      for (const [name, value] of Object.entries(values)) model.set(name, value);
      changed();
      if (!saving)
        saving = requestAnimationFrame(() => {
          saving = 0;
          model.save_changes();
        });
    },
    /** Draw again, for what is no trait, such as where the mouse is. */
    redraw: changed,
    /** Back to what the figure began with. */
    reset() {
      this.set(model.get("_start"));
    },
    /** @param {() => void} draw  called now and after each change */
    onChange(draw) {
      redraw = draw;
      draw();
    },
    stop() {
      if (saving) {
        cancelAnimationFrame(saving);
        model.save_changes();
      }
      redraw = () => {};
      for (const name of names) model.off(`change:${name}`, changed);
    },
  };
}

/** @typedef {ReturnType<typeof bind>} State */
