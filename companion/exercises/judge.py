"""From an answer to a sentence: is it right, and if not, which mistake is behind it?"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from companion.exercises import trial
from companion.exercises.spec import Answer, Code, Number, Question
from companion.exercises.trial import ABSENT, alike


@dataclass(frozen=True)
class Verdict:
    """What a check says.

    Args:
        right: whether the answer is; ``None`` without one.
        name: of the answer in the question's list that was given; ``None`` if it is not among them.
        say: the sentence.
    """

    right: bool | None
    name: str | None
    say: str

    def __str__(self) -> str:
        start = {True: "Right. ", False: "Not yet. ", None: ""}[self.right]
        return start + self.say

    def __repr__(self) -> str:
        return textwrap.fill(str(self), 72, break_long_words=False, break_on_hyphens=False)

    def _repr_markdown_(self) -> str:
        return markdown(str(self))

    def __bool__(self) -> bool:
        return self.right is True


def markdown(text: str) -> str:
    """Plain text, with code between backticks, as Markdown that shows exactly that."""
    pieces = text.split("`")
    return "`".join(
        piece if i % 2 and i < len(pieces) - 1 else "".join("\\" + c if c in "\\*_$<>[]#~|{}^" else c for c in piece)
        for i, piece in enumerate(pieces)
    )


def judge(question: Question, given: dict[str, Any]) -> Verdict:
    """The verdict on a state: ``{"choice": ...}``, ``{"value": ...}``, or a figure's traits. The first rule counts."""
    for answer, rule in zip(question.answers, question.rules(), strict=True):
        if rule.holds(given):
            return Verdict(answer.right, answer.name, answer.say)
    return Verdict(False, None, question.hint)


def read_number(text: str) -> float:
    """A number as one types it: ``.45``, ``0,45``, ``1/3``, ``−2``. NaN if it is none.

    The page's JavaScript reads alike.
    """
    text = text.strip().replace("−", "-")
    if text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    parts = text.split("/")
    try:
        numbers = [_decimal(part.strip()) for part in parts]
    except ValueError:
        return math.nan
    if len(numbers) == 1:
        return numbers[0]
    return numbers[0] / numbers[1] if len(numbers) == 2 and numbers[1] else math.nan


def _decimal(text: str) -> float:
    if not set(text) <= set("0123456789.+-eE") or not text:
        raise ValueError(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def number_of(question: Number, value: object) -> float:
    """A number question's answer as a float: a number, a text that is one, or a tensor or array that holds one."""
    if isinstance(value, str):
        number = read_number(value)
        if math.isnan(number):
            raise ValueError(f"{question.id}: value must be a number, got {value!r}")
        return number
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "size", None) is not None:
        try:
            value = item()
        except (RuntimeError, ValueError):
            raise ValueError(f"{question.id}: value must be one number, got {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{question.id}: value must be a number, got {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{question.id}: value must be finite, got {value}")
    return float(value)


def judge_code(question: Code, function: object) -> Verdict:
    """Run a student's function on all cases, and name the mistake: one of the question's, or what went wrong."""
    if not callable(function):
        kind = type(function).__name__
        return Verdict(False, None, f"Hand over the function itself, without calling it: got {kind}.")
    cases = question.cases()
    outcomes = []
    for case in cases:
        outcomes.append(trial.run(function, case))
        if isinstance(outcomes[-1].error, trial.Endless):
            return Verdict(False, None, _raised(question, case, outcomes[-1].error))
    got = [trial.plain(outcome.output) for outcome in outcomes]
    want = trial.outputs(question.right.what, question.cases())
    right = all(alike(a, b, question.within) for a, b in zip(got, want, strict=True))
    if not right:
        named = _named(question, got, want)
        if named is not None:
            return Verdict(False, named.name, named.say)
    fault = _fault(question, function, cases, outcomes, got, want)
    if fault:
        return Verdict(False, None, fault)
    return Verdict(True, question.right.name, " ".join([question.right.say, *_asides(outcomes)]))


def _named(question: Code, got: list[Any], want: list[Any]) -> Answer | None:
    """The wrong answer that gives what came, in every case that it can do.

    Where it gives NaN, as a row with nothing left in it does, another way to the same mistake may give anything: that
    is tried second.
    """
    for lenient in (False, True):
        for answer, others in question.named:
            pairs = [(a, b, c) for a, b, c in zip(got, others, want, strict=True) if b is not ABSENT]
            if lenient:
                pairs = [(_where(a, b), b, c) for a, b, c in pairs]
            if all(alike(a, b, question.within) for a, b, _ in pairs) and any(
                not alike(a, c, question.within) for a, _, c in pairs
            ):
                return answer
    return None


