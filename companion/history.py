"""What happened in training, step by step."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from companion import check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["History"]


@dataclass
class History:
    """The numbers of a training run; each list has one entry a step, unless it says otherwise.

    Attributes:
        steps: 1, 2, 3, …
        loss: a token, on the batch of the step, before its update.
        learning_rate: of the step.
        gradient_norm: before clipping.
        tokens_per_second: tokens that counted in the loss, over the time of the step.
        evaluations: what the evaluation said, each a dict with its ``"step"``.
        reached: whether the run ended early, because it had met its target.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    tokens_per_second: list[float] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)
    reached: bool = False

    @property
    def final(self) -> dict[str, float]:
        """The last step, its loss, and the last evaluation.

        Example:
            >>> History(steps=[1, 2], loss=[0.7, 0.5], evaluations=[{"step": 2, "accuracy": 0.75}]).final
            {'step': 2, 'loss': 0.5, 'accuracy': 0.75}
        """
        if not self.steps:
            return {}
        last = self.evaluations[-1] if self.evaluations else {}
        return {"step": self.steps[-1], "loss": self.loss[-1]} | {k: v for k, v in last.items() if k != "step"}

    def series(self, name: str = "loss") -> tuple[list[int], list[float]]:
        """One recorded quantity, and the steps at which it was.

        Args:
            name: of a list above, or of a number in the evaluations.

        Returns:
            Steps and values.

        Raises:
            TypeError: ``name`` is no str.
            ValueError: nothing of that name was recorded.

        Example:
            >>> History(steps=[1, 2], loss=[0.7, 0.5], evaluations=[{"step": 2, "accuracy": 0.75}]).series("accuracy")
            ([2], [0.75])
        """
        per_step = ("loss", "learning_rate", "gradient_norm", "tokens_per_second")
        seen = sorted({key for each in self.evaluations for key in each} - {"step"})
        if check.one_of("name", name, (*per_step, *seen)) in per_step:
            return self.steps, getattr(self, name)
        found = [each for each in self.evaluations if name in each]
        return [int(each["step"]) for each in found], [each[name] for each in found]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain lists and numbers, as JSON takes them; ``History(**that)`` gives it back."""
        return asdict(self)

    def plot(
        self,
        name: str = "loss",
        *,
        label: str | None = None,
        smooth: int = 1,
        log: bool = False,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw one recorded quantity over the steps.

        Args:
            name: see :meth:`series`.
            label: what the legend calls it, if several runs are drawn on the same axes; none if not given.
            smooth: draw the mean of so many steps up to each.
            log: a logarithmic scale.
            ax: where to draw; a new figure if not given.

        Returns:
            The axes.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: nothing of that name was recorded, or a number out of range.
        """
        from companion import plots

        steps, values = self.series(name)
        words = name.replace("_", " ")
        return plots.curves({label or words: values}, steps, ylabel=words, smooth=smooth, log=log, ax=ax)
