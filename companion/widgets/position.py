"""What do positions add?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Point, Unfit

if TYPE_CHECKING:
    import matplotlib.figure
    from torch import Tensor

__all__ = ["PositionExplorer"]

_COUNT, _HEADS = 64, 16


class PositionExplorer(Figure):
    """Four ways to say where a token stands: sinusoids, their products by distance, rotary, ALiBi.

    Args:
        view: what is shown: sinusoids, distance, rotary or alibi.
        position: of the query, 0 to 63.
        key_position: of the key, 0 to 63.
        shift: added to both positions, 0 to 1,000.
        pair: of features, from 0: a pair is a point that positions turn.
        width: how many features: 8, 16, 32 or 64; a pair must be less than half of it.
        base: of the frequencies, a power of ten from 10 to a million.
        query: a pair of features before it is turned, each from -2 to 2.
        key: the same of a key.
        heads: of ALiBi, 1 to 16.
        head: which of them is looked at, from 0.

    Raises:
        ValueError: a value out of range or of another kind.

    Example:
        >>> PositionExplorer(view="rotary", shift=50).shift
        50
    """

    question = "What do positions add?"

    view = traitlets.Enum(["sinusoids", "distance", "rotary", "alibi"], "sinusoids").tag(sync=True)
    position = traitlets.Int(20, min=0, max=_COUNT - 1).tag(sync=True)
    key_position = traitlets.Int(25, min=0, max=_COUNT - 1).tag(sync=True)
    shift = traitlets.Int(0, min=0, max=1000).tag(sync=True)
    pair = traitlets.Int(3, min=0, max=31).tag(sync=True)
    width = traitlets.Enum([8, 16, 32, 64], 32).tag(sync=True)
    base = traitlets.Enum([10**k for k in range(1, 7)], 10_000).tag(sync=True)
    query = Point([1.5, 0.5], limit=2.0).tag(sync=True)
    key = Point([1.3, 1.1], limit=2.0).tag(sync=True)
    heads = traitlets.Int(8, min=1, max=_HEADS).tag(sync=True)
    head = traitlets.Int(0, min=0, max=_HEADS - 1).tag(sync=True)

    @traitlets.validate("pair", "head")
    def _there(self, proposal: Any) -> int:
        """A pair, or a head, that there is."""
        name, got = proposal["trait"].name, int(proposal["value"])
        count = self.width // 2 if name == "pair" else self.heads
        if got >= count:
            raise Unfit(f"{name} must be less than {count}, got {got}")
        return got

    @traitlets.observe("width", "heads")
    def _fewer(self, change: Any) -> None:
        """Where there are fewer now, the last one is looked at."""
        self.pair = min(self.pair, self.width // 2 - 1)
        self.head = min(self.head, self.heads - 1)

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            "Four views to choose from: a heatmap of sinusoids, positions by features; the dot products of positions "
            "by their distance; a query and a key in the plane, turned by their positions; ALiBi's slopes and biases."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """The chosen view as it stands."""
        picture, axes = canvas(2, (9.0, 3.8))
        {"sinusoids": self._sinusoids, "distance": self._distance, "rotary": self._rotary, "alibi": self._alibi}[
            self.view
        ](*axes)
        return picture

    def _table(self, shift: int = 0) -> Tensor:
        """A row for each position."""
        import torch

        from companion.positions import SinusoidalPositions

        zeros = torch.zeros(_COUNT, self.width, dtype=torch.float64)
        table: Tensor = SinusoidalPositions(self.width, float(self.base))(zeros, torch.arange(_COUNT) + shift)
        return table

    def _sinusoids(self, left: Any, right: Any) -> None:
        from companion import plots

        table = self._table()
        plots.heatmap(table, signed=True, limit=1.0, xlabel="feature", ylabel="position", numbers=False, ax=left)
        left.set_aspect("auto")
        for feature, style in ((2 * self.pair, "-"), (2 * self.pair + 1, "--")):
            right.plot(table[:, feature], style, color="black", label=f"feature {feature}")
        right.set(xlabel="position", title=f"pair {self.pair}")
        right.legend()

    def _distance(self, left: Any, right: Any) -> None:
        from companion import plots

        table = self._table(self.shift)
        where = range(self.shift, self.shift + _COUNT)
        left.plot(where, table @ table[self.position], color="black")
        left.set(xlabel="position", ylabel=f"product with position {self.position + self.shift}")
        plots.heatmap(
            table @ table.T, signed=True, xlabel="position", ylabel="position", numbers=False, colorbar=True, ax=right
        )
        right.set_title("all products")

    def _rotary(self, left: Any, right: Any) -> None:
        import torch

        from companion import plots
        from companion.positions import Rotary

        rotary = Rotary(self.width, float(self.base), interleaved=True)
        place = slice(2 * self.pair, 2 * self.pair + 2)

        def turned(point: list[float], positions: Tensor) -> Tensor:
            x = torch.zeros(len(positions), self.width, dtype=torch.float64)
            x[:, place] = torch.tensor(point, dtype=x.dtype)
            return rotary(x, positions)[:, place]

        left.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title="turned by their positions")
        here = (("query", self.query, self.position), ("key", self.key, self.key_position))
        for role, point, position in here:
            (arrow,) = turned(point, torch.tensor([position + self.shift])).tolist()
            left.quiver(0, 0, *arrow, color=plots.COLORS[role], angles="xy", scale_units="xy", scale=1)
            left.plot(*point, "o", color=plots.COLORS[role])
            left.annotate(role, arrow)
        far = torch.arange(1 - _COUNT, _COUNT)
        query = torch.tensor(self.query, dtype=torch.float64)
        right.plot(far, turned(self.key, far) @ query, color="black")
        right.axvline(self.key_position - self.position, color="0.6")
        right.set(xlabel="key position − query position", ylabel="score", title=f"pair {self.pair}")

    def _alibi(self, left: Any, right: Any) -> None:
        import torch

        from companion import plots, stable_softmax
        from companion.positions import alibi_bias, alibi_slopes

        left.bar(range(1, self.heads + 1), alibi_slopes(self.heads), color=plots.COLORS["masked"])
        left.set(xlabel="head", ylabel="slope", yscale="log")
        bias = alibi_bias(self.heads, 6, 6)[0, self.head]
        hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
        plots.heatmap(bias, signed=True, limit=1.0, masked=hidden, ax=right)
        nearest = float(stable_softmax(alibi_bias(self.heads, 1, _COUNT)[0, self.head, 0])[-1])
        right.set_title(f"bias of head {self.head + 1}; nearest key {nearest:.2f}")
