"""A set of questions at work: shown, answered, checked, and kept."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import textwrap
from collections.abc import Callable
from typing import Any

from companion.exercises import sets as folder_of_sets
from companion.exercises.judge import Verdict, judge, judge_code, number_of
from companion.exercises.spec import Choice, Code, Number, Question, Set, Widget
from companion.exercises.store import Store

__all__ = ["Practice", "names", "open"]

_UNSET = object()


def names() -> list[str]:
    """The sets that there are."""
    return sorted(module.name for module in pkgutil.iter_modules(folder_of_sets.__path__))


def open(name: str, student: str | None = None, folder: str | os.PathLike[str] | None = None) -> Practice:
    """Open a set of questions.

    Args:
        name: of the set, such as ``"ch05"``, the questions of chapter 5.
        student: an id, kept beside the answers.
        folder: where ``answers.json`` keeps the answers; without one they last as long as the kernel.

    Returns:
        The set, with ``show``, ``answer`` and ``check``.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no such set (the message lists those that there are), or answers that cannot be used.

    Example:
        >>> practice = open("ch05")
        >>> practice.answer("axis", "queries")
        Not yet. Then each column sums to one: a key shares itself out among the
        queries, and a query may be left with nothing.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}; got {name!r}")
    found: Set = importlib.import_module(f"{folder_of_sets.__name__}.{name}").SET
    return Practice(found, Store(student, folder))


