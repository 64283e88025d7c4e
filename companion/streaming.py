"""Attention over keys that come a few at a time: in memory that grows with the length, not with its square.

What it builds on, softmax in one pass, is in ``companion.online``; the tiles are in ``companion.tiles``.
"""

from __future__ import annotations

from typing import Literal, overload

from torch import Tensor

from companion import check
from companion.call import Call
from companion.kernels import chunked
from companion.masks import Mask, sliding_window
from companion.online import OnlineSoftmax, merge_partials, online_softmax
from companion.tile_grid import default_tile
from companion.typing import Float

__all__ = [
    "OnlineSoftmax",
    "chunked_attention",
    "merge_partials",
    "online_softmax",
    "sliding_window_attention",
]


@overload
def chunked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None = ..., *, bias: Tensor | None = ...,
    causal: bool = ..., scale: float | None = ..., query_chunk: int | None = ..., key_chunk: int | None = ...,
    return_logsumexp: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@overload
def chunked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None = ..., *, bias: Tensor | None = ...,
    causal: bool = ..., scale: float | None = ..., query_chunk: int | None = ..., key_chunk: int | None = ...,
    return_logsumexp: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip


def chunked_attention(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*kv_batch S D"],
    value: Float[Tensor, "*kv_batch S E"],
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    query_chunk: int | None = None,
    key_chunk: int | None = None,
    return_logsumexp: bool = False,
) -> Float[Tensor, "*batch L E"] | tuple[Float[Tensor, "*batch L E"], Float[Tensor, "*batch L"]]:
    r"""Attention in memory that grows with the length, not with its square, forward and backward.

    .. math:: O = \operatorname{softmax}(s\, Q K^\top + \text{bias})\, V

    The scores are made a tile at a time, some queries against some keys, and what each tile gives is merged by online
    softmax; the backward pass makes them again. Tiles that ``causal`` or a ``Mask`` of known bounds rules out are
    passed over.

    Args:
        query: ``(..., H, L, D)``, or ``(L, D)``.
        key: ``(..., G, S, D)``, with ``H % G == 0``; or ``(S, D)``.
        value: ``(..., G, S, E)``, or ``(S, E)``.
        mask: boolean, ``True`` where a query may attend, or a :class:`~companion.masks.Mask`, which is asked about one
            tile at a time.
        bias: added to the scaled scores; it gets a gradient.
        causal: let query i see keys up to ``S - L + i`` only. Composes with ``mask``.
        scale: multiplies the scores; ``None`` is ``1 / sqrt(D)``.
        query_chunk: how many queries a tile has at most; ``None`` chooses.
        key_chunk: how many keys; ``None`` chooses.
        return_logsumexp: give the log-sum-exp of each row of scores too, for ``merge_partials``.

    Returns:
        ``(..., L, E)`` in the dtype of ``query``; with ``return_logsumexp`` also ``(..., L)``, float32 at least. Both
        have gradients, of first order. A query that may see nothing gets zeros and minus infinity, with zero gradient.
        On a CPU, NaN or infinity in a key or value reaches the queries that may see it, and no other.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: shapes, heads, devices or numbers that do not fit.
        RuntimeError: when a second derivative is asked for.

    Example:
        >>> import torch
        >>> q, k, v = torch.zeros(1, 4), torch.zeros(3, 4), torch.tensor([[0.0], [1.0], [2.0]])
        >>> chunked_attention(q, k, v, key_chunk=2, return_logsumexp=True)  # mean of the values, log 3
        (tensor([[1.]]), tensor([1.0986]))

    Source: Rabe & Staats, "Self-attention Does Not Need O(n^2) Memory", 2021 (arXiv:2112.05682); Dao et al.,
    "FlashAttention", 2022 (arXiv:2205.14135).
    """
    call = Call.of(query, key, value, mask, bias=bias, causal=causal, scale=scale)
    tile = _tile(call, query_chunk, key_chunk)
    check.flag("return_logsumexp", return_logsumexp)
    output, logsumexp = (call.restore(x) for x in chunked.attention(call, tile))
    return (output, logsumexp) if return_logsumexp else output


def sliding_window_attention(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*kv_batch S D"],
    value: Float[Tensor, "*kv_batch S E"],
    window: int,
    *,
    causal: bool = True,
    scale: float | None = None,
) -> Float[Tensor, "*batch L E"]:
    r"""Attention to near keys only, in time and memory that grow as ``L * window``, forward and backward.

    .. math:: o_i = \sum_{i - w < j \le i} a_{ij} v_j

    Each tile of queries meets just the keys that one of them can see; what lies outside the band is never looked at.

    Args:
        query: ``(..., H, L, D)``, or ``(L, D)``.
        key: ``(..., G, S, D)``, with ``H % G == 0``; or ``(S, D)``. The last query stands at the last key.
        value: ``(..., G, S, E)``, or ``(S, E)``.
        window: how many keys a query sees, itself included.
        causal: look back only; ``False`` adds ``window - 1`` keys ahead.
        scale: multiplies the scores; ``None`` is ``1 / sqrt(D)``.

    Returns:
        ``(..., L, E)``: what ``attend`` gives with the mask ``sliding_window(window, causal=causal)``.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: shapes, heads, devices or numbers that do not fit.
        RuntimeError: when a second derivative is asked for.

    Example:
        >>> import torch
        >>> x = torch.zeros(3, 1)
        >>> sliding_window_attention(x, x, torch.tensor([[1.0], [2.0], [6.0]]), window=2).flatten()
        tensor([1.0000, 1.5000, 4.0000])

    Source: Child et al., "Generating Long Sequences with Sparse Transformers", 2019 (arXiv:1904.10509); Beltagy et al.,
    "Longformer", 2020 (arXiv:2004.05150).
    """
    return chunked_attention(query, key, value, sliding_window(window, causal=causal), scale=scale)


def _tile(call: Call, query_chunk: int | None, key_chunk: int | None) -> tuple[int, int]:
    """Tile sizes: what was asked for, and what is best for the rest."""
    height, width = default_tile(call)
    if query_chunk is not None:
        height = check.integer("query_chunk", query_chunk)
    if key_chunk is not None:
        width = check.integer("key_chunk", key_chunk)
    return height, width
