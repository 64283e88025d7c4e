"""Keep a comma on the line of the formula that it follows, and a bracket with what it opens."""

from docutils import nodes
from sphinx.application import Sphinx

TOGETHER = "att-together"  # the style sheet lets no line break between its children
SHORT = 30  # characters of LaTeX; a longer formula may itself have to break on a phone
_CLOSING = ",.;:!?)]’”%"
_OPENING = "([‘“"


def join(doctree: nodes.document) -> None:
    """Put short inline formulas and the punctuation beside them into one box, where no line breaks."""
    for formula in list(doctree.findall(nodes.math)):
        if len(formula.astext()) > SHORT:
            continue
        siblings = formula.parent
        here = siblings.index(formula)
        before = siblings[here - 1] if here else None
        after = siblings[here + 1] if here + 1 < len(siblings) else None
        left = before.astext() if isinstance(before, nodes.Text) else ""
        right = after.astext() if isinstance(after, nodes.Text) else ""
        opening = left[len(left.rstrip(_OPENING)) :]
        closing = right[: len(right) - len(right.lstrip(_CLOSING))]
        if not opening and not closing:
            continue
        box = nodes.inline("", "", classes=[TOGETHER])
        siblings[here] = box
        box += [nodes.Text(part) if isinstance(part, str) else part for part in (opening, formula, closing) if part]
        # By place: two texts that read alike are equal, and `replace` would find the first.
        if opening and before is not None:
            siblings[here - 1] = nodes.Text(left[: -len(opening)])
        if closing and after is not None:
            siblings[here + 1] = nodes.Text(right[len(closing) :])


def _join(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format == "html":
        join(doctree)


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", _join)
