r"""Attention tile by tile, forward and backward, with no ``L x S`` matrix ever made.

A row of tiles holds some queries and meets the keys tile after tile. It carries the largest score so far ``m``, the
sum ``l`` of the exponentials and the weighted sum ``O`` of the values; when a larger score comes, what was gathered is
rescaled:

.. math::

   m' = \max(m, \max_j s_j), \qquad
   l' = e^{m - m'} l + \sum_j e^{s_j - m'}, \qquad
   O' = e^{m - m'} O + \sum_j e^{s_j - m'} v_j

The backward pass keeps no weights either: from the log-sum-exp :math:`\ell` of a row each comes back as
:math:`a_j = e^{s_j - \ell}`. With :math:`\delta = \sum_e \bar{o}_e o_e`, the gradient of the scores is
:math:`\bar{s}_j = a_j (\bar{o} \cdot v_j - \delta + \bar{\ell})`.

Source: Milakov & Gimelshein, 2018 (arXiv:1805.02867); Rabe & Staats, 2021 (arXiv:2112.05682); Dao et al.,
"FlashAttention", 2022 (arXiv:2205.14135), algorithms 1 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from companion.attention import at_least_float32
from companion.call import Call
from companion.tile_grid import Block, Grid, part

__all__: list[str] = []

LOG2_E = math.log2(math.e)

Result = TypeVar("Result")


class Gradients(NamedTuple):
    """Of the inputs, float32 at least, each in its input's shape; ``bias`` is None where there is none to give."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None


def _plainly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Without a graph, since this file is its own derivative, and without autocast, which would halve the precision."""

    @wraps(function)
    def run(call: Call, *arguments: object, **options: object) -> Result:
        device = call.device.type
        with torch.no_grad():
            if not torch.amp.is_autocast_available(device):
                return function(call, *arguments, **options)
            with torch.autocast(device, enabled=False):
                return function(call, *arguments, **options)

    return run


@_plainly
def forward(call: Call, tile: tuple[int, int] | None = None) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of a checked call, by online softmax.

    Args:
        call: without dropout.
        tile: how many queries and keys at a time; None chooses.

    Returns:
        Output ``(B, H, L, E)`` and log-sum-exp ``(B, H, L)``, float32 at least. An empty row has output 0 and
        log-sum-exp minus infinity.
    """
    grid = Grid(call, tile)
    scratch = _scratch(grid)
    output = scratch.new_zeros(*call.query.shape[:3], call.value.shape[-1])
    logsumexp = scratch.new_full(call.query.shape[:3], -math.inf)
    for block in grid.blocks():
        heads = _Heads(grid, block, scratch)
        for rows in grid.rows():
            query, row = heads.queries(rows), None
            for cols, cap in grid.columns(block, rows):
                row = _meet(row, heads.scores(query, rows, cols, cap), heads.value[:, cols])
            if row is not None:
                here = (block.entries, block.heads, rows)
                # The largest score adds 1 to its row's total: a total of less is that of a row with nothing to see.
                output[here] = heads.unfold(row.mixed.div_(row.total.clamp_min(1.0)))
                logsumexp[here] = heads.unfold(row.total.log_().add_(row.largest)).squeeze(-1)
    return output, logsumexp


@_plainly
def backward(
    call: Call,
    output: Tensor,
    logsumexp: Tensor,
    grad_output: Tensor,
    grad_logsumexp: Tensor | None = None,
    tile: tuple[int, int] | None = None,
    *,
    bias_grad: bool = True,
) -> Gradients:
    """Gradients of the inputs, with the weights worked out again, tile by tile.

    Args:
        call: as it went forward, or with a part of its keys.
        output: ``(B, H, L, E)``, over all the keys there were.
        logsumexp: ``(B, H, L)``, over all the keys there were.
        grad_output: ``(B, H, L, E)``.
        grad_logsumexp: ``(B, H, L)``; None is zeros.
        tile: how many queries and keys at a time; None chooses.
        bias_grad: whether to give one for the bias, if there is one.

    Returns:
        ``Gradients``, float32 at least.
    """
    grid = Grid(call, tile)
    scratch, slopes = _scratch(grid), _scratch(grid)
    grad_query, grad_key, grad_value = (scratch.new_zeros(x.shape) for x in (call.query, call.key, call.value))
    grad_bias = scratch.new_zeros(call.bias.shape) if call.bias is not None and bias_grad else None
    for block in grid.blocks():
        heads = _Heads(grid, block, scratch)
        to_key, to_value = (x[block.entries, block.groups].view(-1, *x.shape[2:]) for x in (grad_key, grad_value))
        for rows in grid.rows():
            query, above = heads.queries(rows), heads.fold(grad_output, rows)
            ends = heads.fold(logsumexp.unsqueeze(-1), rows)  # (N, R, 1)
            empty = ends == -math.inf  # no weights, whatever is subtracted
            rise = -(above * heads.fold(output, rows)).sum(-1, keepdim=True)
            if grad_logsumexp is not None:
                rise += heads.fold(grad_logsumexp.unsqueeze(-1), rows).masked_fill(empty, 0.0)
            shift = (-ends).masked_fill_(empty, 0.0)
            to_query = torch.zeros_like(query)
            for cols, cap in grid.columns(block, rows):
                weights = _exp(heads.scores(query, rows, cols, cap, shift))  # (N, R, S)
                to_value[:, cols].baddbmm_(weights.transpose(1, 2), above)
                slope = slopes[: weights.numel()].view(weights.shape)
                torch.baddbmm(rise, above, heads.value[:, cols].transpose(1, 2), out=slope)
                slope.mul_(weights)
                to_query.baddbmm_(slope, heads.key[:, cols])
                to_key[:, cols].baddbmm_(slope.transpose(1, 2), query)
                if grad_bias is not None:
                    into = part(grad_bias, block, rows, cols)
                    into += heads.unfold(slope).sum_to_size(into.shape)
            grad_query[block.entries, block.heads, rows] = heads.unfold(to_query.mul_(call.scale))
    return Gradients(grad_query, grad_key, grad_value, grad_bias)


