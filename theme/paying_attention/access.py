"""What myst-nb, docutils and the theme write against the rules of accessible pages (axe-core names them)."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

TABLE_BOX = "pst-scrollable-table-container"
TEMPLATES = Path(__file__).parents[1] / "templates"
_EMPTY_HEADER = re.compile(r"<th( class=\"[^\"]*\")?>(?:\s|<p></p>)*</th>")


def amend(body: str) -> str:
    """The same page, with names and roles that say what is seen."""
    # It hides from a screen reader that this is code, and whether it is shown.
    body = body.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    # An entry must be an item of its list, and the other role is withdrawn.
    body = body.replace('role="doc-biblioentry"', 'role="listitem"')
    # The corner of a table is over nothing.
    return _EMPTY_HEADER.sub(r"<td\1></td>", body)


def _amend(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = amend(context["body"])
        if TABLE_BOX in context["body"]:
            app.add_js_file("tables.js", loading_method="defer")


def _light_without_script(app: Sphinx, exception: Exception | None) -> None:
    # "auto" waits for a script to say light or dark; till then, and without one, nothing has a colour.
    if exception or app.builder.format != "html":
        return
    for page in Path(app.outdir).glob("*.html"):
        html = page.read_text("utf8")
        if ' data-theme="auto">' in html:
            page.write_text(html.replace(' data-theme="auto">', ' data-theme="light">', 1), "utf8")


def _templates(app: Sphinx, config: Config) -> None:
    config.templates_path.insert(0, str(TEMPLATES))


def setup(app: Sphinx) -> None:
    app.connect("config-inited", _templates)
    app.connect("html-page-context", _amend)
    app.connect("build-finished", _light_without_script)
