"""Say under a chapter's title how long it takes to read."""

from docutils import nodes
from sphinx.application import Sphinx

from .numbering import CHAPTER

WORDS = 200  # a minute, of a text one has to think about
LINES = 40  # of code, a minute: read, not typed
STILL = 6  # seconds for a figure or an equation on a line of its own
_ASIDE = {"exercise", "solution"}
_TALK = (nodes.paragraph, nodes.title, nodes.term)


def minutes(doctree: nodes.document) -> int:
    """How long it takes to read once: prose, visible code, figures and equations; exercises and folded parts apart."""
    words = lines = stills = 0

    def visit(node: nodes.Node) -> None:
        nonlocal words, lines, stills
        if isinstance(node, nodes.literal_block):
            lines += len([line for line in node.astext().splitlines() if line.strip()])
        elif isinstance(node, nodes.math_block | nodes.figure | nodes.image):
            stills += 1
        elif isinstance(node, _TALK):
            words += len(node.astext().split())
        elif isinstance(node, nodes.Element):
            folded = "tag_hide-input" in node["classes"]
            for child in node.children:
                classes = set(child["classes"]) if isinstance(child, nodes.Element) else set()
                if "cell_output" in classes:  # what a cell prints is looked at, not read
                    stills += next(iter(child.findall(nodes.image)), None) is not None
                elif not (classes & _ASIDE or (folded and "cell_input" in classes)):
                    visit(child)

    visit(doctree)
    return max(1, round(words / WORDS + lines / LINES + stills * STILL / 60))


def _say(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    title = next(iter(doctree.findall(nodes.title)), None)
    if app.builder.format != "html" or not CHAPTER.match(docname) or title is None:
        return
    told = nodes.paragraph("", f"About {minutes(doctree)} minutes to read, exercises apart")
    line = nodes.container("", told, classes=["att-reading"])  # the page's first paragraph is still the author's
    section = title.parent
    section.insert(section.index(title) + 1, line)


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", _say)
