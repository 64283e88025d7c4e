"""What a run found, row by row, and its form as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

__all__: list[str] = []

VERSION = 1
MEASURES = ("ratio", "speedup", "added", "exponent", "seconds", "none")


class Spread(NamedTuple):
    """A median, and the quartiles around it.

    Attributes:
        median: half of the values are below.
        low: a quarter of them are below.
        high: a quarter of them are above.
        rounds: how many values there were.
    """

    median: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Goal:
    """What a median has to reach."""

    limit: float
    at_most: bool = True

    def met_by(self, value: float) -> bool:
        """Whether a median reaches it."""
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        case: whose row it is.
        what: what was run, and how large.
        ours: the name of what is measured.
        theirs: the name of what it is measured against; empty where there is nothing.
        our_cost: median seconds, or bytes.
        their_cost: likewise.
        unit: of both costs, ``"s"`` or ``"B"``.
        measure: what ``value`` is: ours over theirs (``"ratio"``), theirs over ours (``"speedup"``), ours less theirs
            in seconds (``"added"``), the power of the length with which the cost grows (``"exponent"``), plain
            ``"seconds"``, or nothing.
        value: that, with its quartiles; None where the row could not be run.
        goal: what ``value.median`` has to reach; None where nothing was promised.
        note: why the row was not run, or what to know about it.
        failed: it was begun and broke.
        rate: floating-point operations a second of ours.
        peak: bytes that ours took at its highest, beside its inputs.
        share: of the rate that a matrix product reaches on the same machine in the same run.
        series: the costs over lengths or positions, by name, where the row stands for a line.
    """

    case: str
    what: str
    ours: str = ""
    theirs: str = ""
    our_cost: float | None = None
    their_cost: float | None = None
    unit: str = "s"
    measure: str = "ratio"
    value: Spread | None = None
    goal: Goal | None = None
    note: str = ""
    failed: bool = False
    peak: int | None = None
    rate: float | None = None
    share: float | None = None
    series: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``"met"``, ``"missed"``, ``"not run"``, ``"failed"``; empty where nothing was promised."""
        if self.failed:
            return "failed"
        if self.value is None and self.our_cost is None:
            return "not run"
        if self.goal is None or self.value is None:
            return ""
        return "met" if self.goal.met_by(self.value.median) else "missed"

    @property
    def falls_short(self) -> bool:
        """Whether a promise is not kept: missed, or not even run."""
        return self.failed or (self.goal is not None and self.verdict != "met")


@dataclass(frozen=True)
class Results:
    """A whole run."""

    machine: dict[str, str]
    settings: dict[str, str]
    rows: list[Row]

    def of(self, case: str) -> list[Row]:
        """The rows of one case."""
        return [row for row in self.rows if row.case == case]

    @property
    def cases(self) -> list[str]:
        """The names of the cases, in the order of the run."""
        return list(dict.fromkeys(row.case for row in self.rows))


def to_json(results: Results) -> str:
    """A text that is stored; times keep four digits, more than any clock here is good for, and bytes all of theirs."""
    rows = [_without_defaults(row) for row in results.rows]
    whole = {"version": VERSION, "machine": results.machine, "settings": results.settings, "rows": rows}
    return json.dumps(_short(whole), indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Results:
    """The results that ``to_json`` wrote.

    Raises:
        ValueError: something else.
    """
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"results must be JSON: {error}") from None
    if not isinstance(whole, Mapping) or whole.get("version") != VERSION:
        raise ValueError(f"results must be those of this program, version {VERSION}")
    try:
        rows = [_row(each) for each in whole["rows"]]
        machine, settings = (_words(whole[name]) for name in ("machine", "settings"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"results have a form that this program does not write: {error!r}") from None
    return Results(machine, settings, rows)


def _row(given: Mapping[str, Any]) -> Row:
    known = dict(given)
    if "value" in known:
        known["value"] = Spread(*known["value"])
    if "goal" in known:
        known["goal"] = Goal(**known["goal"])
    if "series" in known:
        known["series"] = {name: [(x, y) for x, y in points] for name, points in known["series"].items()}
    if known.get("measure", "ratio") not in MEASURES:
        raise KeyError(known["measure"])
    return Row(**known)


def _words(given: Mapping[str, str]) -> dict[str, str]:
    return {str(name): str(word) for name, word in given.items()}


def _without_defaults(row: Row) -> dict[str, Any]:
    plain = asdict(row) | {"value": None if row.value is None else list(row.value)}
    empty: dict[str, Any] = {each.name: {} if each.name == "series" else each.default for each in fields(Row)}
    return {name: value for name, value in plain.items() if value != empty[name]}


def _short(x: Any) -> Any:
    """Numbers, but for whole ones, cut to four digits, all the way down."""
    if isinstance(x, float):
        return float(f"{x:.4g}")
    if isinstance(x, Mapping):
        return {name: _short(value) for name, value in x.items()}
    return [_short(value) for value in x] if isinstance(x, (list, tuple)) else x
