"""The site's own Sphinx extension: what the book needs and jupyter-book does not do."""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

from . import access, afresh, figures, joins, manager, maths, numbering, pages, reading, repository

STATIC = Path(__file__).parents[1] / "static"


def _static_path(app: Sphinx, config: Config) -> None:
    config.html_static_path.append(str(STATIC))
    config.katex_prerender = True
    config.katex_css_path = "katex/katex.min.css"
    config.katex_js_path = str(maths.KATEX / "dist" / "katex.min.js")


def setup(app: Sphinx) -> dict[str, bool]:
    for part in (access, afresh, figures, joins, manager, maths, numbering, pages, reading, repository):
        part.setup(app)
    app.connect("config-inited", _static_path)
    # jupyter-book always sets it; the extension that reads it is left out.
    app.add_config_value("comments_config", {}, "")
    app.add_css_file("paying-attention.css", priority=900)
    # KaTeX's node process belongs to one writer.
    return {"parallel_read_safe": True, "parallel_write_safe": False}
