"""Mistakes that people make in attention, each as a function that makes it: what matches a student's output is named.

Each function of this file returns ready-made :class:`~companion.exercises.spec.Wrong` answers for a code question;
without names it returns all, and those that the question's inputs cannot tell apart (an inverted mask, where there is
none) drop out.

>>> from companion.exercises import diagnose
>>> [wrong.name for wrong in diagnose.weights("no scale", "over queries")]
['no scale', 'over queries']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from companion.exercises.spec import Wrong

__all__ = ["attention", "heads", "merged", "softmax", "weights"]

Weights = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., L, D) x (..., D, S) -> (..., L, S)


def _hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, -math.inf)


def _scaled(factor: Callable[[int], float]) -> Weights:
    """Softmax of scores with another scale."""
    return lambda q, k, mask: _hide(q @ k.transpose(-2, -1) * factor(q.shape[-1]), mask).softmax(-1)


def _inverted(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    return _hide(_scores(q, k), None if mask is None else ~mask).softmax(-1)


def _masked_after(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    weights = _scores(q, k).softmax(-1)
    return weights if mask is None else weights * mask


def _masked_with_zero(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    scores = _scores(q, k)
    return (scores if mask is None else scores * mask).softmax(-1)


def _not_transposed(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    return _hide(q @ k / math.sqrt(q.shape[-1]), mask).softmax(-1)


_WEIGHTS: dict[str, tuple[Weights, str]] = {
    "no scale": (
        _scaled(lambda d: 1.0),
        "The division by √D is missing: the scores spread √D times too far, and the largest takes too much.",
    ),
    "scale by D": (
        _scaled(lambda d: 1 / d),
        "That divides by D. The scores spread by √D, so √D brings them back to one; D flattens the weights.",
    ),
    "multiplied by root D": (
        _scaled(lambda d: math.sqrt(d)),
        "That multiplies by √D where it should divide, and the softmax saturates.",
    ),
    "model width": (
        _scaled(lambda d: 1 / math.sqrt(4 * d)),
        "That divides by the root of the model's width. The product sums over one head's D numbers, so √D is meant.",
    ),
    "over queries": (
        lambda q, k, mask: _hide(_scores(q, k), mask).softmax(-2),
        "The softmax runs over the queries: your columns sum to one, and each row should. The keys are the last axis.",
    ),
    "scaled after softmax": (
        lambda q, k, mask: _hide(q @ k.transpose(-2, -1), mask).softmax(-1) / math.sqrt(q.shape[-1]),
        "The scale comes after the softmax: rows sum to 1/√D, and the softmax saw the large scores all the same.",
    ),
    "softmax twice": (
        lambda q, k, mask: _hide(_scores(q, k), mask).softmax(-1).softmax(-1),
        "The softmax runs twice. The second sees numbers from 0 to 1, and makes them nearly equal.",
    ),
    "inverted mask": (
        _inverted,
        "The mask is read the wrong way round: here True means may attend, so hide where it is False.",
    ),
    "masked after softmax": (
        _masked_after,
        "The mask comes after the softmax: hidden keys still count in the sum, and the rows no longer sum to one.",
    ),
    "masked with zero": (
        _masked_with_zero,
        "Hidden scores became 0, which is a score like any other: e⁰ is 1. Minus infinity gets no weight.",
    ),
    "keys not transposed": (
        _not_transposed,
        "The keys are not transposed: that multiplies queries by columns of K, and K's rows are the keys.",
    ),
}

_SOFTMAX: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "wrong axis": (
        lambda x: x.softmax(-2),
        "The sum runs down the columns. A row holds one query's scores: sum along the last axis.",
    ),
    "over everything": (
        lambda x: x.flatten().softmax(0).view_as(x),
        "The whole table sums to one. Each row should, so keep the last axis for the sum.",
    ),
    "no division": (lambda x: x.exp(), "These are the exponentials. Divide each row by its sum, and it sums to one."),
    "overflows": (
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        "Right for small scores. For large ones the exponential is infinite, and ∞/∞ is NaN: subtract the row's "
        "largest score first, which changes no weight.",
    ),
    "divides by the largest": (
        lambda x: (x - x.amax(-1, keepdim=True)).exp(),
        "Subtracting the largest score makes the largest entry 1, and no sum has been divided by yet.",
    ),
    "softmax twice": (
        lambda x: x.softmax(-1).softmax(-1),
        "The softmax runs twice. The second sees numbers from 0 to 1, and makes them nearly equal.",
    ),
}


def _interleaved(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(-1, (-1, num_heads)).movedim(-1, -3)  # (..., L, D, H) -> (..., H, L, D)


_HEADS: dict[str, tuple[Callable[[Tensor, int], Tensor], str]] = {
    "view without transpose": (
        lambda x, num_heads: x.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1),
        "A `view` alone cuts the positions into heads, not the features: a head then holds whole tokens, some of "
        "each other's. View as (L, H, D), then transpose L and H.",
    ),
    "interleaved": (
        _interleaved,
        "Head h got every H-th feature. It should hold neighbours, h · D to (h + 1) · D: view as (H, D), not (D, H).",
    ),
    "positions first": (
        lambda x, num_heads: x.unflatten(-1, (num_heads, -1)),
        "The cut is right, but the order of axes is (L, H, D). Attention multiplies the last two axes: transpose to "
        "(H, L, D), or heads look at heads.",
    ),
}

_MERGED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "view without transpose": (
        lambda x: x.reshape(*x.shape[:-3], x.shape[-2], -1),
        "A `view` alone puts positions of one head side by side. Transpose H and L first, then join H and D.",
    ),
    "interleaved": (
        lambda x: x.movedim(-3, -1).flatten(-2),
        "The heads' features are shuffled into each other, (L, D, H). They should stand side by side: (L, H, D).",
    ),
}


def weights(*names: str) -> list[Wrong]:
    """Mistakes in a function ``f(q, k)`` or ``f(q, k, mask)`` that returns attention weights; all, without names."""
    return _chosen(names, _WEIGHTS, lambda make: lambda q, k, mask=None: make(q, k, mask))


def attention(*names: str) -> list[Wrong]:
    """The same in ``f(q, k, v)`` or ``f(q, k, v, mask)`` that returns the output."""
    return _chosen(names, _WEIGHTS, lambda make: lambda q, k, v, mask=None: make(q, k, mask) @ v)


def softmax(*names: str) -> list[Wrong]:
    """Mistakes in a softmax ``f(x)`` along the last axis."""
    return _chosen(names, _SOFTMAX, lambda make: make)


def heads(*names: str) -> list[Wrong]:
    """Mistakes in ``split(x, num_heads)``, ``(..., L, M)`` to ``(..., H, L, D)``."""
    return _chosen(names, _HEADS, lambda make: make)


def merged(*names: str) -> list[Wrong]:
    """Mistakes in ``merge(x)``, ``(..., H, L, D)`` to ``(..., L, M)``."""
    return _chosen(names, _MERGED, lambda make: make)


def _chosen(
    names: tuple[str, ...], table: dict[str, tuple[Any, str]], wrap: Callable[[Any], Callable[..., Tensor]]
) -> list[Wrong]:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"names must be strs, got {type(name).__name__}")
        if name not in table:
            raise ValueError(f"names must be of {', '.join(table)}; got {name!r}")
    return [Wrong(name, wrap(table[name][0]), table[name][1], optional=not names) for name in names or table]
