"""Why are scores divided by the square root of the head's width?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["ScalingExplorer"]

_QUERIES, _KEYS = 64, 16


class ScalingExplorer(Figure):
    """Scores of random queries and keys as the head gets wider, with and without the scale.

    The picture for paper draws numbers of its own, since the browser has another generator; both are standard normal.

    Args:
        width: of the head, a power of two from 1 to 512.
        scaled: divide by the square root of ``width``.
        seed: which random numbers, 0 to 999.

    Raises:
        ValueError: a value out of range or of another kind.

    Example:
        >>> ScalingExplorer(width=512, scaled=True)
        ScalingExplorer(width=512, scaled=True, seed=0)
    """

    question = "Why are scores divided by √d?"

    width = traitlets.Enum([2**k for k in range(10)], 64).tag(sync=True)
    scaled = traitlets.Bool(False).tag(sync=True)
    seed = traitlets.Int(0, min=0, max=999).tag(sync=True)

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            f"A histogram of {_QUERIES * _KEYS} scores of random queries and keys, and the weights of one query over "
            f"{_KEYS} keys as bars; the head's width is a slider, the scale a switch; a table compares both."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """Both charts as they stand, for other random numbers."""
        import torch

        from companion import plots, stable_softmax

        generator = torch.Generator().manual_seed(self.seed)
        query, key = (torch.randn(n, self.width, generator=generator) for n in (_QUERIES, _KEYS))
        scores = query @ key.T / (self.width**0.5 if self.scaled else 1.0)
        picture, (left, right) = canvas(2, (8.0, 3.2))
        left.hist(scores.flatten().tolist(), bins=35, range=(-70, 70), color=plots.COLORS["query"])
        left.set(xlabel="score", ylabel="how many")
        right.bar(range(1, _KEYS + 1), stable_softmax(scores[0]).tolist(), color=plots.COLORS["weight"])
        right.set(xlabel="key", ylabel="weight of one query", ylim=(0, 1))
        picture.suptitle(f"d = {self.width}, {'scaled' if self.scaled else 'not scaled'}")
        return picture
