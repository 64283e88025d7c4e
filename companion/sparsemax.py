"""Sparsemax: shares that may be exactly zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from companion import check
from companion.attention import at_least_float32
from companion.typing import Float

__all__ = ["sparsemax"]


def sparsemax(x: Float[Tensor, "*shape"], dim: int = -1) -> Float[Tensor, "*shape"]:
    r"""Turn scores into the nearest shares: none negative, summing to one along ``dim``.

    .. math:: a_j = \max(x_j - \tau, 0), \qquad \tau \text{ such that } \sum_j a_j = 1

    Like softmax it ignores a shift. Unlike softmax it gives a key that falls far behind nothing at all, and no
    gradient either. Half precision is computed in float32 and cast back.

    Args:
        x: scores of any shape; minus infinity marks what must get no weight.
        dim: the axis that sums to one: the keys, which are the last axis of a score matrix.

    Returns:
        Weights, in the shape and dtype of ``x``. Where all scores along ``dim`` are minus infinity, or there are
        none, the weights are zeros, and so are their gradients. A NaN makes its row NaN.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``dim`` no int.
        ValueError: ``x`` has no axis ``dim``.

    Example:
        >>> sparsemax(torch.tensor([1.0, 0.8, 0.1]))  # the first two stand, tau = (1 + 0.8 - 1) / 2
        tensor([0.6000, 0.4000, 0.0000])

    Source: Martins and Astudillo, "From Softmax to Sparsemax", 2016 (arXiv:1602.02068).
    """
    axis = check.along("x", x, dim, "(..., S)")
    if x.shape[axis] == 0:
        return x.clone()
    scores = at_least_float32(x).movedim(axis, -1)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    scores = scores.masked_fill(empty, 0.0)
    # A shift changes nothing, and brings tau near zero, where little is rounded off.
    scores = scores - scores.detach().amax(-1, keepdim=True)
    ordered = scores.sort(-1, descending=True).values
    sums = ordered.cumsum(-1)
    place = torch.arange(1, scores.shape[-1] + 1, device=x.device)
    # Would the best k, less what makes them sum to one, all stay positive? The last such k is right.
    count = (1 + place * ordered > sums).sum(-1, keepdim=True).clamp(min=1)
    tau = (sums.gather(-1, count - 1) - 1) / count
    weights = (scores - tau).clamp(min=0).masked_fill(empty, 0.0)
    return weights.movedim(-1, axis).to(x.dtype)
