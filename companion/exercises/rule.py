"""When is an answer right? A rule is written once and judged twice: in Python here, and in the page by JavaScript.

>>> from companion.exercises.rule import near, softmax, state
>>> rule = near(softmax(state("scores") / state("temperature")).max(), 0.5, 0.02)
>>> rule.holds({"scores": [0.0, 0.0], "temperature": 1.0})
True
>>> rule.tree
{'near': [{'max': [{'softmax': [{'/': [{'state': 'scores'}, {'state': 'temperature'}]}]}]}, 0.5, 0.02]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Rule", "allowed", "entropy", "exp", "log", "near", "same", "softmax", "sqrt", "state"]


class Rule:
    """Something to be computed from a figure's state, or a condition on it: built by Python's operators."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        return f"Rule({json.dumps(self.tree, ensure_ascii=False)})"

    def evaluate(self, given: Mapping[str, Any]) -> Any:
        """What comes out for a state: numbers, lists of them, or True and False.

        Raises:
            KeyError: the state lacks a trait that the rule names.
            ValueError: sizes that do not fit.
        """
        return evaluate(self.tree, given)

    def holds(self, given: Mapping[str, Any]) -> bool:
        """Whether a state meets the condition."""
        return bool(self.evaluate(given))

    def names(self) -> list[str]:
        """The traits that it reads."""
        return sorted(_names(self.tree))

    def __add__(self, other: Any) -> Rule:
        return _rule("+", self, other)

    def __radd__(self, other: Any) -> Rule:
        return _rule("+", other, self)

    def __sub__(self, other: Any) -> Rule:
        return _rule("-", self, other)

    def __rsub__(self, other: Any) -> Rule:
        return _rule("-", other, self)

    def __mul__(self, other: Any) -> Rule:
        return _rule("*", self, other)

    def __rmul__(self, other: Any) -> Rule:
        return _rule("*", other, self)

    def __truediv__(self, other: Any) -> Rule:
        return _rule("/", self, other)

    def __rtruediv__(self, other: Any) -> Rule:
        return _rule("/", other, self)

    def __matmul__(self, other: Any) -> Rule:
        return _rule("@", self, other)

    def __neg__(self) -> Rule:
        return _rule("*", self, -1)

    def __abs__(self) -> Rule:
        return _rule("abs", self)

    def __getitem__(self, index: int) -> Rule:
        return _rule("at", self, index)

    def __lt__(self, other: Any) -> Rule:
        return _rule("<", self, other)

    def __le__(self, other: Any) -> Rule:
        return _rule("<=", self, other)

    def __gt__(self, other: Any) -> Rule:
        return _rule(">", self, other)

    def __ge__(self, other: Any) -> Rule:
        return _rule(">=", self, other)

    def __and__(self, other: Any) -> Rule:
        return _rule("and", self, other)

    def __or__(self, other: Any) -> Rule:
        return _rule("or", self, other)

    def __invert__(self) -> Rule:
        return _rule("not", self)

    def __eq__(self, other: object) -> Any:
        raise TypeError("== says nothing about a rule: write same(a, b), or near(a, b, within) for numbers")

    def __bool__(self) -> bool:
        raise TypeError("a rule is neither true nor false before it meets a state: join rules with &, | and ~")

    def __iter__(self) -> Any:
        raise TypeError("a rule has no entries before it meets a state: write rule[0]")

    @property
    def T(self) -> Rule:
        """A matrix, turned over."""
        return _rule("T", self)

    def max(self) -> Rule:
        """The largest of all entries."""
        return _rule("max", self)

    def min(self) -> Rule:
        """The smallest of all entries."""
        return _rule("min", self)

    def sum(self) -> Rule:
        """The sum of all entries."""
        return _rule("sum", self)

    def mean(self) -> Rule:
        """The mean of all entries."""
        return _rule("mean", self)

    def argmax(self) -> Rule:
        """Where the largest entry stands, counted through all rows; the first of equals."""
        return _rule("argmax", self)

    def size(self) -> Rule:
        """How many entries there are."""
        return _rule("size", self)


