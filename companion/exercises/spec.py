"""What a question is: four kinds, each with its answers, right and wrong, and a sentence for each.

A set of questions is data. What a wrong answer says about the one who gave it, its misconception, stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from companion import check
from companion.exercises.rule import Rule, near, same, state

if TYPE_CHECKING:
    from companion.widgets import Figure

__all__ = ["Answer", "Choice", "Code", "Number", "Question", "Right", "Set", "Widget", "Wrong", "randn"]

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def randn(generator: torch.Generator, *shape: int) -> Tensor:
    """Standard normal numbers in float64, for a code question's inputs.

    Args:
        generator: seeded.
        shape: the sizes.

    Raises:
        TypeError: no generator, or sizes that are no ints.
        ValueError: a negative size.
    """
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    for size in shape:
        check.integer("shape", size, minimum=0)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Answer:
    """One answer: its name, what it is (a text, a number, a rule or a function), and what the reader is told."""

    name: str
    what: Any
    say: str
    optional: bool = False  # left out where it cannot be told from another: ready-made ones are
    right: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("name", "say"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a str, got {type(text).__name__}")
            if not text.strip():
                raise ValueError(f"{name} must not be empty")


class Right(Answer):
    """An answer that is right."""

    right: ClassVar[bool] = True


class Wrong(Answer):
    """An answer that is wrong, with the misconception behind it."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What all kinds share."""

    id: str = field(kw_only=False)
    prompt: str = field(kw_only=False)
    minutes: int
    stars: int
    answers: Sequence[Answer]
    hint: str = ""
    kind: ClassVar[str] = ""
    takes: ClassVar[str] = ""  # what an answer's `what` must be

    def __post_init__(self) -> None:
        if not isinstance(self.answers, (list, tuple)):
            raise TypeError(f"answers must be a list, got {type(self.answers).__name__}")
        for name in ("id", "prompt", "hint"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a str, got {type(getattr(self, name)).__name__}")
        if not _SLUG.fullmatch(self.id):
            raise ValueError(f"id must be small letters and digits, joined by hyphens; got {self.id!r}")
        if not self.prompt.strip():
            raise ValueError(f"{self.id}: prompt must not be empty")
        check.integer("minutes", self.minutes)
        if check.integer("stars", self.stars) > 3:
            raise ValueError(f"{self.id}: stars must be 1, 2 or 3, got {self.stars}")
        for answer in self.answers:
            if not isinstance(answer, (Right, Wrong)):
                raise TypeError(f"{self.id}: answers must be Right(...) or Wrong(...), got {type(answer).__name__}")
            if not self._fits(answer.what):
                raise TypeError(f"{self.id}: {answer.name!r} must be {self.takes}, got {type(answer.what).__name__}")
        rights, wrongs = sum(answer.right for answer in self.answers), sum(not a.right for a in self.answers)
        if not rights or (rights > 1 and self.kind != "widget"):
            raise ValueError(f"{self.id}: answers must have one Right, got {rights}")
        if not wrongs:
            raise ValueError(f"{self.id}: answers must have a Wrong, got none")
        for part in ("name", "say"):
            texts = [getattr(answer, part) for answer in self.answers]
            double = next((text for text in texts if texts.count(text) > 1), None)
            if double is not None:
                raise ValueError(f"{self.id}: each answer must have its own {part}; two have {double!r}")
        if self.kind != "choice" and not self.hint.strip():
            raise ValueError(f"{self.id}: hint must say something to an answer that none of these matches")

    def _fits(self, what: Any) -> bool:
        raise NotImplementedError

    @property
    def right(self) -> Answer:
        """The answer that is right; the first of several."""
        return next(answer for answer in self.answers if answer.right)

    def rules(self) -> list[Rule]:
        """For each answer, in order, when it is the one that was given; the first that holds counts."""
        raise TypeError(f"{self.id} is a {self.kind} question, which no rule can judge")

    def about(self) -> str:
        """Minutes and difficulty, as the page prints them."""
        return f"{self.minutes} minute{'s' * (self.minutes > 1)}, {'★' * self.stars}{'☆' * (3 - self.stars)}"


@dataclass(frozen=True, kw_only=True)
class Choice(Question):
    """Choose one of several texts. The answer is the name of the one chosen."""

    kind: ClassVar[str] = "choice"
    takes: ClassVar[str] = "a text"

    def _fits(self, what: Any) -> bool:
        return isinstance(what, str) and bool(what.strip())

    def rules(self) -> list[Rule]:
        """An option is given by its name."""
        return [same(state("choice"), answer.name) for answer in self.answers]


@dataclass(frozen=True, kw_only=True)
class Number(Question):
    """Give a number. An answer counts as one of those listed if it is no further from it than ``within``."""

    within: float
    kind: ClassVar[str] = "number"
    takes: ClassVar[str] = "a number"

    def __post_init__(self) -> None:
        super().__post_init__()
        within = check.positive("within", self.within)
        values = sorted((float(answer.what), answer.name) for answer in self.answers)
        for (low, one), (high, other) in pairwise(values):
            if high - low <= 2 * within:
                raise ValueError(f"{self.id}: {one!r} and {other!r} must be more than {2 * within} apart")

    def _fits(self, what: Any) -> bool:
        return isinstance(what, (int, float)) and not isinstance(what, bool)

    def rules(self) -> list[Rule]:
        """A number lies near enough."""
        return [near(state("value"), answer.what, self.within) for answer in self.answers]


@dataclass(frozen=True, kw_only=True)
class Widget(Question):
    """Bring one of the book's figures into a state. The answer is that state."""

    figure: Callable[[], Figure]
    kind: ClassVar[str] = "widget"
    takes: ClassVar[str] = "a rule"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.figure):
            raise TypeError(f"{self.id}: figure must be a function, got {type(self.figure).__name__}")

    def _fits(self, what: Any) -> bool:
        return isinstance(what, Rule)

    def rules(self) -> list[Rule]:
        """As they are written."""
        return [answer.what for answer in self.answers]

    def names(self) -> list[str]:
        """The traits by which the figure is judged."""
        return sorted(set().union(*(rule.names() for rule in self.rules())))