def _where(a: Any, b: Any) -> Any:
    """The first, with NaN where the second has NaN beside numbers."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(map(_where, a, b))
    one, other = trial.number(a), trial.number(b)
    if one is None or other is None or one.shape != other.shape or bool(other.isnan().all()):
        return a
    return one.masked_fill(other.isnan(), math.nan)


def _fault(
    question: Code,
    function: Callable[..., Any],
    cases: list[tuple[Any, ...]],
    outcomes: list[trial.Outcome],
    got: list[Any],
    want: list[Any],
) -> str:
    """What is wrong with what came, in general; nothing if nothing is."""
    for case, outcome in zip(cases, outcomes, strict=True):
        if outcome.error is not None:
            return _raised(question, case, outcome.error)
    for case, outcome in zip(cases, outcomes, strict=True):
        if outcome.edited:
            places = " and ".join(f"argument {place}" for place in outcome.edited)
            return (
                f"It changes what it is given ({places}{_of(case)}), which the caller may still need. Work on a copy."
            )
    if any(outcome.drew for outcome in outcomes):
        for case, output in zip(cases, got, strict=True):
            if not alike(trial.plain(trial.run(function, case, seed=1).output), output, question.within):
                return "It draws random numbers: the same input gives another output each time."
    failed = [(case, a, b) for case, a, b in zip(cases, got, want, strict=True) if not alike(a, b, question.within)]
    if failed:
        passed = len(cases) - len(failed)
        where = f"In {passed} of {len(cases)} cases it is right. " if passed else ""
        case, a, b = failed[0]
        return where + (_kind(a, b) or _shape(case, a, b) or _numbers(case, a, b) or question.hint)
    for a, b in zip(got, want, strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
            kinds = f"they are {_short(a.dtype)}, and {_short(b.dtype)} is asked for"
            return f"The numbers are right, but {kinds}: keep the dtype of the inputs."
    return ""


def _raised(question: Code, case: tuple[Any, ...], error: BaseException) -> str:
    if isinstance(error, trial.Endless):
        return f"It had not come to an end after {trial.SECONDS:.0f} seconds{_of(case)}. Does a loop never stop?"
    words = " ".join(str(error).split())
    words = words if len(words) <= 160 else words[:160] + " …"
    if isinstance(error, NotImplementedError):
        return f"There is nothing in it yet: it raises NotImplementedError{_of(case)}."
    called = isinstance(error, TypeError) and "positional argument" in words
    more = f" It is called as `{question.function}`." if called else ""
    return f"It raised {type(error).__name__}{_of(case)}: `{words.replace('`', chr(39)) or 'no message'}`.{more}"


def _kind(a: Any, b: Any) -> str:
    """Another kind of thing than wanted."""
    if a is None:
        return "It returned None: is there a `return`?"
    if trial.number(b) is not None:
        if isinstance(a, tuple):
            return f"It returned a tuple of {len(a)}, and one tensor is asked for: return that alone."
        if trial.number(a) is None:
            kind = _short(a.dtype) + " tensor" if isinstance(a, Tensor) else type(a).__name__
            return f"It returned a {kind}, where a tensor is asked for."
    if isinstance(b, tuple) and not (isinstance(a, tuple) and len(a) == len(b)):
        size = f"a tuple of {len(a)}" if isinstance(a, tuple) else f"a {type(a).__name__}"
        return f"It returned {size}, where {len(b)} tensors are asked for."
    return ""


def _shape(case: tuple[Any, ...], a: Any, b: Any) -> str:
    one, other = trial.number(a), trial.number(b)
    if one is None or other is None or one.shape == other.shape:
        return ""
    turned = one.dim() >= 2 and alike(one.mT, other, 1e-6)
    if turned:
        return f"The numbers are right, but rows and columns are exchanged: the shape should be {_size(other)}."
    if one.numel() == other.numel() and alike(one.flatten(), other.flatten(), 1e-6):
        return f"The numbers are right and in order, but in shape {_size(one)}: it should be {_size(other)}."
    return f"It returned shape {_size(one)}{_of(case)}, where {_size(other)} is asked for."


def _numbers(case: tuple[Any, ...], a: Any, b: Any) -> str:
    one, other = trial.number(a), trial.number(b)
    if one is None or other is None:
        return ""
    broken = int((one.isnan() & ~other.isnan()).sum())
    if broken:
        causes = "look for ∞ − ∞, 0/0, or a row with nothing left in it"
        return f"{broken} of {one.numel()} numbers are NaN{_of(case)}: {causes}."
    infinite = int((one.isinf() & ~other.isinf()).sum())
    if infinite:
        return f"{infinite} of {one.numel()} numbers are infinite{_of(case)}."
    if one.dim() >= 2 and one.shape[-1] == one.shape[-2] and alike(one.mT, other, 1e-6):
        return "The numbers are right, but rows and columns are exchanged."
    if alike(one, other, 1e-3):
        gap = f"{(one - other).abs().max():.0e}"
        return f"Nearly: it is off by up to {gap}. Was something rounded, or computed in a lower precision?"
    big = other.abs() > 1e-9
    if other.numel() > 1 and bool(big.any()):
        ratio = (one[big] / other[big]).flatten()
        if alike(ratio, ratio[0].expand_as(ratio), 1e-6) and abs(float(ratio[0])) > 1e-9:
            return f"Every number is {float(ratio[0]):.4g} times what it should be{_of(case)}."
    return ""


def _asides(outcomes: list[trial.Outcome]) -> list[str]:
    """What is no fault, and still worth a word."""
    words = []
    if any(outcome.printed.strip() for outcome in outcomes):
        words.append("(It also prints: a function that is called often should not.)")
    if any(outcome.drew for outcome in outcomes):
        words.append("(It also turns torch's generator on, and needs no random numbers.)")
    return words


def _of(case: tuple[Any, ...]) -> str:
    """Which case: by the shapes of its tensors."""
    shapes = [_size(x) if isinstance(x, Tensor) else repr(x)[:20] for x in case]
    return f" for inputs {', '.join(shapes)}" if shapes else ""


def _size(x: Tensor) -> str:
    return "(" + ", ".join(map(str, x.shape)) + ")"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
