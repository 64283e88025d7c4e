"""Where does each number of attention come from?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Matrix, Unfit

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["StepThrough"]

_STEPS = ["scores", "scaled", "masked", "weights", "output"]
_TOKENS, _WIDTH = (1, 6), (1, 4)


class StepThrough(Figure):
    """Five matrices, from scores to output; pick a number, and its arithmetic is written out.

    Args:
        query: ``(L, D)``, up to six rows of four numbers from -10 to 10.
        key: ``(S, D)``.
        value: ``(S, E)``.
        causal: no query sees a later key; the last query stands at the last key.
        step: in which matrix a number is picked: scores, scaled, masked, weights or output.
        row: of the picked number, from 0.
        column: of the picked number, from 0.

    Raises:
        ValueError: a value out of range or of another kind, or matrices that do not fit each other.

    Example:
        >>> StepThrough(step="weights", row=2, column=0).step
        'weights'
    """

    question = "Where does each number of attention come from?"

    query = Matrix([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], limit=10.0, rows=_TOKENS, columns=_WIDTH).tag(sync=True)
    key = Matrix([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], limit=10.0, rows=_TOKENS, columns=_WIDTH).tag(sync=True)
    value = Matrix([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]], limit=10.0, rows=_TOKENS, columns=_WIDTH).tag(sync=True)
    causal = traitlets.Bool(False).tag(sync=True)
    step = traitlets.Enum(_STEPS, "scores").tag(sync=True)
    row = traitlets.Int(0, min=0, max=5).tag(sync=True)
    column = traitlets.Int(0, min=0, max=5).tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(**state)
        self._shapes = [(len(x), len(x[0])) for x in (self.query, self.key, self.value)]
        (_, width), (keys, key_width), (values, _) = self._shapes
        if width != key_width:
            raise Unfit(f"key must be as wide as query, {width}, got {key_width}")
        if keys != values:
            raise Unfit(f"value must have as many rows as key, {keys}, got {values}")

    @traitlets.validate("query", "key", "value")
    def _same_shape(self, proposal: Any) -> list[list[float]]:
        """The tables on the page keep their size; a figure of another size is another figure."""
        table: list[list[float]] = proposal["value"]
        if hasattr(self, "_shapes"):
            name = proposal["trait"].name
            want = self._shapes[("query", "key", "value").index(name)]
            if (len(table), len(table[0])) != want:
                raise Unfit(f"{name} must stay of shape {want}, got {(len(table), len(table[0]))}")
        return table

    @traitlets.validate("step", "row", "column")
    def _inside(self, proposal: Any) -> Any:
        """A number that is there."""
        name, got = proposal["trait"].name, proposal["value"]
        step = got if name == "step" else self.step
        rows, columns = len(self.query), len(self.value[0]) if step == "output" else len(self.key)
        if name == "row" and got >= rows:
            raise Unfit(f"row must be less than {rows}, got {got}")
        if name == "column" and got >= columns:
            raise Unfit(f"column must be less than {columns}, got {got}")
        return got

    @traitlets.observe("step")
    def _narrower(self, change: Any) -> None:
        """The output may have fewer columns than there are keys, or more."""
        self.column = min(self.column, len(self.value[0] if self.step == "output" else self.key) - 1)

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            "Queries, keys and values as tables, and the matrices made from them: scores, scaled, masked, weights, "
            "output. Each number can be picked, and its arithmetic is written below."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """Scaled scores, weights and output as heatmaps."""
        import torch

        from companion import plots, scaled_dot_product_attention
        from companion.masks import causal

        query, key, value = (torch.tensor(x, dtype=torch.float64) for x in (self.query, self.key, self.value))
        found = scaled_dot_product_attention(query, key, value, causal() if self.causal else None)
        hidden = None
        if self.causal:
            hidden = ~causal().dense(1, 1, len(query), len(key))[0, 0]
        scores = query @ key.T / query.shape[-1] ** 0.5
        rows = [f"q{i + 1}" for i in range(len(query))]
        columns = [f"k{j + 1}" for j in range(len(key))]
        picture, (first, second, third) = canvas(3, (10.0, 3.4))
        plots.heatmap(scores, rows, columns, signed=True, masked=hidden, ax=first)
        plots.heatmap(found.weights, rows, columns, masked=hidden, ax=second)
        plots.heatmap(
            found.output, rows, [f"{e + 1}" for e in range(value.shape[-1])], signed=True, xlabel="feature", ax=third
        )
        for ax, title in ((first, "scaled scores"), (second, "weights"), (third, "output")):
            ax.set_title(title)
        return picture
