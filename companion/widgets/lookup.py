"""What does a soft lookup return as the query moves?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Number, Point, Points, Unfit

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["LookupExplorer"]

_LIMIT = 2.0


class LookupExplorer(Figure):
    """A query among keys in the plane; beside it the values, and the mix of them that comes back.

    Args:
        query: a point, each coordinate from -2 to 2.
        key: two to six points; their number stays.
        value: as many points.
        temperature: divides the scores, 0.01 to 100: small is a hard lookup, large the plain mean.

    Raises:
        ValueError: a value out of range or of another kind, or not as many values as keys.

    Example:
        >>> LookupExplorer(query=[1.0, 0.0]).query
        [1.0, 0.0]
    """

    question = "What does a soft lookup return as I drag the query?"
    sized = "key"

    query = Point([1.2, 0.8], limit=_LIMIT).tag(sync=True)
    key = Points([[1.5, 0.0], [0.5, 1.4], [-1.4, 0.6], [-0.4, -1.5]], limit=_LIMIT, least=2, most=6).tag(sync=True)
    value = Points([[1.6, -0.8], [0.9, 1.5], [-1.5, 1.0], [-0.9, -1.4]], limit=_LIMIT, least=2, most=6).tag(sync=True)
    temperature = Number(1.0, min=0.01, max=100.0).tag(sync=True)

    @traitlets.validate("key", "value")
    def _as_many(self, proposal: Any) -> list[list[float]]:
        """Refuse another number of points than the figure began with."""
        points: list[list[float]] = proposal["value"]
        self._require_count(proposal["trait"].name, points, " rows")
        other = "value" if proposal["trait"].name == "key" else "key"
        rows = len(getattr(self, other))
        if len(points) != rows:
            raise Unfit(f"{proposal['trait'].name} must have as many rows as {other}, {rows}, got {len(points)}")
        return points

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            f"A plane with a query and {len(self.key)} keys as arrows; beside it a plane with the {len(self.value)} "
            "values and, inside their hull, the output; below, each score and its weight as a bar."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """Both planes as they stand."""
        import torch

        from companion import plots
        from companion.lookup import soft_lookup

        query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in ([self.query], self.key, self.value))
        found = soft_lookup(query, keys, values, self.temperature)
        picture, (left, right) = canvas(2, (8.0, 4.0))
        for ax, title in ((left, "query and keys"), (right, "values, and what comes back")):
            ax.set(xlim=(-_LIMIT, _LIMIT), ylim=(-_LIMIT, _LIMIT), aspect="equal", title=title)
            ax.axhline(0, color="0.6", linewidth=0.8)
            ax.axvline(0, color="0.6", linewidth=0.8)
        arrow = {"angles": "xy", "scale_units": "xy", "scale": 1}
        for i, (weight, (a, b), (c, d)) in enumerate(
            zip(found.weights[0].tolist(), self.key, self.value, strict=True), 1
        ):
            left.quiver(0, 0, a, b, color=plots.COLORS["key"], width=0.004 + 0.02 * weight, **arrow)
            left.annotate(f"k{i}", (a, b))
            right.plot(
                [c, found.output[0, 0]], [d, found.output[0, 1]], color=plots.COLORS["weight"], linewidth=8 * weight
            )
            right.plot(c, d, "o", color=plots.COLORS["value"])
            right.annotate(f"v{i}: {weight:.2f}", (c, d))
        left.quiver(0, 0, *self.query, color=plots.COLORS["query"], width=0.012, **arrow)
        left.annotate("q", self.query)
        right.plot(*found.output[0].tolist(), "D", color=plots.COLORS["output"], markersize=10)
        return picture