def state(name: str) -> Rule:
    """A trait of the figure."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    return Rule({"state": name})


def allowed() -> Rule:
    """The table of a ``MaskEditor``, by its rules and cells: 1 where a query (row) may attend to a key, else 0."""
    return Rule({"allowed": []})


def softmax(x: Any) -> Rule:
    """Shares of one along the last axis."""
    return _rule("softmax", x=x)


def entropy(x: Any) -> Rule:
    """Of weights along the last axis, in nats."""
    return _rule("entropy", x=x)


def exp(x: Any) -> Rule:
    """The exponential of each entry."""
    return _rule("exp", x=x)


def log(x: Any) -> Rule:
    """The natural logarithm of each entry."""
    return _rule("log", x=x)


def sqrt(x: Any) -> Rule:
    """The root of each entry."""
    return _rule("sqrt", x=x)


def near(a: Any, target: Any, within: float) -> Rule:
    """No entry is further from the target than ``within``."""
    return _rule("near", a=a, target=target, within=_tolerance(within))


def same(a: Any, b: Any) -> Rule:
    """Equal exactly: texts, switches, numbers, or whole lists of them; True is 1."""
    return _rule("same", a=a, b=b)


def _rule(operation: str, *parts: Any, **named: Any) -> Rule:
    trees = [_tree("both sides", part) for part in parts]
    return Rule({operation: [*trees, *(_tree(name, part) for name, part in named.items())]})


def _tree(name: str, part: Any) -> Any:
    """What a rule is made of, as JSON has it."""
    if isinstance(part, Rule):
        return part.tree
    if isinstance(part, (list, tuple)):
        return [_tree(name, each) for each in part]
    if isinstance(part, (bool, int, float, str)):
        return part
    raise TypeError(f"{name} must be a rule, a number, a text or a list of such, got {type(part).__name__}")


def _tolerance(within: float) -> float:
    if isinstance(within, bool) or not isinstance(within, (int, float)):
        raise TypeError(f"within must be a real number, got {type(within).__name__}")
    if not 0 <= within < math.inf:
        raise ValueError(f"within must be from 0 up, and finite, got {within}")
    return within


def _names(tree: Any) -> set[str]:
    if isinstance(tree, list):
        return set().union(*map(_names, tree))
    if not isinstance(tree, dict):
        return set()
    ((name, parts),) = tree.items()
    if name == "state":
        return {parts}
    return set(MASK) if name == "allowed" else _names(parts)


MASK = ("tokens", "length", "side", "width", "ids", "by_hand", "causal", "padding", "window", "document")
"""What the table of a ``MaskEditor`` follows from."""


# --- The evaluator. widgets/src/lib/judge.js does the same; a test compares the two on random states. ---


def evaluate(tree: Any, given: Mapping[str, Any]) -> Any:
    """What a tree comes to for a state: lists and plain numbers, as JSON has them."""
    if isinstance(tree, list):
        return [evaluate(part, given) for part in tree]
    if not isinstance(tree, dict):
        return tree
    ((name, parts),) = tree.items()
    if name == "state":
        return given[parts]
    if name == "allowed":
        return _allowed(given)
    return _OPERATIONS[name](*(evaluate(part, given) for part in parts))


def _allowed(given: Mapping[str, Any]) -> list[list[int]]:
    from companion.widgets.mask_editor import MaskEditor

    table = MaskEditor(**{name: given[name] for name in MASK}).mask
    return [[int(cell) for cell in row] for row in table]


def _each(function: Callable[..., float], *arrays: Any) -> Any:
    """Apply to numbers entry by entry; a single number goes with any size."""
    sizes = {len(x) for x in arrays if isinstance(x, list)}
    if not sizes:
        return function(*arrays)
    if len(sizes) > 1:
        raise ValueError(f"sizes that do not fit: {' and '.join(map(str, sorted(sizes)))}")
    (size,) = sizes
    return [_each(function, *(x[i] if isinstance(x, list) else x for x in arrays)) for i in range(size)]


def _entrywise(function: Callable[..., float]) -> Callable[..., Any]:
    return lambda *arrays: _each(function, *arrays)


def _flat(x: Any) -> list[Any]:
    return [entry for part in x for entry in _flat(part)] if isinstance(x, list) else [x]


def _rows(function: Callable[[list[float]], Any]) -> Callable[[Any], Any]:
    """Apply to each row: a list of numbers, at whatever depth."""

    def through(x: Any) -> Any:
        if not isinstance(x, list):
            raise ValueError("softmax and entropy need a list of numbers, got one number")
        return [through(part) for part in x] if x and isinstance(x[0], list) else function(x)

    return through


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _softmax(row: list[float]) -> list[float]:
    largest = max(row)
    if largest == -math.inf:
        return [0.0] * len(row)
    terms = [_exp(x - largest) for x in row]
    total = sum(terms)
    return [term / total for term in terms]


def _matmul(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    if any(len(row) != len(b) for row in a):
        raise ValueError(f"matrices that do not fit: rows of {len(a[0])}, and {len(b)} rows")
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def _mean(x: Any) -> float:
    entries = _flat(x)
    return float(sum(entries)) / len(entries)


def _argmax(x: Any) -> int:
    entries = _flat(x)
    return entries.index(max(entries))


def _near(a: Any, target: Any, within: float) -> bool:
    return all(difference <= within for difference in _flat(_each(lambda x, y: abs(x - y), a, target)))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": _entrywise(lambda a, b: a + b),
    "-": _entrywise(lambda a, b: a - b),
    "*": _entrywise(lambda a, b: a * b),
    "/": _entrywise(_divide),
    "abs": _entrywise(abs),
    "exp": _entrywise(_exp),
    "log": _entrywise(_log),
    "sqrt": _entrywise(_sqrt),
    "@": _matmul,
    "at": lambda x, index: x[index],
    "T": lambda x: [list(column) for column in zip(*x, strict=True)],
    "max": lambda x: max(_flat(x)),
    "min": lambda x: min(_flat(x)),
    "sum": lambda x: sum(_flat(x)),
    "mean": _mean,
    "argmax": _argmax,
    "size": lambda x: len(_flat(x)),
    "softmax": _rows(_softmax),
    "entropy": _rows(lambda row: -sum(a * math.log(a) for a in row if a > 0)),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "near": _near,
    "same": lambda a, b: a == b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "not": lambda a: not a,
}
