r"""Attention over a sequence that no single device holds: queries stay, keys and values go round.

Each of :math:`P` ranks starts with its own keys and values, attends to them, and passes them on; after :math:`P` steps
every query has met every key. Partial results merge exactly, by their log-sum-exp:

.. math:: O = \sum_j e^{\ell_j - \ell}\, O_j, \qquad \ell = \log \sum_j e^{\ell_j}

The next shard travels while the present one is worked on. Backward goes round once more: the gradient of a key travels
with the key, each rank adds its share, and one step after the last it is home.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from companion import tiles
from companion.call import Call
from companion.kernels.guard import without_broken
from companion.ranks import Arrival, Ranks
from companion.streaming import merge_partials

__all__: list[str] = []

KEYS, GRADIENTS = 0, 1  # tags of what travels


class Part(NamedTuple):
    """The pairs of a rank's queries and another's keys that have work in them."""

    queries: slice
    keys: slice
    causal: bool


def visible(rank: int, source: int, length: int, *, causal: bool, balanced: bool) -> Part | None:
    """Which of the ``length`` queries of ``rank`` see which of the ``length`` keys of ``source``; None if none do.

    Balanced, the sequence is cut into 2P pieces, and rank r holds r and 2P - 1 - r, in this order. Let j be the source.

    - j = r: the same positions on both sides, in ascending order: an ordinary causal square.
    - j < r: piece j comes before both pieces of queries, r and 2P - 1 - r, and piece 2P - 1 - j after both. So all
      queries see the first half of the keys, and nobody sees the second.
    - j > r: r < j <= 2P - 1 - j < 2P - 1 - r, so both pieces of keys lie between the two of queries. The second half of
      the queries sees all keys, the first half none.

    Outside the own square nothing is computed in vain, and each step is half a square's work, whoever does it.
    """
    everything, half = slice(0, length), length // 2
    if not causal or source == rank:
        return Part(everything, everything, causal)
    if not balanced:
        return Part(everything, everything, False) if source < rank else None
    if source < rank:
        return Part(everything, slice(0, half), False)
    return Part(slice(half, length), everything, False)


class RingAttention(torch.autograd.Function):
    """``(B, H, L/P, D), (B, G, L/P, D), (B, G, L/P, E) -> (B, H, L/P, E)``, on every rank at once."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ring: Ring) -> Tensor:
        """One round of keys and values."""
        output, logsumexp, broken = ring.forward(query, key, value)
        ctx.ring = ring
        ctx.save_for_backward(query, key, value, output, logsumexp, broken)
        return output if broken is None else output.masked_fill(broken.unsqueeze(-1), math.nan)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """One more round, with gradients."""
        query, key, value, output, logsumexp, broken = ctx.saved_tensors
        if broken is not None:  # such a row gives no gradient, as in ``attend``, nor any to the NaN that it saw
            grad_output = grad_output.masked_fill(broken.unsqueeze(-1), 0.0)
        return *ctx.ring.backward(query, key, value, output, logsumexp, grad_output), None


class Ring(NamedTuple):
    """How a call goes round."""

    ranks: Ranks
    causal: bool
    scale: float
    balanced: bool

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The output ``(B, H, L/P, E)``, its log-sum-exp, and the rows ``(B, H, L/P)`` that met NaN or infinity."""
        travelling = _packed(key, value)
        broken: Tensor | None = None
        for step in range(self.ranks.size):
            arrival = self._send(travelling, step)
            part = self._part(step, query.shape[2])
            if part is not None:
                call, bad = without_broken(self._call(part, query, *_unpacked(travelling, key, value)))
                here = tiles.forward(call)
                if step == 0:  # a rank's own keys: every query sees some
                    output, logsumexp = here
                else:
                    q = part.queries
                    output[:, :, q], logsumexp[:, :, q] = merge_partials([(output[:, :, q], logsumexp[:, :, q]), here])
                if bad is not None:
                    broken = torch.zeros_like(logsumexp, dtype=torch.bool) if broken is None else broken
                    broken[:, :, part.queries] |= bad
            if arrival is not None:
                travelling = arrival.wait()
        return output.to(query.dtype), logsumexp, broken

    def backward(
        self, query: Tensor, key: Tensor, value: Tensor, output: Tensor, logsumexp: Tensor, grad_output: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of query, key and value: of the sum of what all ranks make of their outputs."""
        travelling = _packed(key, value)
        grad_query = torch.zeros_like(query, dtype=logsumexp.dtype)
        gathered = torch.zeros_like(travelling, dtype=logsumexp.dtype)
        coming: Arrival | None = None
        for step in range(self.ranks.size):
            arrival = self._send(travelling, step)
            part = self._part(step, query.shape[2])
            if part is not None:
                q = part.queries
                call, _ = without_broken(self._call(part, query, *_unpacked(travelling, key, value)))
                share = tiles.backward(call, output[:, :, q], logsumexp[:, :, q], grad_output[:, :, q])
                grad_query[:, :, q] += share.query
            if coming is not None:  # what other ranks have gathered for these keys, sent while we computed
                gathered = coming.wait()
            if part is not None:
                grad_key, grad_value = _unpacked(gathered, key, value)
                grad_key[:, :, part.keys] += share.key
                grad_value[:, :, part.keys] += share.value
            coming = self.ranks.pass_on(gathered, GRADIENTS)
            if arrival is not None:
                travelling = arrival.wait()
        assert coming is not None
        grad_key, grad_value = _unpacked(coming.wait(), key, value)
        return grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype)

    def _send(self, travelling: Tensor, step: int) -> Arrival | None:
        """Start the next shard on its way, but for the last step."""
        return self.ranks.pass_on(travelling, KEYS) if step < self.ranks.size - 1 else None

    def _part(self, step: int, length: int) -> Part | None:
        """What there is to do at a step: the keys here have come from ``step`` ranks before."""
        source = (self.ranks.rank - step) % self.ranks.size
        return visible(self.ranks.rank, source, length, causal=self.causal, balanced=self.balanced)

    def _call(self, part: Part, query: Tensor, key: Tensor, value: Tensor) -> Call:
        query, key, value = query[:, :, part.queries], key[:, :, part.keys], value[:, :, part.keys]
        return Call(query, key, value, None, None, part.causal, self.scale, 0.0, tuple(query.shape[:2]))


def _packed(key: Tensor, value: Tensor) -> Tensor:
    """Keys and values as one message, ``(B * G * S * (D + E),)``."""
    return torch.cat([key.flatten(), value.flatten()])


def _unpacked(message: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Both out of a message again, as views, shaped as ``key`` and ``value``."""
    first, second = message.split([key.numel(), value.numel()])
    return first.view(key.shape), second.view(value.shape)
