"""Interactive figures and questions: the live one for who can run it, a picture or its text for everybody else."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
PLACE = "att-widget"


class KeepPicture(SphinxPostTransform):
    """Put a widget's picture, or its text, beside its view: myst-nb would keep the view alone."""

    default_priority = 3  # before myst-nb chooses among the mime types
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:  # noqa: D102
        for bundle in list(self.document.findall(nodes.container)):
            if bundle.get("nb_element") != "mime_bundle":
                continue
            kinds = {part["mime_type"]: part for part in bundle.children if isinstance(part, nodes.container)}
            if VIEW not in kinds:
                continue
            place = nodes.container(classes=[PLACE])
            place += kinds[VIEW].children
            if "text/markdown" in kinds:
                place += kinds["text/markdown"].children
            if "image/png" in kinds:
                pictures = kinds["image/png"].children
                for image in (image for part in pictures for image in part.findall(nodes.image)):
                    image["alt"] = self._alt(kinds[VIEW].astext()) or image.get("alt", "")
                place += pictures
            bundle.replace_self(place)

    def _alt(self, script: str) -> str:
        """What the widget says of itself."""
        model = json.loads(script.partition(">")[2].rpartition("</script>")[0])["model_id"]
        notebook = json.loads(Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8"))
        states = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
        return str(states.get(model, {}).get("state", {}).get("alt", ""))


def inert(state: str) -> str:
    """The same JSON without a ``<``, which could end the script that carries it, or open another inside."""
    return state.replace("<", r"\u003c")


def _make_inert(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    # myst-nb escapes </script> in small letters alone, and a token may be </SCRIPT> or <!--<script>.
    for script in context.get("script_files", []):
        attributes = getattr(script, "attributes", {})
        if attributes.get("type") == STATE:
            attributes["body"] = inert(attributes["body"])


def setup(app: Sphinx) -> None:
    app.add_post_transform(KeepPicture)
    app.connect("html-page-context", _make_inert, priority=900)  # when myst-nb has added its scripts
