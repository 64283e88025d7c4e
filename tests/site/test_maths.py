"""Equations are in the page as HTML and MathML; no LaTeX is left over."""

import re

import pytest

from tests.site.pages import PAGES, read

LEFT_OVER = re.compile(r"\$\$|\\(begin|frac|sum|top|mathbf)\b|\{(ref|eq|term|cite|glue)")
ROLES = {"att-query", "att-key", "att-value", "att-weight", "att-output"}


@pytest.mark.parametrize("name", PAGES)
def test_every_equation_is_rendered(name: str) -> None:
    for equation in read(name).article.select(".math"):
        assert equation.select_one(".katex-html"), equation.get_text()
        assert equation.select_one("math annotation"), equation.get_text()
        assert not equation.select(".katex-error, [color='#cc0000']"), equation.get_text()


@pytest.mark.parametrize("name", PAGES)
def test_what_one_copies_is_the_source(name: str) -> None:
    for annotation in read(name).article.select("annotation"):
        assert "htmlClass" not in annotation.get_text()


@pytest.mark.parametrize("name", PAGES)
def test_no_latex_is_left_in_the_text(name: str) -> None:
    article = read(name).article
    left = [
        str(text)
        for text in article.find_all(
            string=re.compile(r"\$\$|\\(begin|frac|sum|top|mathbf)\b|\{(ref|eq|term|cite|glue)")
        )
        if not any(parent.name in ("pre", "code", "annotation", "script") for parent in text.parents)
    ]
    assert not left


def test_letters_carry_their_role() -> None:
    article = read("notation").article
    assert {role for role in ROLES if article.select(f".katex-html .{role}")} == ROLES
    # X W_Q: the Q is a name there, not a query.
    for subscript in article.select(".katex-html .msupsub"):
        assert not subscript.select("[class*=att-]")
