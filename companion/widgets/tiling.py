"""How does FlashAttention go, block by block?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Unfit

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["TilingExplorer"]

_MOST = 12
_BYTES, _N, _D = 2, 4096, 64


def _tiles(length: int, keys: int, rows: int, columns: int, causal: bool) -> list[tuple[int, int]]:
    """The first query and key of each tile in which something is seen, in the order of the walk."""
    ahead = keys - length if causal else keys
    return [
        (i, j) for i in range(0, length, rows) for j in range(0, keys, columns) if j < min(i + rows, length) + ahead
    ]


class TilingExplorer(Figure):
    """Scores cut into tiles that are worked on one at a time; what is kept between them, and what is moved.

    Args:
        query_length: ``L``, 1 to 12.
        key_length: ``S``, 1 to 12.
        block_queries: how many queries a tile has, 1 to 12.
        block_keys: how many keys, 1 to 12.
        causal: no query sees a later key; the last query stands at the last key.
        step: how many tiles are done, the last of them being looked at; 0 is before the first.
        memory: fast memory in KiB for the count at ``n = 4096``, a power of two from 16 to 1,024.
        seed: which random queries, keys and values, 0 to 999.

    Raises:
        ValueError: a value out of range or of another kind.

    Example:
        >>> TilingExplorer(query_length=4, key_length=4, block_queries=2, block_keys=2, step=4).step
        4
    """

    question = "How does FlashAttention go, block by block?"

    query_length = traitlets.Int(8, min=1, max=_MOST).tag(sync=True)
    key_length = traitlets.Int(8, min=1, max=_MOST).tag(sync=True)
    block_queries = traitlets.Int(4, min=1, max=_MOST).tag(sync=True)
    block_keys = traitlets.Int(2, min=1, max=_MOST).tag(sync=True)
    causal = traitlets.Bool(False).tag(sync=True)
    step = traitlets.Int(2, min=0, max=_MOST**2).tag(sync=True)
    memory = traitlets.Enum([2**k for k in range(4, 11)], 128).tag(sync=True)
    seed = traitlets.Int(0, min=0, max=999).tag(sync=True)

    @traitlets.validate("step")
    def _there(self, proposal: Any) -> int:
        """A tile that there is."""
        got, count = int(proposal["value"]), len(self._walk())
        if got > count:
            raise Unfit(f"step must be at most the number of tiles, {count}, got {got}")
        return got

    @traitlets.observe("query_length", "key_length", "block_queries", "block_keys", "causal")
    def _fewer(self, change: Any) -> None:
        """Where there are fewer tiles now, the walk is at its end."""
        self.step = min(self.step, len(self._walk()))

    def _walk(self) -> list[tuple[int, int]]:
        return _tiles(self.query_length, self.key_length, self.block_queries, self.block_keys, self.causal)

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            f"A matrix of {self.query_length} by {self.key_length} scores cut into tiles, of which one at a time has "
            "numbers; beside it the running maximum, factor and sum of its queries, and bars for the bytes moved; "
            "below, a table that compares bytes and operations with the naive way."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """The tiles in their order, and the bytes that cross at ``n = 4096``."""
        import torch

        from companion import plots

        picture, (left, right) = canvas(2, (9.0, 3.8))
        order = torch.zeros(self.query_length, self.key_length)
        walk = self._walk()
        for count, (i, j) in enumerate(walk, 1):
            order[i : i + self.block_queries, j : j + self.block_keys] = count
        rows = [f"q{i + 1}" for i in range(self.query_length)]
        columns = [f"k{j + 1}" for j in range(self.key_length)]
        plots.heatmap(order, rows, columns, limit=len(walk) + 1, digits=0, masked=order == 0, ax=left)
        left.set_title("when each score is made")
        room = self.memory * 1024 / _BYTES
        side = int((4 * _D**2 + room) ** 0.5 - 2 * _D)
        met = sum(min(side, _N - j) for _, j in _tiles(_N, _N, side, side, self.causal))
        moved = [(4 * _N * _D + 4 * _N**2) * _BYTES / 2**20, (2 * _N * _D + 2 * _D * met) * _BYTES / 2**20]
        drawn = right.bar(["naive", f"blocks of {side}"], moved, color=[plots.COLORS["masked"], plots.COLORS["weight"]])
        right.bar_label(drawn, fmt="%.1f")
        right.set(ylabel="MiB moved", title=f"n = {_N:,}, d = {_D}, {self.memory} KiB of fast memory")
        return picture