class _Row(NamedTuple):
    """What a row of tiles carries along, ``(N, R, 1)`` and ``(N, R, E)``."""

    largest: Tensor
    total: Tensor
    mixed: Tensor


def _meet(row: _Row | None, scores: Tensor, value: Tensor) -> _Row:
    """One step of online softmax; what is no longer needed is overwritten."""
    # With the smallest number for a maximum, a row that sees nothing gets 0 from exp(-inf - largest), not NaN.
    largest = scores.amax(-1, keepdim=True).clamp_min_(torch.finfo(scores.dtype).min)
    if row is None:
        terms = _exp(scores.sub_(largest))
        return _Row(largest, terms.sum(-1, keepdim=True), torch.bmm(terms, value))
    largest = torch.maximum(largest, row.largest)
    rescale, terms = _exp(row.largest - largest), _exp(scores.sub_(largest))
    row.total.mul_(rescale).add_(terms.sum(-1, keepdim=True))
    row.mixed.mul_(rescale).baddbmm_(terms, value)
    return row._replace(largest=largest)


def _exp(x: Tensor) -> Tensor:
    """``exp``, in place; on a CPU ``exp2`` is several times as fast."""
    return x.mul_(LOG2_E).exp2_()


class _Heads:
    """The inputs of a block, as matrices.

    Heads that share keys are rows of one matrix: ``N`` is entries times groups, ``R`` is ``H / G`` times rows.
    """

    def __init__(self, grid: Grid, block: Block, scratch: Tensor) -> None:
        self.call, self.block, self.scratch = grid.call, block, scratch
        key, value = (at_least_float32(x[block.entries, block.groups]) for x in (self.call.key, self.call.value))
        self.key, self.value = key.flatten(0, 1), value.flatten(0, 1)  # (b, g, S, D) -> (N, S, D)
        self.overflows = grid.overflows

    def fold(self, x: Tensor, rows: slice) -> Tensor:
        """``(B, H, L, D)``, of it these rows: ``(N, R, D)``."""
        here = at_least_float32(x[self.block.entries, self.block.heads, rows])
        return here.reshape(self.key.shape[0], -1, x.shape[-1])

    def unfold(self, x: Tensor) -> Tensor:
        """``(N, R, D)`` to ``(b, h, rows, D)``."""
        heads = self.block.heads.stop - self.block.heads.start
        share = heads // (self.block.groups.stop - self.block.groups.start)
        return x.view(-1, heads, x.shape[1] // share, x.shape[2])

    def queries(self, rows: slice) -> Tensor:
        """Scaled, since a product could overflow first."""
        return self.fold(self.call.query, rows) * self.call.scale

    def scores(
        self, query: Tensor, rows: slice, cols: slice, cap: Tensor | None, shift: Tensor | None = None
    ) -> Tensor:
        """``(N, R, S)``, minus infinity where nothing may be seen; in memory that the next call reuses."""
        key = self.key[:, cols].transpose(1, 2)
        scores = self.scratch[: query.shape[0] * query.shape[1] * key.shape[2]].view(*query.shape[:2], -1)
        if shift is None:
            torch.bmm(query, key, out=scores)
        else:
            torch.baddbmm(shift, query, key, out=scores)
        if self.call.bias is not None:
            self.unfold(scores).add_(part(self.call.bias, self.block, rows, cols))
        if cap is not None:
            if self.overflows:  # in what is hidden, infinity - infinity may have made a NaN, which minimum would keep
                self.unfold(scores).masked_fill_(cap < 0, -math.inf)
            else:
                self.unfold(scores).clamp_max_(cap)
        return scores


def _scratch(grid: Grid) -> Tensor:
    """Memory for the scores of one tile, in the dtype to compute in."""
    query = grid.call.query
    return torch.empty(grid.cells, dtype=at_least_float32(query[:0]).dtype, device=query.device)