class Practice:
    """Questions that answer at once.

    Args:
        questions: the set.
        store: keeps the answers.
    """

    def __init__(self, questions: Set, store: Store) -> None:
        if not isinstance(questions, Set):
            raise TypeError(f"questions must be a Set, got {type(questions).__name__}")
        if not isinstance(store, Store):
            raise TypeError(f"store must be a Store, got {type(store).__name__}")
        self._set = questions
        self._store = store
        self._figures: dict[str, Any] = {}
        self._shown: dict[str, Any] = {}
        self._verdicts: dict[str, Verdict] = {}

    @property
    def name(self) -> str:
        """Of the set."""
        return self._set.name

    @property
    def questions(self) -> list[str]:
        """The ids, in order."""
        return [question.id for question in self._set]

    def show(self, question: str) -> None:
        """Show a question to be answered by mouse or keyboard; a widget question with its figure.

        Raises:
            TypeError: ``question`` is no str.
            ValueError: the set has no such question.
        """
        asked = self._set[question]
        from companion.widgets.question import QuestionView

        figure = self._figure(asked) if isinstance(asked, Widget) else None
        view = QuestionView(self.name, asked, figure, self._store.get(self.name, question))
        view.observe(lambda change: self._heard(asked, change["new"]), "answer")
        self._shown[question] = view
        self._display(view)

    def answer(self, question: str, value: Any = _UNSET) -> Verdict:
        """Answer from the keyboard, and hear at once.

        Args:
            question: its id.
            value: the name of the option chosen; a number, or a text such as ``"1/3"``; a dict of traits that the
                figure is brought to, or nothing to hand in the figure as it stands; a function.

        Returns:
            The verdict.

        Raises:
            TypeError: an answer of the wrong kind.
            ValueError: no such question or option, or a state that the figure refuses.
        """
        asked = self._set[question]
        if isinstance(asked, Widget):
            figure = self._figure(asked)
            if value is not _UNSET:
                _bring(asked, figure, value)
            given: Any = {name: getattr(figure, name) for name in asked.names()}
        elif value is _UNSET:
            raise TypeError(f"{question}: value must be given for a {asked.kind} question")
        elif isinstance(asked, Code):
            return self._code(asked, value)
        else:
            given = _given(asked, value)
        self._heard(asked, given)
        if question in self._shown:
            self._shown[question].answer = given
        return self._verdicts[question]

    def check(self, question: str, value: Any = _UNSET) -> Verdict:
        """Judge the answer: the one given here, or else the last.

        Args:
            question: its id.
            value: as in ``answer``; a code question's function, for example.

        Returns:
            The verdict; without any answer, one that says so.

        Raises:
            TypeError: as in ``answer``.
            ValueError: as in ``answer``.
        """
        asked = self._set[question]
        if value is not _UNSET:
            return self.answer(question, value)
        if isinstance(asked, Widget) and question in self._figures and self._touched(asked):
            return self.answer(question)
        verdict = self._verdict(asked)  # one that is not right counts as false
        return Verdict(None, None, self._how(asked)) if verdict is None else verdict

    def _verdict(self, asked: Question) -> Verdict | None:
        """The last, or that on what the store kept; a function is kept as text, and not run again."""
        kept = self._store.get(self.name, asked.id)
        if asked.id not in self._verdicts and kept is not None and not isinstance(asked, Code):
            return self._judged(asked, kept)
        return self._verdicts.get(asked.id)

    def _heard(self, asked: Question, given: Any) -> None:
        """An answer came, from the page or from a cell."""
        if given is None:
            self._verdicts.pop(asked.id, None)
        else:
            self._verdicts[asked.id] = self._judged(asked, given)
        self._store.put(self.name, asked.id, asked.kind, given)

    def _judged(self, asked: Question, given: Any) -> Verdict:
        name = {"choice": "choice", "number": "value"}.get(asked.kind)
        return judge(asked, given if name is None else {name: given})

    def _code(self, asked: Code, function: Callable[..., Any]) -> Verdict:
        verdict = judge_code(asked, function)
        self._verdicts[asked.id] = verdict
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (TypeError, OSError):  # made by no source, or by one that is gone
            return verdict
        self._store.put(self.name, asked.id, asked.kind, source)
        return verdict

    def _figure(self, asked: Widget) -> Any:
        """The figure of a question, one a set; its state comes from the store, and every change goes there."""
        if asked.id not in self._figures:
            figure = self._figures[asked.id] = asked.figure()
            kept = self._store.get(self.name, asked.id)
            if isinstance(kept, dict):
                _bring(asked, figure, kept)
            figure.observe(lambda change: self._moved(asked), asked.names())
        return self._figures[asked.id]

    def _touched(self, asked: Widget) -> bool:
        """The figure is not, or no longer, as it began."""
        figure = self._figures[asked.id]
        kept = self._store.get(self.name, asked.id) is not None
        return kept or any(getattr(figure, name) != figure._start.get(name, _UNSET) for name in asked.names())

    def _moved(self, asked: Widget) -> None:
        """Keep the figure's state as the answer; a figure that was never touched has none."""
        figure = self._figures[asked.id]
        self._verdicts.pop(asked.id, None)
        self._store.put(self.name, asked.id, asked.kind, {name: getattr(figure, name) for name in asked.names()})

    @staticmethod
    def _display(view: Any) -> None:
        """Show in a notebook; elsewhere, print."""
        from IPython import get_ipython
        from IPython.display import display

        if get_ipython() is None:
            print(view.text)
        else:
            display(view)

    def _how(self, asked: Question) -> str:
        """How an answer is given."""
        if isinstance(asked, Choice):
            options = " or ".join(repr(answer.name) for answer in asked.answers)
            return f"No answer yet. Give one by `practice.answer({asked.id!r}, ...)`, with {options}."
        if isinstance(asked, Number):
            return f"No answer yet. Give one by `practice.answer({asked.id!r}, 0.5)`, with your number."
        if isinstance(asked, Code):
            return f"No answer yet. Write `{asked.function}`, then `{asked.call()}`."
        return f"No answer yet. Bring the figure of `practice.show({asked.id!r})` into the state that is asked for."

    def __repr__(self) -> str:
        """The questions, and how each stands."""
        lines = [f"{self.name}: {self._set.title}"]
        width = max(map(len, self.questions))
        for question in self._set:
            verdict = self._verdict(question)
            stands = "open" if self._store.get(self.name, question.id) is None else "answered"
            if verdict is not None and verdict.right is not None:
                stands = "right" if verdict.right else "not yet"
            lines.append(f"  {question.id:{width}s}  {question.kind:6s}  {question.about()}  {stands}")
        return "\n".join(lines)


def _given(asked: Question, value: Any) -> Any:
    """A choice or a number, as it is kept."""
    if isinstance(asked, Number):
        return number_of(asked, value)
    options = [answer.name for answer in asked.answers]
    if not isinstance(value, str):
        raise TypeError(f"{asked.id}: value must be a str, got {type(value).__name__}")
    if value not in options:
        raise ValueError(f"{asked.id}: value must be one of {', '.join(options)}; got {value!r}")
    return value


def _bring(asked: Widget, figure: Any, value: Any) -> None:
    """Set traits of a figure, all at once or none."""
    import traitlets

    if not isinstance(value, dict):
        raise TypeError(f"{asked.id}: value must be a dict of the figure's traits, got {type(value).__name__}")
    known = figure.state_names()
    for name in value:
        if name not in known:
            raise ValueError(f"{asked.id}: value must name traits of {', '.join(known)}; got {name!r}")
    before = {name: getattr(figure, name) for name in value}
    try:
        with figure.hold_trait_notifications():
            for name, each in value.items():
                setattr(figure, name, each)
    except traitlets.TraitError as error:
        with figure.hold_trait_notifications():
            for name, each in before.items():
                setattr(figure, name, each)
        raise ValueError(f"{asked.id}: {error}") from None
