"""A question on the page: it takes an answer and says what is behind it, with a kernel or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets
from ipywidgets import widget_serialization

from companion.exercises.judge import markdown
from companion.exercises.rule import Rule
from companion.exercises.spec import Code, Question, Widget
from companion.widgets.base import Figure, scripts

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["QuestionView"]

_BEHIND = {
    "choice": "Choose, then press Check.",
    "number": "Type a number or a fraction, then press Check or Enter.",
    "widget": "Work the figure, then press Check.",
}


class QuestionView(anywidget.AnyWidget):
    """A question of a set.

    Args:
        of: the name of the set.
        question: which one.
        figure: of a widget question; the page shows it inside.
        answer: the one given before, or ``None``.
    """

    _esm: str | Path = scripts(__name__)[0]
    _css: str | Path = scripts(__name__)[1]

    kind = traitlets.Unicode().tag(sync=True)
    prompt = traitlets.Unicode().tag(sync=True)
    about = traitlets.Unicode().tag(sync=True)
    before = traitlets.Unicode(help="What stands where the verdict will.").tag(sync=True)
    options: traitlets.List[dict[str, str]] = traitlets.List(help="Of a choice: each a name and a text.").tag(sync=True)
    cases: traitlets.List[dict[str, Any]] = traitlets.List(help="Each a rule, and what is then said.").tag(sync=True)
    hint = traitlets.Unicode(help="Said where no case holds.").tag(sync=True)
    names = traitlets.List(traitlets.Unicode(), help="The traits by which a figure is judged.").tag(sync=True)
    figure = traitlets.Instance(Figure, allow_none=True).tag(sync=True, **widget_serialization)
    answer = traitlets.Any(None, allow_none=True).tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)

    def __init__(self, of: str, question: Question, figure: Figure | None = None, answer: Any = None) -> None:
        rules: list[Rule] = []
        if isinstance(question, Code):
            before = f"Write `{question.function}` in the notebook, then `{question.call()}`."
        else:
            rules, before = question.rules(), _BEHIND[question.kind]
        super().__init__(
            kind=question.kind,
            prompt=question.prompt,
            about=question.about(),
            before=before,
            options=[{"name": a.name, "text": a.what} for a in question.answers] if question.kind == "choice" else [],
            cases=[
                {"right": answer.right, "when": rule.tree, "say": answer.say}
                for answer, rule in zip(question.answers if rules else [], rules, strict=True)
            ],
            hint=question.hint,
            names=question.names() if isinstance(question, Widget) else [],
            figure=figure,
            answer=answer,
            alt=f"A question ({question.about()}): {question.prompt}" + (f" {figure.alt}" if figure else ""),
        )
        self._title = f"{of}/{question.id}"

    @property
    def text(self) -> str:
        """The question as plain text."""
        options = [f"  {chr(97 + i)}) {option['text']}" for i, option in enumerate(self.options)]
        return "\n".join([f"{self.prompt} ({self.about})", *options])

    def _markdown(self) -> str:
        """The question for paper, and for where no script runs."""
        options = [f"- {markdown(option['text'])}" for option in self.options]
        return "\n".join([f"{markdown(self.prompt)} *({self.about})*", "", *options]).strip()

    def __repr__(self) -> str:
        """Alike in every run, since nbval compares it."""
        return f"QuestionView({self._title})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        pictures = {"image/png": self.figure._picture()} if self.figure is not None else {}
        return data | pictures | {"text/plain": repr(self), "text/markdown": self._markdown()}, metadata
