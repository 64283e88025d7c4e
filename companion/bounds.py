"""What is known of a mask without asking it about each pair: a kernel skips what lies outside.

The last query stands at the last key, so query ``q`` is at position ``p = q + S - L`` among the keys.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__: list[str] = []


class Bounds(NamedTuple):
    """No pair outside ``p - before <= k <= p + after``, ``k < lengths[b]`` may attend.

    Attributes:
        before: how far back a query sees; None for no limit.
        after: how far ahead; 0 is causal, None is no limit.
        lengths: how many keys each batch entry has, ``(B,)``; None for all.
        exact: each pair inside may attend, so that the bounds are the whole rule.
    """

    before: int | None = None
    after: int | None = None
    lengths: Tensor | None = None
    exact: bool = False

    def __and__(self, other: Bounds) -> Bounds:
        """Bounds of what both allow."""
        return Bounds(
            _smaller(self.before, other.before),
            _smaller(self.after, other.after),
            _shorter(self.lengths, other.lengths),
            self.exact and other.exact,
        )

    def __or__(self, other: Bounds) -> Bounds:
        """Bounds of what either allows."""
        return Bounds(_larger(self.before, other.before), _larger(self.after, other.after))


def _smaller(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def _shorter(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    # Of two batches the mask itself will complain, when it meets the sizes.
    return a.minimum(b.to(a.device)) if a.shape == b.shape else a
