"""What does softmax do to scores, and to gradients?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Number, Point

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["SoftmaxExplorer"]


class SoftmaxExplorer(Figure):
    """Scores in, shares out: temperature, shift, entropy, and the Jacobian as a table.

    Args:
        scores: one for each of two to eight keys, from -8 to 8; their number stays.
        temperature: divides the scores, 0.1 to 4.
        shift: added to every score, -100 to 100.

    Raises:
        ValueError: a value out of range, or of another kind.

    Example:
        >>> SoftmaxExplorer(scores=[1.0, 0.0])
        SoftmaxExplorer(scores=[1.0, 0.0], temperature=1.0, shift=0.0)
    """

    question = "What does softmax do to scores, and to gradients?"
    sized = "scores"

    scores = Point([2.0, 1.0, 0.5, 0.0, -1.0], limit=8.0, size=None, least=2, most=8).tag(sync=True)
    temperature = Number(1.0, min=0.1, max=4.0).tag(sync=True)
    shift = Number(0.0, min=-100.0, max=100.0).tag(sync=True)

    @traitlets.validate("scores")
    def _as_many(self, proposal: Any) -> list[float]:
        """The rows on the page keep their number."""
        scores: list[float] = proposal["value"]
        self._require_count("scores", scores)
        return scores

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            f"{len(self.scores)} scores as sliders with their weights as bars; beside them a table of how each weight "
            "answers to each score."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """Weights as bars, the Jacobian as a heatmap."""
        import torch

        from companion import plots, softmax_jacobian, stable_softmax

        scores = (torch.tensor(self.scores, dtype=torch.float64) + self.shift) / self.temperature
        names = [f"{i + 1}" for i in range(len(self.scores))]
        picture, (left, right) = canvas(2, (9.0, 3.6))
        left.bar(names, stable_softmax(scores), color=plots.COLORS["weight"], edgecolor="black")
        left.set(xlabel="key", ylabel="weight", ylim=(0, 1))
        slope = softmax_jacobian(scores) / self.temperature
        plots.heatmap(slope, names, names, signed=True, limit=0.25, xlabel="score", ylabel="weight", ax=right)
        return picture
