"""One sequence on many devices: cut it, attend round the ring, put it together again.

A script that every rank runs, started by ``torchrun --nproc-per-node=4 script.py``::

    torch.distributed.init_process_group()
    x = embed(shard_sequence(ids, dim=-1))                       # (B, L/P, M): this rank's tokens
    where = shard_sequence(torch.arange(ids.shape[-1]), dim=0)   # (L/P,): their positions, for rotary
    q, k = rotary(q, where), rotary(k, where)
    output = ring_attention(q, k, v, causal=True)                # (B, H, L/P, E)
    loss = cross_entropy(head(output), shard_sequence(labels, dim=-1))
    loss.backward()                                              # and average over the ranks, as DDP does

Everything but attention looks at one position at a time, and runs on a shard as it is. Labels are shifted by one
before they are cut, since the next token may be with another rank. Parts are of one length, so the mean of the ranks'
mean losses is the mean over all tokens, and so it is with gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from companion import check
from companion.backends import attend
from companion.call import Call
from companion.ranks import Ranks, agreed
from companion.ring import Ring, RingAttention
from companion.typing import Float

__all__ = ["gather_sequence", "ring_attention", "shard_sequence"]


def shard_sequence(
    x: Tensor, *, dim: int = -2, group: dist.ProcessGroup | None = None, balanced: bool = True
) -> Tensor:
    r"""Cut out this rank's part of a sequence that every rank has in full.

    Balanced, the sequence is cut into ``2P`` pieces, and rank r gets pieces r and 2P - 1 - r. Under a causal mask, a
    query at position t sees t + 1 keys. With pieces of h tokens, the query at place i of piece p sees p h + i + 1, so a
    rank's two pieces see

    .. math:: \sum_{i=0}^{h-1} (r h + i + 1) + ((2P - 1 - r) h + i + 1) = h \left((2P - 1) h + h + 1\right)
       = h (2 P h + 1) :

    r is gone, and each rank has the same work. Without balance rank r gets piece r of P, and the last rank has
    nearly 2P times the work of the first, for whom everybody waits.

    Args:
        x: of any dtype and shape: features ``(..., L, D)``, or ids, positions, labels with another ``dim``.
        dim: the axis of the sequence.
        group: the ranks that share it; all if not given.
        balanced: zig-zag; ``False`` is one run of positions a rank.

    Returns:
        A new tensor, ``L/P`` long in ``dim``, its positions ascending. Gradients are those of a slice: other ranks'
        parts get zeros here, and their gradients there.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no process group, no such axis, or a length that ``2P`` (unbalanced, ``P``) does not divide.

    Example:
        >>> [pieces(rank, 4) for rank in range(4)]  # four ranks, eight pieces
        [(0, 7), (1, 6), (2, 5), (3, 4)]
    """
    x, axis = _checked_sequence(x, dim, balanced)
    ranks = Ranks.of(group)
    cuts = ranks.size * (2 if balanced else 1)
    length = x.shape[axis]
    if ranks.size > 1 and length % cuts:
        raise ValueError(
            f"x must have a length in dim {dim} that {cuts} divides ({ranks.size} ranks, "
            f"{'two pieces' if balanced else 'one piece'} each), got {length} (shape {check.shape(x)}); pad it first"
        )
    if ranks.size == 1:
        return x.clone()
    size = length // cuts
    return torch.cat([x.narrow(axis, piece * size, size) for piece in pieces(ranks.rank, ranks.size, balanced)], axis)


def gather_sequence(
    x: Tensor, *, dim: int = -2, group: dist.ProcessGroup | None = None, balanced: bool = True
) -> Tensor:
    """Put the whole sequence together on every rank: the inverse of ``shard_sequence``.

    Args:
        x: this rank's part, ``L/P`` long in ``dim``; of one shape and dtype on all ranks.
        dim: the axis of the sequence.
        group: the ranks that share it; all if not given.
        balanced: as the sequence was cut.

    Returns:
        The whole, ``L`` long in ``dim``, positions in order. Backward takes this rank's part of the gradient, and adds
        nothing from other ranks: what follows is the same computation on each rank, so each has the whole gradient
        already, and a sum would count the loss ``P`` times. Where ranks go on differently from here, this is not the
        gradient of the sum of their losses.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no process group, no such axis, an odd length where balanced, or ranks that were called otherwise.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun starts more
        >>> gather_sequence(shard_sequence(torch.arange(3), dim=0), dim=0)
        tensor([0, 1, 2])
        >>> dist.destroy_process_group()
    """

    def describe(checked: tuple[Tensor, int]) -> str:
        part, axis = checked
        return f"x {check.shape(part)}, {part.dtype} on {part.device.type}, dim {axis}, balanced={balanced}"

    (x, axis), ranks = agreed("gather_sequence", group, lambda: _checked_sequence(x, dim, balanced), describe)
    if ranks.size == 1:
        return x.clone()
    ranks.check_carries(x.device)
    if balanced and x.shape[axis] % 2:
        raise ValueError(
            f"x must have an even length in dim {dim}, two pieces of the sequence, got {x.shape[axis]} "
            f"(shape {check.shape(x)}); pass balanced=False if it was cut so"
        )
    whole: Tensor = _Gather.apply(x, axis, ranks, balanced)
    return whole


def ring_attention(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*kv_batch L D"],
    value: Float[Tensor, "*kv_batch L E"],
    *,
    causal: bool = False,
    scale: float | None = None,
    group: dist.ProcessGroup | None = None,
    balanced: bool = True,
) -> Float[Tensor, "*batch L E"]:
    r"""Self-attention over a sequence of which each rank holds a part, ``L/P`` tokens long.

    .. math:: O_r = \operatorname{softmax}(s\, Q_r\, [K_0; \dots; K_{P-1}]^\top)\, [V_0; \dots; V_{P-1}]

    Keys and values go round the ranks in ``P`` steps, the next on their way while the present ones are attended to.
    No rank ever holds a tensor as long as the sequence, nor one of ``L/P x L/P`` scores.

    Every rank has to call it, and to call backward on what follows, in the same order: it waits for the others. The
    gradients are those of the sum of all ranks' losses.

    Args:
        query: this rank's, ``(..., H, L/P, D)``, or ``(L/P, D)``; cut as ``shard_sequence`` does.
        key: ``(..., G, L/P, D)``, with ``H % G == 0``; or ``(L/P, D)``.
        value: ``(..., G, L/P, E)``, or ``(L/P, E)``.
        causal: let no query see past its own position in the whole sequence.
        scale: multiplies the scores; ``None`` is ``1 / sqrt(D)``.
        group: the ranks that share the sequence; all if not given.
        balanced: how it was cut. Under a causal mask it says which pairs see each other.

    Returns:
        ``(..., H, L/P, E)`` in the dtype of ``query``, accumulated in float32 at least: this rank's rows of what
        ``attend`` gives on the whole. NaN and infinity go where they go there.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: no process group, arguments that do not fit, queries and keys of different length, or ranks that
            were called otherwise: an error on every rank. A rank that does not call at all is waited for as long as
            the group's timeout says.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun starts more
        >>> q = k = torch.zeros(2, 4)
        >>> ring_attention(q, k, torch.tensor([[0.0], [1.0]]), causal=True)
        tensor([[0.0000],
                [0.5000]])
        >>> dist.destroy_process_group()

    Source: Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers", 2023 (arXiv:2310.01889); Brandon et
    al., "Striped Attention", 2023 (arXiv:2311.09431), for the balance.
    """

    def checked() -> Call:
        check.flag("balanced", balanced)
        call = Call.of(query, key, value, causal=causal, scale=scale)
        if call.lengths[0] != call.lengths[1]:
            raise ValueError(
                "query and key must have the same length: ring_attention is self-attention, each rank with its own "
                f"part of one sequence; got {call.lengths[0]} and {call.lengths[1]}"
            )
        return call

    def describe(call: Call) -> str:
        learns = torch.is_grad_enabled() and any(x.requires_grad for x in (call.query, call.key, call.value))
        shapes = ", ".join(f"{name} {check.shape(x)}" for name, x in (("query", query), ("key", key), ("value", value)))
        options = f"causal={causal}, scale={call.scale!r}, balanced={balanced}, requires_grad={learns}"
        return f"{shapes}, {query.dtype} on {query.device.type}, {options}"

    call, ranks = agreed("ring_attention", group, checked, describe)
    if ranks.size == 1 or 0 in (call.query.numel(), call.value.numel()):
        return attend(query, key, value, causal=causal, scale=scale)
    ranks.check_carries(call.device)
    if causal and balanced and call.lengths[0] % 2:
        raise ValueError(
            f"query must have an even length, two pieces of the sequence, got {call.lengths[0]} (shape "
            f"{check.shape(query)}); pass balanced=False if it was cut so"
        )
    ring = Ring(ranks, call.causal, call.scale, balanced)
    return call.restore(RingAttention.apply(call.query, call.key, call.value, ring))


def pieces(rank: int, size: int, balanced: bool = True) -> tuple[int, ...]:
    """Which pieces of the sequence a rank holds, ascending: two of ``2 * size``, or one of ``size``."""
    return (rank, 2 * size - 1 - rank) if balanced else (rank,)


class _Gather(torch.autograd.Function):
    """All parts in order on every rank; backward, each rank's own part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, ranks: Ranks, balanced: bool) -> Tensor:
        ctx.axis, ctx.ranks, ctx.balanced = axis, ranks, balanced
        ordered: dict[int, Tensor] = {}
        for rank, part in enumerate(ranks.collect(x)):
            held = pieces(rank, ranks.size, balanced)
            ordered.update(zip(held, part.chunk(len(held), axis), strict=True))
        return torch.cat([ordered[piece] for piece in range(len(ordered))], axis)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        held = pieces(ctx.ranks.rank, ctx.ranks.size, ctx.balanced)
        size = grad.shape[ctx.axis] // (ctx.ranks.size * len(held))
        return torch.cat([grad.narrow(ctx.axis, piece * size, size) for piece in held], ctx.axis), None, None, None


def _checked_sequence(x: Tensor, dim: int, balanced: bool) -> tuple[Tensor, int]:
    check.flag("balanced", balanced)
    check.tensor("x", x)
    if x.dim() == 0:
        raise ValueError("x must have at least 1 dim, (L,); got shape ()")
    return x, check.axis("dim", dim, x)
