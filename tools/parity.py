"""The book's page of the parity matrix, from what the tests have measured. No torch.

``python -m tools.parity`` fills the tables of ``book/parity.md`` from ``book/results/parity.json``; ``make parity``
measures first.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "book" / "parity.md"
RESULTS = ROOT / "book" / "results" / "parity.json"
WAYS = ("forward", "backward")

Value = float | str
Stored = dict[str, Any]


def filled(text: str, stored: Stored) -> str:
    """Return the page with its marked parts made anew; the prose between them stays."""
    for name, content in (("machine", machine(stored)), ("summary", summary(stored)), ("details", details(stored))):
        part = re.compile(rf"(?<=^% {name}: begin\n).*?(?=^% {name}: end$)", re.MULTILINE | re.DOTALL)
        if not part.search(text):
            raise ValueError(f"{PAGE.name} must have the lines '% {name}: begin' and '% {name}: end'")
        text = part.sub(lambda _, content=content: f"\n{content}\n\n", text)  # type: ignore[misc]
    return text


def machine(stored: Stored) -> str:
    """Say where it was measured."""
    said = stored["machine"]
    return f"Measured on {said['processor']}, with PyTorch {said['torch']} and Python {said['python']}."


def summary(stored: Stored) -> str:
    """The worst of each path, over all masks and lengths: a table of outputs, and one of gradients."""
    dtypes = list(stored["bounds"]["backends"])
    lines: list[str] = []
    letters: set[str] = set()
    for way, (name, what) in enumerate((("forward", "outputs"), ("backward", "gradients"))):
        rows = []
        for label in ("backends", "modules") if stored["modules"] else ("backends",):
            bounds = [number(stored["bounds"][label][dtype][way]).replace(".0e", "e") for dtype in dtypes]
            rows.append([f"*bound of {label}*", *bounds])
        for path, kinds in stored["cells"].items():
            row = [path]
            for dtype in dtypes:
                values = [kinds] if isinstance(kinds, str) else [pair[way] for pair in _pairs(kinds, dtype)]
                shown, seen = worst(values, _no_case(stored))
                row.append(shown)
                letters |= seen
            rows.append(row)
        lines += [*_table(f"The largest error of {what}.", f"tbl-parity-{name}", ["path", *dtypes], rows), ""]
    return "\n".join([*lines, *_legend(stored, letters)])


def details(stored: Stored) -> str:
    """Everything, a table for each path that serves anything."""
    dtypes = list(stored["bounds"]["backends"])
    blocks = []
    for path, kinds in stored["cells"].items():
        if isinstance(kinds, str):
            continue
        rows = [
            [kind, relation, *[number(value) for dtype in dtypes for value in kinds[kind][dtype][relation]]]
            for kind in kinds
            for relation in stored["lengths"]
        ]
        letters = {v for dtype in dtypes for pair in _pairs(kinds, dtype) for v in pair if isinstance(v, str)}
        head = ["mask", "lengths", *_heads(dtypes)]
        label = "tbl-parity-" + re.sub(r"\W+", "-", path.lower())
        table = _table(f"All errors of `{path}`.", label, head, rows)
        blocks += [f"::::{{dropdown}} {path}", *table, "", *_legend(stored, letters), "::::", ""]
    return "\n".join(blocks).rstrip()


def worst(values: Iterable[Value], no_case: str | None) -> tuple[str, set[str]]:
    """The largest number and the letters beside it, those apart that only say that there is no such case."""
    values = list(values)
    numbers = [value for value in values if not isinstance(value, str)]
    letters = {value for value in values if isinstance(value, str)}
    if numbers or len(letters) > 1:
        letters.discard(no_case or "")
    parts = ([number(max(numbers))] if numbers else []) + [f"({letter})" for letter in sorted(letters)]
    return " ".join(parts), letters


def number(value: Value) -> str:
    """A number with two digits, or a letter."""
    if isinstance(value, str):
        return f"({value})"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", "−") if value else "0"  # a hyphen may end a line


def _no_case(stored: Stored) -> str | None:
    found = [letter for letter, reason in stored["reasons"].items() if reason.startswith("There is no such case")]
    return found[0] if found else None


def _pairs(kinds: Stored, dtype: str) -> list[list[Value]]:
    return [pair for dtypes in kinds.values() for pair in dtypes[dtype].values()]


def _heads(dtypes: list[str]) -> list[str]:
    return [f"{dtype} {way}" for dtype in dtypes for way in WAYS]


def _table(caption: str, name: str, head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f":::{{table}} {caption}", f":name: {name}", "", *(f"| {' | '.join(line)} |" for line in lines), ":::"]


def _legend(stored: Stored, letters: set[str]) -> list[str]:
    return [f"- ({letter}) {stored['reasons'][letter]}" for letter in stored["reasons"] if letter in letters]


def main() -> None:
    """Fill the page."""
    text = RESULTS.read_text(encoding="utf-8")
    if "null" in text:
        raise SystemExit(f"{RESULTS.name} has holes: only some of the matrix was measured; run `make parity`")
    stored = json.loads(text)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), stored), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(stored['cells'])} paths")


if __name__ == "__main__":
    main()
