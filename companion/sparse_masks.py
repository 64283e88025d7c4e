r"""Masks for long inputs: few pairs, yet every token within a few steps of every other.

A window alone carries news ``window`` tokens a layer. A handful of *global* tokens, which see all and are seen by all,
make any two tokens neighbours of a neighbour. Random pairs do it without appointing anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from companion import check
from companion.mask import Mask, Rule

__all__ = ["bigbird", "longformer"]

Scrambled = TypeVar("Scrambled", int, Tensor)


def longformer(window: int, global_tokens: Tensor | Sequence[int] = (0,), *, causal: bool = False) -> Mask:
    """A sliding window, and some tokens that see all and are seen by all.

    Args:
        window: a query sees itself and ``window - 1`` keys on each side, as in ``sliding_window``.
        global_tokens: positions of the global tokens, ``(g,)`` integers, counted from the first key and alike in each
            batch entry; or booleans ``(B, S)``, ``True`` for a global token.
        causal: let no query look ahead, global or not.

    Returns:
        ``(|q - k| < window) | global[q] | global[k]``, the last query standing at the last key: at most
        ``S * (2 * window - 1 + 2 * g)`` pairs.

    Raises:
        TypeError: ``window`` is no int, ``causal`` no bool, or ``global_tokens`` neither integer nor boolean.
        ValueError: ``window`` is less than 1, a wrong number of dims, a negative position, or, when used, a table for
            another batch or length, or a position past the last key.

    Example:
        >>> longformer(1, [0]).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 1, 1],
                [1, 1, 0],
                [1, 0, 1]], dtype=torch.int32)

    Source: Beltagy, Peters and Cohan, "Longformer", 2020 (arXiv:2004.05150), section 3.1.
    """
    check.integer("window", window)
    check.flag("causal", causal)
    chosen = check.int_or_bool("global_tokens", global_tokens, "g")
    last = -1 if chosen.dtype is torch.bool else check.extremes(chosen)[1]
    name = f"longformer({window}, ...)" if not causal else f"longformer({window}, ..., causal=True)"

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        if last >= keys:
            raise ValueError(f"global_tokens has position {last}, used with {keys} keys")
        marked, start = _global_table(chosen, batch, keys).to(device), keys - length
        shared = marked.shape[0] == 1

        def is_global(b: Tensor, at: Tensor) -> Tensor:
            return marked[0][at] if shared else marked[b, at]

        def rule(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            place = q + start
            seen = ((place - k < window) & (k - place < window)) | is_global(b, k)
            # A query before the first key (L > S) stands nowhere, so it is not global.
            seen = seen | (is_global(b, place.clamp(min=0)) & (place >= 0))
            return seen & (k <= place) if causal else seen

        return rule

    return Mask.bound(bind, name, chosen.shape[0] if chosen.dtype is torch.bool else None)


def bigbird(
    block: int, *, window: int = 3, num_global: int = 1, num_random: int = 1, causal: bool = False, seed: int = 0
) -> Mask:
    """Blocks of tokens that see a window of blocks, the first few blocks, and some random ones.

    Args:
        block: tokens in a block; the last block may be shorter.
        window: how many blocks a block sees around itself, itself included; odd, unless ``causal``, where they are
            itself and those before it.
        num_global: the first ``num_global`` blocks see all and are seen by all.
        num_random: how many further blocks each block sees, drawn from all; a draw may repeat what is seen already.
        causal: let no query look ahead, global or not.
        seed: of the draw. The same seed draws the same blocks for the same number of keys.

    Returns:
        The mask; the last query stands at the last key. It holds no table.

    Raises:
        TypeError: a count that is no int, or ``causal`` no bool.
        ValueError: a count out of range, or an even ``window`` without ``causal``.

    Example:
        >>> bigbird(1, window=1, num_random=0).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 1, 1],
                [1, 1, 0],
                [1, 0, 1]], dtype=torch.int32)

    Source: Zaheer et al., "Big Bird", 2020 (arXiv:2007.14062), section 2.
    """
    check.integer("block", block)
    check.integer("window", window)
    check.integer("num_global", num_global, minimum=0)
    check.integer("num_random", num_random, minimum=0)
    if check.integer("seed", seed, minimum=0) >= 2**32:
        raise ValueError(f"seed must be less than 2**32, got {seed}")
    if not check.flag("causal", causal) and window % 2 == 0:
        raise ValueError(f"window must be odd, so that it is the same on both sides, got {window}")
    drawing = [_key(seed, column) for column in range(num_random)]
    behind, ahead = (window - 1, 0) if causal else (window // 2, window // 2)

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        blocks, start = -(-keys // block), keys - length

        def rule(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            place = q + start
            mine, other = place.div(block, rounding_mode="floor"), k.div(block, rounding_mode="floor")
            seen = (other >= mine - behind) & (other <= mine + ahead)
            seen = seen | (other < num_global) | ((mine < num_global) & (place >= 0))
            mixed = _scrambled(mine.clamp(min=0).long())  # FlexAttention's indices have 32 bits
            for key in drawing:
                seen = seen | ((_scrambled(mixed ^ key) * blocks >> 32 == other) & (place >= 0))
            return seen & (k <= place) if causal else seen

        return rule

    sizes = f"{block}, window={window}, num_global={num_global}, num_random={num_random}"
    return Mask.bound(bind, f"bigbird({sizes}{', causal=True' if causal else ''})")


def _global_table(chosen: Tensor, batch: int, keys: int) -> Tensor:
    """Which tokens are global, as booleans ``(B, S)`` or ``(1, S)``."""
    if chosen.dtype is torch.bool:
        if check.shape(chosen) != (batch, keys):
            raise ValueError(f"global_tokens has shape {check.shape(chosen)}, used with (B, S) = {(batch, keys)}")
        return chosen
    table = torch.zeros(1, keys, dtype=torch.bool, device=chosen.device)
    return table.scatter(1, chosen.long().unsqueeze(0), True)  # on CUDA a position out of range is an error here


def _key(seed: int, column: int) -> int:
    return _scrambled(_scrambled(seed) ^ column)


def _scrambled(x: Scrambled) -> Scrambled:
    """Numbers of 32 bits to others that look random, one to one: alike on every device and in every version.

    No generator, so that a rule needs no table and ``torch.compile`` meets nothing it does not know.
    """
    for factor in (0x243F6A89, 0x13198A2F, 0x03707345):  # digits of pi, made odd
        x = ((x ^ (x >> 16)) * factor) & 0xFFFFFFFF
    return x ^ (x >> 16)
