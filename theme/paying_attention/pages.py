"""What each page carries: a description, pictures with a size, ids that are unique."""

import re
import struct
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

DESCRIPTION_LENGTH = 160
_CSS_PIXELS_PER_METRE = 96 / 0.0254
_STYLED_SIZE = re.compile(r'(<img [^>]*?)style="width: (\d+)px; height: (\d+)px;"')


def png_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG at its true size, in CSS pixels (96 to the inch)."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    width, height = struct.unpack(">II", data[16:24])
    at = data.find(b"pHYs", 0, 4096)
    if at > 0:
        per_metre, _, unit = struct.unpack(">IIB", data[at + 4 : at + 13])
        if unit == 1 and per_metre:
            scale = _CSS_PIXELS_PER_METRE / per_metre
            return round(width * scale), round(height * scale)
    return width, height


def size_images(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """A size in the page keeps the text from jumping when the picture comes; the rest load late."""
    if app.builder.format != "html":
        return
    for count, image in enumerate(doctree.findall(nodes.image)):
        if count:
            image["loading"] = "lazy"
        path = Path(app.srcdir) / image["uri"]
        if path.suffix != ".png" or "width" in image or "scale" in image or not path.is_file():
            continue
        if size := png_size(path.read_bytes()):
            image["width"], image["height"] = map(str, size)


def separate_ids(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give each exercise's inside an id of its own: sphinx-exercise gives all the same."""
    for section in doctree.findall(nodes.section):
        if section["ids"] in (["exercise-content"], ["solution-content"]) and section.parent["ids"]:
            section["ids"] = [f"{section.parent['ids'][0]}-content"]


def first_words(doctree: nodes.document) -> str:
    """The page's first paragraph, cut at a word."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, nodes.section) and len(text) > 40:
            if len(text) <= DESCRIPTION_LENGTH:
                return text
            return re.sub(r"\W*\s+\S*$", "", text[: DESCRIPTION_LENGTH - 1]) + "…"
    return ""


def describe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Add the description, and write sizes so that a picture may shrink in proportion."""
    if "body" in context:
        # docutils writes them as a style, whose fixed height squeezes the picture on a phone.
        context["body"] = _STYLED_SIZE.sub(r'\1width="\2" height="\3"', context["body"])
    if 'name="description"' in context.get("metatags", ""):
        return
    words = first_words(doctree) if doctree else ""
    words = words or f"{context.get('title') or pagename}: {app.config.html_title}"
    tag = f'<meta name="description" content="{escape(nodes.unescape(words))}" />'
    context["metatags"] = f"{context.get('metatags', '')}\n    {tag}"


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", size_images)
    app.connect("doctree-resolved", separate_ids)
    app.connect("html-page-context", describe)
