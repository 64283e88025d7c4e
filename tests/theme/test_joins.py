from docutils import nodes
from docutils.utils import new_document

from theme.paying_attention.joins import TOGETHER, join


def boxes(*parts: nodes.Node) -> tuple[str, list[str]]:
    """The text, and what stands in a box of its own."""
    document = new_document("a test")
    document += nodes.paragraph("", "", *parts)
    join(document)
    kept = [box.astext() for box in document.findall(nodes.inline) if TOGETHER in box["classes"]]
    return document.astext(), kept


def formula(latex: str) -> nodes.math:
    return nodes.math(latex, latex)


def test_punctuation_stays_with_its_formula():
    text, kept = boxes(nodes.Text("one ("), formula("L"), nodes.Text("), and "), formula("S"), nodes.Text("."))
    assert text == "one (L), and S."
    assert kept == ["(L),", "S."]


def test_one_character_between_two_formulas_is_used_once():
    text, kept = boxes(formula("L"), nodes.Text(","), formula("S"))
    assert text == "L,S"
    assert kept == ["L,"]


def test_of_two_texts_that_read_alike_each_gives_its_own_comma():
    text, kept = boxes(formula("L"), nodes.Text(", "), formula("S"), nodes.Text(", "), formula("M"))
    assert text == "L, S, M"
    assert kept == ["L,", "S,"]


def test_words_and_lone_formulas_are_left_alone():
    assert boxes(nodes.Text("of "), formula("L"), nodes.Text(" and "), formula("S")) == ("of L and S", [])
    assert boxes(formula("L")) == ("L", [])


def test_a_long_formula_may_break():
    assert boxes(formula("x" * 31), nodes.Text("."))[1] == []
