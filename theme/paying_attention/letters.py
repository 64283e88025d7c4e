r"""Mark the book's letters in an equation: Q, K, V, A, O each keep one colour everywhere.

The sources stay plain LaTeX, so that the same notebook reads in Jupyter and Colab; the marks
(`\htmlClass`, which only KaTeX knows) are put in while the site is built.
"""

import re

CLASSES = {"Q": "query", "K": "key", "V": "value", "A": "weight", "O": "output"}

# What follows these is text, a name, or another alphabet: no letter of ours.
_OPAQUE = frozenset(
    r"\text \textbf \textit \textrm \textsf \texttt \mbox \mathrm \mathsf \mathtt \mathit \mathcal"
    r" \mathbb \mathfrak \mathscr \operatorname \operatornamewithlimits \begin \end \label \tag \ref"
    r" \eqref \color \hspace \hskip \kern \phantom".split()
)
_BOLD = frozenset(r"\mathbf \boldsymbol \bm \bold".split())

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|.", re.DOTALL)
_BIG_O = re.compile(r"\s*(?:\\left|\\[bB]igg?l?)?\s*\(")


def mark(latex: str) -> str:
    r"""Return the same equation with each letter of ours in an ``\htmlClass`` of its role."""
    return _mark(_TOKEN.findall(latex))


def _mark(tokens: list[str]) -> str:
    out: list[str] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.rstrip("*") in _OPAQUE or token in ("^", "_"):
            end = _argument_end(tokens, i + 1)
            out += tokens[i:end]
            i = end
            continue
        if token in _BOLD:
            end = _argument_end(tokens, i + 1)
            letter = "".join(tokens[i + 1 : end]).strip("{} \t\n")
            out.append(_wrap(letter, "".join(tokens[i:end])))
            i = end
            continue
        rest = "".join(tokens[i + 1 : i + 6])
        out.append(_wrap(token, token) if _is_ours(token, rest) else token)
        i += 1
    return "".join(out)


def _is_ours(token: str, rest: str) -> bool:
    if token == "O" and _BIG_O.match(rest):
        return False  # O(n²) is a growth rate, not an output
    if token in CLASSES:
        return True
    # A lower-case letter is a vector or weight only with its index: a bare k counts something.
    return token.upper() in CLASSES and token.islower() and rest.lstrip().startswith("_")


def _wrap(letter: str, latex: str) -> str:
    role = CLASSES.get(letter.upper()) if len(letter) == 1 else None
    return rf"\htmlClass{{att-{role}}}{{{latex}}}" if role else latex


def _argument_end(tokens: list[str], i: int) -> int:
    """Index just past the argument that starts at or after ``i``: one token or a braced group."""
    while i < len(tokens) and tokens[i].isspace():
        i += 1
    if i >= len(tokens):
        return i
    if tokens[i].rstrip("*") in _OPAQUE | _BOLD:  # x_\text{max}
        return _argument_end(tokens, i + 1)
    if tokens[i] != "{":
        return i + 1
    depth = 0
    while i < len(tokens):
        depth += {"{": 1, "}": -1}.get(tokens[i], 0)
        i += 1
        if depth == 0:
            break
    return i
