"""Results as a table: for a terminal, and for the book, which shows nothing but what is rendered here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from companion.benchmarks.results import Results, Row

__all__: list[str] = []

Units = Sequence[tuple[float, str]]

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_RATES = ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s"))


class Column(NamedTuple):
    """A heading, and what a row has under it."""

    heading: str
    cell: Callable[[Row], str]


def digits(x: float) -> str:
    """Three digits, without an exponent."""
    if x == 0 or abs(x) >= 100:
        return f"{x:.0f}"
    return f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def scaled(x: float, units: Units) -> str:
    """A quantity in the largest unit of which it has one: 0.0021 s as ``2.10 ms``."""
    size, name = _unit(x, units)
    return f"{digits(x / size)} {name}"


def _unit(x: float, units: Units) -> tuple[float, str]:
    return next((unit for unit in units if abs(x) >= unit[0]), units[-1])


def seconds(x: float) -> str:
    """A time."""
    return scaled(x, _SECONDS)


def cost(row: Row, x: float | None) -> str:
    """A time or an amount of memory, or nothing."""
    return "" if x is None else scaled(x, _BYTES if row.unit == "B" else _SECONDS)


def value(row: Row) -> str:
    """The median, and the quartiles in the same unit; or why there is none."""
    if row.value is None:
        return row.note
    size, unit = _unit(row.value.median, _SECONDS) if row.measure in ("added", "seconds") else (1.0, "")
    low, middle, high = (_number(row.measure, x / size) for x in (row.value.low, row.value.median, row.value.high))
    if row.measure == "added" and row.value.median > 0:
        middle = f"+{middle}"
    middle += "×" if row.measure == "speedup" else f" {unit}".rstrip()
    return middle if row.value.rounds == 1 else f"{middle} [{low}, {high}]"


def _number(measure: str, x: float) -> str:
    """Near 1 a third digit after the point decides whether a goal is met."""
    return f"{x:.3f}" if measure in ("ratio", "exponent") and abs(x) < 10 else digits(x)


def goal(row: Row) -> str:
    """What was promised."""
    if row.goal is None:
        return ""
    sign = "≤" if row.goal.at_most else "≥"
    if row.measure == "added":
        return f"{sign} {row.goal.limit * 1e6:g} µs"
    if row.measure == "seconds":
        return f"{sign} {seconds(row.goal.limit)}"
    return f"{sign} {row.goal.limit:g}{'×' if row.measure == 'speedup' else ''}"


COLUMNS = (
    Column("", lambda row: row.what),
    Column("ours", lambda row: cost(row, row.our_cost)),
    Column("theirs", lambda row: cost(row, row.their_cost)),
    Column("median [quartiles]", value),
    Column("peak memory", lambda row: "" if row.peak is None else scaled(row.peak, _BYTES)),
    Column("rate", lambda row: "" if row.rate is None else scaled(row.rate, _RATES)),
    Column("of matmul's", lambda row: "" if row.share is None else f"{row.share:.0%}"),
    Column("goal", goal),
    Column("verdict", lambda row: row.verdict),
)


def grid(rows: Sequence[Row]) -> list[list[str]]:
    """The headings, and below them the cells of each row; a column that would be empty is left out."""
    cells = [[column.cell(row) for column in COLUMNS] for row in rows]
    kept = [i for i in range(len(COLUMNS)) if any(line[i] for line in cells)]
    return [[line[i] for i in kept] for line in [[column.heading for column in COLUMNS], *cells]]


def terminal(results: Results) -> str:
    """The whole, as text in columns: the machine, and a table a case."""
    lines = [f"{name}: {word}" for name, word in (results.machine | results.settings).items()]
    for case in results.cases:
        rows = results.of(case)
        lines += ["", f"{case}{_who(rows)}"]
        ran = [row for row in rows if row.value is not None]
        table = grid(ran) if ran else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            lines.append("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())
        lines += [f"{row.verdict}: {row.what}: {row.note}" for row in rows if row.value is None]
    return "\n".join([*lines, "", summary(results)]) + "\n"


def summary(results: Results) -> str:
    """How many goals there were, and which are not met."""
    goals = [row for row in results.rows if row.goal is not None]
    short = [row for row in results.rows if row.falls_short]
    if not goals and not short:
        return "No goals were set for this device, dtype and size."
    met = sum(row.verdict == "met" for row in goals)
    named = "".join(f"\n  {row.verdict}: {row.case}: {row.what}" for row in short)
    return f"{met} of {len(goals)} goals met.{named}"


def markdown(results: Results) -> str:
    """Fragments for the book, each between comments that name it: the machine, and a table a case."""
    machine = [["", ""], *([name, word] for name, word in (results.machine | results.settings).items())]
    parts = [fragment("machine", machine)]
    parts += [fragment(case, grid(results.of(case))) for case in results.cases]
    return "\n".join(parts)


def fragment(name: str, table: list[list[str]]) -> str:
    """A table in Markdown, and the comments around it by which a page includes it."""
    head, *body = ([_escaped(word) for word in line] for line in table)
    rule = ["---"] * len(head)
    lines = [f"| {' | '.join(line)} |" for line in (head, rule, *body)]
    return "\n".join([f"<!-- {name} -->", "", *lines, "", f"<!-- end of {name} -->", ""])


def _who(rows: Sequence[Row]) -> str:
    """Ours and theirs, where all rows have the same."""
    pairs = {(row.ours, row.theirs) for row in rows}
    if len(pairs) > 1:
        return ""
    ours, theirs = pairs.pop()
    return f": {ours} beside {theirs}" if theirs else f": {ours}"


# What a narrow column must not tear apart: a number and its unit, a sign and its number, "n = 512".
_TOGETHER = re.compile(r"(?<=[\d,n=≤≥]) (?=[\d=]|[mµn]?s\b|[KMG]?i?B\b|[KMGT]?FLOP)")


def _escaped(word: str) -> str:
    word = _TOGETHER.sub("\N{NO-BREAK SPACE}", word)
    return word.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[") if word else word