@dataclass(frozen=True, kw_only=True)
class Code(Question):
    """Write a function. The answer is the function; it is called with each of the inputs."""

    function: str
    inputs: Callable[[torch.Generator], list[tuple[Any, ...]]]
    within: float = 1e-6
    kind: ClassVar[str] = "code"
    takes: ClassVar[str] = "a function"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.positive("within", self.within)
        if not callable(self.inputs):
            raise TypeError(f"{self.id}: inputs must be a function, got {type(self.inputs).__name__}")
        if not isinstance(self.function, str) or "(" not in self.function:
            raise ValueError(f"{self.id}: function must show a signature like 'f(x)', got {self.function!r}")

    def _fits(self, what: Any) -> bool:
        return callable(what) and not isinstance(what, Rule)

    def call(self) -> str:
        """How the function is handed in."""
        return f"practice.check({self.id!r}, {self.function.partition('(')[0]})"

    def cases(self) -> list[tuple[Any, ...]]:
        """The inputs, fresh, the same every time."""
        return self.inputs(torch.Generator().manual_seed(7))

    @cached_property
    def named(self) -> list[tuple[Answer, list[Any]]]:
        """The wrong answers that can be told apart, each with what it gives for every case."""
        from companion.exercises.trial import ABSENT, outputs, told_apart

        want = outputs(self.right.what, self.cases())
        if any(output is ABSENT for output in want):
            raise ValueError(f"{self.id}: the right answer fails on its own inputs")
        kept: list[tuple[Answer, list[Any]]] = []
        for answer in self.answers:
            if answer.right:
                continue
            got = outputs(answer.what, self.cases())
            rivals = [want, *(others for _, others in kept)]
            if answer.optional and not all(told_apart(got, other, self.within) for other in rivals):
                continue
            kept.append((answer, got))
        return kept


@dataclass(frozen=True)
class Set:
    """Questions under one name."""

    name: str
    title: str
    questions: Sequence[Question]

    def __post_init__(self) -> None:
        for name in ("name", "title"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a str, got {type(getattr(self, name)).__name__}")
        if not _SLUG.fullmatch(self.name):
            raise ValueError(f"name must be small letters and digits, joined by hyphens; got {self.name!r}")
        if not isinstance(self.questions, (list, tuple)):
            raise TypeError(f"questions must be a list, got {type(self.questions).__name__}")
        for question in self.questions:
            if not isinstance(question, Question):
                raise TypeError(f"questions must be Choice, Number, Widget or Code; got {type(question).__name__}")
        ids = [question.id for question in self.questions]
        if len(set(ids)) < len(ids) or not ids:
            raise ValueError(f"questions must have ids of their own, got {', '.join(ids) or 'none'}")

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions)

    def __getitem__(self, id: str) -> Question:
        """A question by its id.

        Raises:
            TypeError: ``id`` is no str.
            ValueError: there is no such question; the message lists those that there are.
        """
        if not isinstance(id, str):
            raise TypeError(f"question must be a str, got {type(id).__name__}")
        for question in self.questions:
            if question.id == id:
                return question
        known = ", ".join(question.id for question in self.questions)
        raise ValueError(f"question must be one of {known}; got {id!r}")
