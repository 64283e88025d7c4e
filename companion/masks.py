r"""Who may look at whom: the rules that models use.

Each returns a :class:`~companion.mask.Mask`; ``True`` means *may attend*, and rules compose: ``causal() &
padding(lengths)``, ``a | b``, ``~a``.

Where the queries are the last ``L`` of ``S`` positions, as in decoding with a cache, rules that speak of distance align
the last query with the last key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from companion import check
from companion.bounds import Bounds
from companion.mask import Mask, Rule
from companion.sparse_masks import bigbird, longformer
from companion.typing import Bool

__all__ = ["Mask", "bigbird", "causal", "document", "longformer", "padding", "prefix_lm", "sliding_window"]


def causal(offset: int | None = None) -> Mask:
    """A query sees itself and what came before it.

    Args:
        offset: the position of the first query among the keys. ``None`` is ``S - L``: the last query stands at the
            last key, so with ``L == S`` it is the lower triangle.

    Returns:
        The mask ``k <= q + offset``.

    Raises:
        TypeError: ``offset`` is no int.

    Example:
        >>> causal().dense(1, 1, 2, 3)[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    if offset is not None:
        start = check.integer("offset", offset, minimum=-(2**62))
        return Mask(lambda b, h, q, k: k <= q + start, f"causal(offset={start})")
    return _positioned(lambda q, k: k <= q, "causal()", Bounds(after=0, exact=True))


def sliding_window(window: int, *, causal: bool = True) -> Mask:
    """A query sees itself and its ``window - 1`` nearest neighbours: before it, or on each side.

    Args:
        window: how many keys a query sees, itself included.
        causal: look back only; ``False`` adds ``window - 1`` keys ahead.

    Returns:
        The mask ``0 <= q - k < window``, or ``|q - k| < window``.

    Raises:
        TypeError: ``window`` is no int, or ``causal`` no bool.
        ValueError: ``window`` is less than 1.

    Example:
        >>> sliding_window(2).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)

    Source: Child et al., "Generating Long Sequences with Sparse Transformers", 2019 (arXiv:1904.10509).
    """
    reach = check.integer("window", window) - 1
    if check.flag("causal", causal):
        bounds = Bounds(reach, 0, exact=True)
        return _positioned(lambda q, k: (k <= q) & (q - k < window), f"sliding_window({window})", bounds)
    bounds = Bounds(reach, reach, exact=True)
    name = f"sliding_window({window}, causal=False)"
    return _positioned(lambda q, k: (q - k < window) & (k - q < window), name, bounds)


def padding(lengths: Tensor | Sequence[int]) -> Mask:
    """Only real keys may be seen, not the padding that fills a batch.

    Args:
        lengths: how many real tokens each batch entry has, ``(B,)`` integers, where the padding comes last; or
            booleans ``(B, S)``, ``True`` for a real token, wherever the padding is.

    Returns:
        A mask on the *key* axis, ``(B, 1, 1, S)`` when compact. The rows of padded queries stay as they are: what
        they give is to be ignored, not masked.

    Raises:
        TypeError: ``lengths`` is neither integer nor boolean, or no table at all.
        ValueError: a wrong number of dims, a negative length, or, when used, another batch or key length.

    Example:
        >>> padding([2, 3]).dense(2, 1, 1, 3).squeeze()
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    real = check.int_or_bool("lengths", lengths)
    if real.dtype is not torch.bool:
        return _first_keys(real, "padding")

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        if check.shape(real) != (batch, keys):
            raise ValueError(f"padding was given {check.shape(real)}, used with (B, S) = {(batch, keys)}")
        table = real.to(device)
        return lambda b, h, q, k: table[b, k]

    return Mask.bound(bind, "padding(...)", real.shape[0])


def document(ids: Tensor) -> Mask:
    """Tokens see their own document only, where several are packed into one row.

    Args:
        ids: the document of each position, integers ``(B, S)``.

    Returns:
        The mask ``ids[b, q] == ids[b, k]``, the last query standing at the last key.

    Raises:
        TypeError: ``ids`` is no integer tensor.
        ValueError: ``ids`` is not ``(B, S)``, or, when used, of another batch or length, or there are more queries
            than keys.

    Example:
        >>> document(torch.tensor([[0, 0, 1]])).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """
    table = check.integers("ids", ids)
    if table.dim() != 2:
        raise ValueError(f"ids must have shape (B, S), got {check.shape(table)}")

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        if check.shape(table) != (batch, keys):
            raise ValueError(
                f"document was given ids of shape {check.shape(table)}, used with (B, S) = {(batch, keys)}"
            )
        if length > keys:
            raise ValueError(f"document needs at most as many queries as keys, got L={length} and S={keys}")
        here, start = table.to(device), keys - length
        return lambda b, h, q, k: here[b, q + start] == here[b, k]

    return Mask.bound(bind, "document(...)", table.shape[0])


def prefix_lm(lengths: Tensor | Sequence[int]) -> Mask:
    """Everybody sees the prefix; what follows it is causal. So the prefix reads both ways, and the rest is written.

    Args:
        lengths: how long the prefix of each batch entry is, ``(B,)`` integers, counted from the first key.

    Returns:
        The mask ``(k < lengths[b]) | (k <= q)``, the last query standing at the last key.

    Raises:
        TypeError: ``lengths`` is not integer.
        ValueError: a wrong number of dims, a negative length, or, when used, another batch or more than all keys.

    Example:
        >>> prefix_lm([2]).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)

    Source: Raffel et al., "Exploring the Limits of Transfer Learning", 2019 (arXiv:1910.10683), section 3.2.1.
    """
    table = check.int_or_bool("lengths", lengths)
    if table.dtype is torch.bool:
        raise TypeError("lengths must be integers (B,), got torch.bool")
    prefix = _first_keys(table, "prefix_lm") | causal()
    prefix.name = "prefix_lm(...)"
    return prefix


def causal_rows(L: int, S: int, device: torch.device) -> Bool[Tensor, "1 1 L S"]:
    """The table of ``causal()``, which ``attend(causal=True)`` shares."""
    return causal().compact(1, 1, L, S, device)


def _positioned(compare: Callable[[Tensor, Tensor], Tensor], name: str, bounds: Bounds) -> Mask:
    """A rule on positions, with the last query at the last key."""

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        start = keys - length
        return lambda b, h, q, k: compare(q + start, k)

    return Mask.bound(bind, name, bounds=bounds)


def _first_keys(lengths: Tensor, name: str) -> Mask:
    """Each batch entry's first keys, ``lengths[b]`` of them."""
    longest = check.extremes(lengths)[1]

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        if lengths.shape[0] != batch:
            raise ValueError(f"{name} was given {lengths.shape[0]} lengths, used with a batch of {batch}")
        if longest > keys:
            raise ValueError(f"{name} was given a length of {longest}, used with {keys} keys")
        ends = lengths.to(device)
        return lambda b, h, q, k: k < ends[b]

    return Mask.bound(bind, f"{name}(...)", lengths.shape[0], Bounds(lengths=lengths, exact=True))
