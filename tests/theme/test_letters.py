import pytest

from theme.paying_attention.letters import mark


def q(latex: str) -> str:
    return rf"\htmlClass{{att-query}}{{{latex}}}"


def k(latex: str) -> str:
    return rf"\htmlClass{{att-key}}{{{latex}}}"


def v(latex: str) -> str:
    return rf"\htmlClass{{att-value}}{{{latex}}}"


def a(latex: str) -> str:
    return rf"\htmlClass{{att-weight}}{{{latex}}}"


def o(latex: str) -> str:
    return rf"\htmlClass{{att-output}}{{{latex}}}"


@pytest.mark.parametrize(
    ("latex", "marked"),
    [
        ("O = AV", f"{o('O')} = {a('A')}{v('V')}"),
        (r"\frac{Q K^\top}{\sqrt{D}}", rf"\frac{{{q('Q')} {k('K')}^\top}}{{\sqrt{{D}}}}"),
        ("a_{ij} v_j", f"{a('a')}_{{ij}} {v('v')}_j"),
        ("q_i^\\top k_j", f"{q('q')}_i^\\top {k('k')}_j"),
        ("o _i", f"{o('o')} _i"),
        (r"\mathbf{q}^\top \boldsymbol{K}", q(r"\mathbf{q}") + r"^\top " + k(r"\boldsymbol{K}")),
        (r"\mathbf v", v(r"\mathbf v")),
        (r"\hat{Q}", rf"\hat{{{q('Q')}}}"),
        (r"\left(Q\right)", rf"\left({q('Q')}\right)"),
        (r"\begin{aligned} Q &= X W_Q \\ K &= 1 \end{aligned}", None),
    ],
)
def test_marks_the_letters(latex: str, marked: str | None) -> None:
    if marked is None:
        marked = latex.replace(" Q &", f" {q('Q')} &").replace(" K &", f" {k('K')} &")
    assert mark(latex) == marked


@pytest.mark.parametrize(
    "latex",
    [
        r"W_Q + W_{K} + W^{V} + W_\text{Q}",
        r"\text{Q and K} \mathrm{V} \operatorname{Attention A} \operatorname*{O}",
        r"\mathcal{O}(n) \mathbb{Q}",
        r"\sum_{k=1}^{K} x_k",
        "k + a + o + v",
        "O(n^2) + O\\left(L S\\right) + O \\bigl( 1",
        r"\mathbf{x} + \mathbf{qk}",
        r"\begin{array}{ao} 1 \end{array}",
        r"\Omega \alpha_{a_i} \quad \vec{x}",
        r"x_{q_{i}}^{a_{ij}}",
        r"\label{eq-Q} \tag{A}",
        "",
    ],
)
def test_leaves_the_rest(latex: str) -> None:
    assert mark(latex) == latex


def test_survives_unbalanced_braces() -> None:
    assert mark(r"x_{Q") == r"x_{Q"
    assert mark("Q^") == q("Q") + "^"
