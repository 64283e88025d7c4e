// Shows every widget of a page through Jupyter's own html-manager: plain ipywidgets, links, and figures among them.
import { defined } from "./define.js";
import "anywidget";
import "@jupyter-widgets/base/css/index.css";
import "@jupyter-widgets/controls/css/widgets-base.css";
import "@lumino/widgets/style/index.css";
import { HTMLManager } from "@jupyter-widgets/html-manager/lib/htmlmanager.js";

/** @param {object} state of the page  @param {[HTMLElement, string][]} views  a place and the model to show in it */
export async function show(state, views) {
  const loader = async (name) => {
    if (name === "anywidget") return defined;
    throw new Error(`${name} is no widget that this page can show without a kernel`);
  };
  const manager = new HTMLManager({ loader });
  const models = new Map((await manager.set_state(state)).map((model) => [model.model_id, model]));
  for (const [place, id] of views) {
    if (!models.has(id)) continue;
    const el = document.createElement("div");
    el.className = "att-live";
    place.prepend(el);
    await manager.display_view(await manager.create_view(models.get(id)), el);
    place.classList.add("att-drawn");
  }
}
