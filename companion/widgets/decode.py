"""What does a cache keep?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Unfit

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["DecodeExplorer"]

_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}


class DecodeExplorer(Figure):
    """A decoder token by token: what it computes and what it keeps, with and without a cache of keys and values.

    Args:
        tokens: two to twelve; they stay while the figure is shown.
        step: at which token it is, from 1.
        layers: 1 to 128.
        heads: ``H``, a power of two up to 64.
        kv_heads: ``G``, a power of two up to ``heads``.
        d_head: ``D``: 16, 32, 64, 128 or 256.
        dtype: of the numbers kept: float32, bfloat16 or int8.
        context: for how long a text to count too, a power of two from 256 to 131,072.

    Raises:
        ValueError: a value out of range or of another kind.

    Example:
        >>> DecodeExplorer(heads=8, kv_heads=2).kv_heads
        2
    """

    question = "What does a cache keep?"
    sized = "tokens"

    tokens = traitlets.List(
        traitlets.Unicode(), ["The", "cat", "sat", "on", "the", "mat", "and", "slept"], minlen=2, maxlen=12
    ).tag(sync=True)
    step = traitlets.Int(min=1, max=12).tag(sync=True)
    layers = traitlets.Int(32, min=1, max=128).tag(sync=True)
    heads = traitlets.Enum([64, 32, 16, 8, 4, 2, 1], 32).tag(sync=True)
    kv_heads = traitlets.Enum([64, 32, 16, 8, 4, 2, 1], 32).tag(sync=True)
    d_head = traitlets.Enum([16, 32, 64, 128, 256], 128).tag(sync=True)
    dtype = traitlets.Enum(list(_BYTES), "bfloat16").tag(sync=True)
    context = traitlets.Enum([2**k for k in range(8, 18)], 8192).tag(sync=True)

    @traitlets.default("step")
    def _in_the_middle(self) -> int:
        return min(5, len(self.tokens))

    @traitlets.validate("step")
    def _there(self, proposal: Any) -> int:
        """A token that there is."""
        got = int(proposal["value"])
        if got > len(self.tokens):
            raise Unfit(f"step must be at most the number of tokens, {len(self.tokens)}, got {got}")
        return got

    @traitlets.validate("tokens")
    def _as_many(self, proposal: Any) -> list[str]:
        """The cells on the page keep their number; a text of another length is another figure."""
        tokens: list[str] = proposal["value"]
        self._require_count("tokens", tokens)
        return tokens

    @traitlets.validate("kv_heads")
    def _shared(self, proposal: Any) -> int:
        """At most as many as there are queries to share them."""
        got = int(proposal["value"])
        if got > self.heads:
            raise Unfit(f"kv_heads must be at most heads, {self.heads}, got {got}")
        return got

    @traitlets.observe("heads")
    def _fewer(self, change: Any) -> None:
        """Fewer query heads cannot share more key/value heads."""
        self.kv_heads = min(self.kv_heads, self.heads)

    @traitlets.default("alt")
    def _describe(self) -> str:
        return (
            f"{len(self.tokens)} tokens; for the one that is being written, which queries, keys, values and scores are "
            "made, made again or read, without a cache and with one, as cells; bars and a table count work and memory."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """Work so far and memory kept, token by token."""
        from companion import plots

        token = 2 * self.heads * self.d_head**2 * (self.heads + self.kv_heads)
        pair = 2 * self.heads * self.d_head
        shown = range(1, len(self.tokens) + 1)
        picture, (left, right) = canvas(2, (9.0, 3.6))
        without = [self.layers * sum(s * token + s * s * pair for s in range(1, t + 1)) for t in shown]
        cached = [self.layers * sum(token + s * pair for s in range(1, t + 1)) for t in shown]
        left.plot(shown, without, "--o", color=plots.COLORS["query"], label="without a cache")
        left.plot(shown, cached, "-o", color=plots.COLORS["key"], label="with a cache")
        left.set(xlabel="token", ylabel="multiply-adds so far", ylim=(0, None))
        left.legend()
        kept = [2 * self.layers * self.kv_heads * self.d_head * t * _BYTES[self.dtype] / 2**20 for t in shown]
        right.bar(shown, kept, color=plots.COLORS["key"])
        right.set(xlabel="token", ylabel="MiB kept", title=f"{self.kv_heads} key/value heads, {self.heads} of queries")
        for ax in (left, right):
            ax.axvline(self.step, color="0.6", linewidth=0.8)
            ax.set_xticks(list(shown))
        return picture
