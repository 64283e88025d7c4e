r"""Softmax over scores that come a few at a time, with no row of them ever whole.

A softmax seems to need all scores before it can give the first weight. It does not: what was gathered under one maximum
is brought to another by one factor, so a maximum, a sum and a weighted sum are all that must be kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from companion import check
from companion.attention import at_least_float32
from companion.typing import Float

__all__ = ["OnlineSoftmax", "merge_partials", "online_softmax"]


class OnlineSoftmax(NamedTuple):
    r"""What is known of attention after some of the keys; step by step it becomes the whole.

    .. math::

       m' = \max(m, \max_j s_j), \qquad
       l' = e^{m - m'} l + \sum_j e^{s_j - m'}, \qquad
       o' = e^{m - m'} o + \sum_j e^{s_j - m'} v_j

    Attributes:
        maximum: the largest score so far, ``(..., L)``; minus infinity before the first.
        total: the sum of ``exp(score - maximum)``, ``(..., L)``.
        output: the values, weighted by ``exp(score - maximum)`` and summed, ``(..., L, E)``.

    Example:
        >>> state = OnlineSoftmax.start((1,), width=1)
        >>> state = state.update(torch.tensor([[0.0]]), torch.tensor([[4.0]]))
        >>> state = state.update(torch.tensor([[math.log(3.0)]]), torch.tensor([[0.0]]))
        >>> state.total, state.finish()[0]  # 1/3 + 1, and (1 x 4 + 3 x 0) / 4
        (tensor([1.3333]), tensor([[1.]]))

    Source: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867), algorithm 3.
    """

    maximum: Tensor
    total: Tensor
    output: Tensor

    @classmethod
    def start(
        cls,
        rows: tuple[int, ...] | list[int],
        width: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> OnlineSoftmax:
        """Nothing seen yet.

        Args:
            rows: the shape of the queries without their features, ``(..., L)``.
            width: of the values, ``E``.
            dtype: float32, or float64.
            device: where to make it; the CPU if not given.

        Raises:
            TypeError: ``rows`` is no tuple or list of ints, ``width`` no int, or ``dtype`` neither of the two.
            ValueError: a negative size, or no such device.
        """
        if not isinstance(rows, (tuple, list)):
            raise TypeError(f"rows must be a tuple or list of ints, got {type(rows).__name__}")
        shape = tuple(check.integer("rows", size, minimum=0) for size in rows)
        check.integer("width", width, minimum=0)
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        place = check.device("device", device)
        zeros = torch.zeros(shape, dtype=dtype, device=place)
        return cls(torch.full_like(zeros, -math.inf), zeros, zeros.new_zeros(*shape, width))

    def update(self, scores: Tensor, values: Tensor) -> OnlineSoftmax:
        """Meet some more keys.

        Args:
            scores: of these keys, ``(..., L, S)``; minus infinity where a query may not look.
            values: ``(..., S, E)``, their leading dims as the scores' or broadcast to them.

        Returns:
            What is known now; the old state stays as it was.

        Raises:
            TypeError: no floating-point tensors.
            ValueError: shapes or devices that do not fit.
        """
        scores, values = self._check(scores, values)
        if scores.shape[-1] == 0:
            return self
        maximum = torch.maximum(self.maximum, scores.detach().amax(-1))
        # Before anything is seen, −inf − (−inf) would be NaN.
        base = maximum.masked_fill(maximum == -math.inf, 0.0)
        rescale = torch.exp(self.maximum - base)
        terms = torch.exp(scores - base.unsqueeze(-1))
        total = rescale * self.total + terms.sum(-1)
        return OnlineSoftmax(maximum, total, rescale.unsqueeze(-1) * self.output + terms @ values)

    def finish(self) -> tuple[Tensor, Tensor]:
        """Output ``(..., L, E)`` and log-sum-exp ``(..., L)``; 0 and minus infinity where nothing was seen."""
        empty = self.total == 0
        total = self.total.masked_fill(empty, 1.0)
        logsumexp = self.maximum.masked_fill(empty, 0.0) + total.log()
        return self.output / total.unsqueeze(-1), logsumexp.masked_fill(empty, -math.inf)

    def _check(self, scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        check.floating("scores", scores)
        check.floating("values", values)
        check.same_device(state=self.total, scores=scores, values=values)
        rows, width = check.shape(self.total), self.output.shape[-1]
        if scores.dim() != len(rows) + 1 or check.shape(scores)[:-1] != rows:
            raise ValueError(f"scores must have shape {(*rows, 'S')}, got {check.shape(scores)}")
        lead, want = rows[:-1], (*rows[:-1], scores.shape[-1], width)
        got = check.shape(values)
        fits = len(got) in (2, len(want)) and got[-2:] == want[-2:]
        if not fits or any(a not in (1, b) for a, b in zip(got[:-2], lead, strict=False)):
            raise ValueError(f"values must have shape {want}, where leading dims may be 1, got {got}")
        return scores.to(self.total.dtype), values.to(self.total.dtype)


def online_softmax(x: Float[Tensor, "*shape"], dim: int = -1, *, chunk_size: int = 1024) -> Float[Tensor, "*shape"]:
    r"""Softmax by chunks: one pass for the maximum and the sum together, one for the weights.

    .. math:: m' = \max(m, \max_j x_j), \qquad l' = e^{m - m'} l + \sum_j e^{x_j - m'}, \qquad a_j = e^{x_j - m} / l

    Args:
        x: scores of any shape; minus infinity marks what must get no weight.
        dim: the axis that sums to one.
        chunk_size: how many scores of it are looked at together.

    Returns:
        The weights of ``stable_softmax``, in the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``dim`` or ``chunk_size`` no int.
        ValueError: ``x`` has no axis ``dim``, or ``chunk_size`` is less than 1.

    Example:
        >>> online_softmax(torch.tensor([0.0, math.log(3.0)]), chunk_size=1)  # 1 / (1 + 3) and 3 / (1 + 3)
        tensor([0.2500, 0.7500])

    Source: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867), algorithm 3.
    """
    axis = check.along("x", x, dim, "(..., S)")
    chunk_size = check.integer("chunk_size", chunk_size)
    if x.numel() == 0:
        return x.clone()
    chunks = at_least_float32(x).split(chunk_size, axis)
    maximum = torch.full_like(chunks[0].narrow(axis, 0, 1), -math.inf)
    base = total = torch.zeros_like(maximum)
    for chunk in chunks:
        larger = torch.maximum(maximum, chunk.detach().amax(axis, keepdim=True))
        base = larger.masked_fill(larger == -math.inf, 0.0)  # −inf − (−inf) would be NaN
        total = torch.exp(maximum - base) * total + torch.exp(chunk - base).sum(axis, keepdim=True)
        maximum = larger
    total = total.masked_fill(total == 0, 1.0)
    return torch.cat([torch.exp(chunk - base) / total for chunk in chunks], axis).to(x.dtype)


def merge_partials(
    partials: Sequence[tuple[Float[Tensor, "*batch L E"], Float[Tensor, "*batch L"]]],
) -> tuple[Float[Tensor, "*batch L E"], Float[Tensor, "*batch L"]]:
    r"""Attention over all keys from attention over each part of them.

    .. math:: \ell = \log \sum_i e^{\ell_i}, \qquad o = \sum_i e^{\ell_i - \ell} o_i

    Args:
        partials: for each part of the keys, output ``(..., L, E)`` and log-sum-exp ``(..., L)``, as
            ``chunked_attention(..., return_logsumexp=True)`` gives them. No key may be in two parts. A part in which a
            query sees nothing has log-sum-exp minus infinity there, and its output is not looked at.

    Returns:
        Output, in the dtype it came in, and log-sum-exp, float32 at least: 0 and minus infinity, with zero gradient,
        for a query that sees nothing in any part.

    Raises:
        TypeError: no sequence of pairs of floating-point tensors, or outputs of different dtypes.
        ValueError: no pairs, or shapes or devices that do not fit.

    Example:
        >>> one = (torch.tensor([[4.0]]), torch.tensor([0.0]))
        >>> two = (torch.tensor([[0.0]]), torch.tensor([math.log(3.0)]))
        >>> merge_partials([one, two])  # (1 x 4 + 3 x 0) / 4 and log(1 + 3)
        (tensor([[1.]]), tensor([1.3863]))

    Source: Rabe & Staats, "Self-attention Does Not Need O(n^2) Memory", 2021 (arXiv:2112.05682), section 2.
    """
    pairs = _check_partials(partials)
    dtype = pairs[0][0].dtype
    outputs = torch.stack([at_least_float32(output) for output, _ in pairs])  # (P, ..., L, E)
    ends = torch.stack([at_least_float32(end) for _, end in pairs])  # (P, ..., L)
    largest = ends.detach().amax(0)
    empty = largest == -math.inf
    largest = largest.masked_fill(empty, 0.0)
    shares = torch.exp(ends - largest)
    total = shares.sum(0).masked_fill(empty, 1.0)
    outputs = outputs.masked_fill((ends == -math.inf).unsqueeze(-1), 0.0)
    output = (shares.unsqueeze(-1) * outputs).sum(0) / total.unsqueeze(-1)
    return output.to(dtype), (largest + total.log()).masked_fill(empty, -math.inf)


def _check_partials(partials: object) -> list[tuple[Tensor, Tensor]]:
    if isinstance(partials, (Tensor, str)) or not isinstance(partials, Sequence):
        raise TypeError(f"partials must be a sequence of pairs (output, logsumexp), got {type(partials).__name__}")
    if not partials:
        raise ValueError("partials must hold at least one pair (output, logsumexp), got none")
    for pair in partials:
        if not isinstance(pair, tuple) or len(pair) != 2:
            what = f"{len(pair)} of them" if isinstance(pair, tuple) else type(pair).__name__
            raise TypeError(f"partials must hold pairs (output, logsumexp), got {what}")
        output, end = check.floating("output", pair[0]), check.floating("logsumexp", pair[1])
        check.min_rank("output", output, 2, "(..., L, E)")
        first = partials[0][0]
        if output.shape != first.shape:
            raise ValueError(
                f"partials must have outputs of one shape, got {check.shape(first)} and {check.shape(output)}"
            )
        if check.shape(end) != check.shape(output)[:-1]:
            raise ValueError(f"logsumexp must have shape {check.shape(output)[:-1]}, got {check.shape(end)}")
        check.same_dtype(output=first, outputs=output)
        check.same_device(output=first, outputs=output, logsumexp=end)
    return [(output, end) for output, end in partials]
