// Figures without a kernel: read the state that the page carries, import each figure's script, and let it draw.
// A page with plain ipywidgets is handed to html-manager, which is loaded for it alone.

const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';
const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';

const states = JSON.parse(document.querySelector(STATE)?.textContent ?? "{}").state ?? {};
const models = new Map();
const modules = new Map();
const styles = new Set();

/** The part of an ipywidgets model that a figure uses; changes stay on the page. */
class Model {
  #listeners = new Map();
  #changed = new Set();
  /** A question asks for its figure by this. */
  widget_manager = { get_model: async (id) => modelOf(id) };
  constructor(state) {
    this.state = { ...state };
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    this.state[name] = value;
    this.#changed.add(name);
    this.#tell(`change:${name}`);
  }
  save_changes() {
    if (this.#changed.size) this.#tell("change");
    this.#changed.clear();
  }
  on(event, callback) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), callback]);
  }
  off(event, callback) {
    const left = callback ? (this.#listeners.get(event) ?? []).filter((other) => other !== callback) : [];
    this.#listeners.set(event, left);
  }
  send() {} // there is nobody to hear it
  #tell(event) {
    for (const callback of this.#listeners.get(event) ?? []) callback();
  }
}

/** One model for each id, however many views it has. */
function modelOf(id) {
  if (!models.has(id)) models.set(id, new Model(states[id].state));
  return models.get(id);
}

/** One import for each script, however many figures run it. */
function imported(text) {
  if (!modules.has(text)) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    modules.set(text, import(url).finally(() => URL.revokeObjectURL(url)));
  }
  return modules.get(text);
}

async function render(place, id) {
  const { state } = states[id];
  const model = modelOf(id);
  if (state._css && !styles.has(state._css)) {
    styles.add(state._css);
    document.head.append(Object.assign(document.createElement("style"), { textContent: state._css }));
  }
  const loaded = await imported(state._esm);
  const figure = typeof loaded.default === "function" ? await loaded.default() : (loaded.default ?? loaded);
  const el = document.createElement("div");
  el.className = "att-live";
  await figure.initialize?.({ model });
  await figure.render?.({ model, el });
  place.prepend(el);
  place.classList.add("att-drawn"); // hides the still picture, but on paper
  if (landing) document.querySelector(":target")?.scrollIntoView({ behavior: "instant" });
}

// A link into the page lands where it says, though figures above its target are drawn, and grow, after the jump.
let landing = true;
addEventListener("hashchange", () => {
  landing = true;
});
for (const event of ["wheel", "touchstart", "pointerdown", "keydown"])
  addEventListener(
    event,
    () => {
      landing = false;
    },
    { capture: true, passive: true },
  );

const views = [...document.querySelectorAll(VIEW)].map((script) => [script.parentElement, JSON.parse(script.textContent).model_id]);
const bare = Object.values(states).every(({ model_module: name }) => ["anywidget", "@jupyter-widgets/base"].includes(name));
if (bare) {
  // Ready before it is in sight, so that nothing moves under the reader's eyes.
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        for (const [place, id] of views)
          if (place === target) render(place, id).catch((error) => console.error("A figure could not be drawn.", error));
      }
    },
    { rootMargin: "1000px" },
  );
  for (const [place, id] of views) if (id in states) seen.observe(place);
} else if (views.length) {
  document.head.append(
    Object.assign(document.createElement("link"), {
      rel: "stylesheet",
      href: new URL("html-manager.css", import.meta.url).href,
    }),
  );
  import("./html-manager.js")
    .then(({ show }) => show(JSON.parse(document.querySelector(STATE).textContent), views))
    .catch((error) => console.error("The widgets could not be drawn.", error));
}
