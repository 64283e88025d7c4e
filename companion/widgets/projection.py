"""What do the projections of queries and keys do?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Matrix, Points, Unfit

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["ProjectionExplorer"]


class ProjectionExplorer(Figure):
    """Tokens in the plane, the 2 x 2 matrices that make their queries and keys, and the scores that follow.

    Args:
        tokens: two to five names; their number stays.
        x: an embedding a token, each coordinate from -2 to 2.
        w_q: 2 x 2, row vectors multiply from the left: ``Q = X W_Q``; numbers from -3 to 3.
        w_k: 2 x 2.
        tied: use ``w_q`` for the keys too.

    Raises:
        ValueError: a value out of range or of another kind, or not as many embeddings as tokens.

    Example:
        >>> ProjectionExplorer(tied=True).tied
        True
    """

    question = "What do W_Q and W_K do?"
    sized = "tokens"

    tokens = traitlets.List(traitlets.Unicode(), ["cat", "sat", "mat"], minlen=2, maxlen=5).tag(sync=True)
    x = Points([[1.2, 0.3], [-0.3, 1.2], [0.9, -1.0]], limit=2.0, least=2, most=5).tag(sync=True)
    w_q = Matrix([[0.0, 1.0], [-1.0, 0.0]], limit=3.0, rows=(2, 2), columns=(2, 2)).tag(sync=True)
    w_k = Matrix([[1.0, 0.0], [0.0, 1.0]], limit=3.0, rows=(2, 2), columns=(2, 2)).tag(sync=True)
    tied = traitlets.Bool(False).tag(sync=True)

    @traitlets.validate("tokens", "x")
    def _as_many(self, proposal: Any) -> Any:
        """Each token has its embedding."""
        name = proposal["trait"].name
        self._require_count(name, proposal["value"])
        other = "x" if name == "tokens" else "tokens"
        rows = len(getattr(self, other))
        if len(proposal["value"]) != rows:
            raise Unfit(f"{name} must be as many as {other}, {rows}, got {len(proposal['value'])}")
        return proposal["value"]

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            f"{len(self.tokens)} tokens as points in a plane, their queries and keys as arrows in two more, both "
            "matrices as fields to edit, and tables of scores and weights."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """Queries and keys as arrows, and the scores."""
        import torch

        from companion import plots

        x, w_q, w_k = (torch.tensor(table, dtype=torch.float64) for table in (self.x, self.w_q, self.w_k))
        query, key = x @ w_q, x @ (w_q if self.tied else w_k)
        picture, (left, middle, right) = canvas(3, (10.0, 3.4))
        for ax, role, rows in ((left, "query", query), (middle, "key", key)):
            ax.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title="queries" if role == "query" else "keys")
            for token, (a, b) in zip(self.tokens, rows.tolist(), strict=True):
                ax.quiver(0, 0, a, b, color=plots.COLORS[role], angles="xy", scale_units="xy", scale=1)
                ax.annotate(token, (a, b), parse_math=False)
        plots.heatmap(query @ key.T / 2**0.5, self.tokens, self.tokens, signed=True, ax=right)
        right.set_title("scores")
        return picture
