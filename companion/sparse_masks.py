r"""Masks for long inputs: few pairs, yet every token within a few steps of every other.

A window alone carries news ``window`` tokens a layer. A handful of *global* tokens, which see all and are seen by all,
make any two tokens neighbours of a neighbour. Random pairs do it without appointing anybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from companion import check
from companion.mask import Mask, Rule

__all__ = ["bigbird", "longformer"]


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
    chosen = check.int_or_bool("global_tokens", global_tokens)
    name = f"longformer({window}, ...)" if not causal else f"longformer({window}, ..., causal=True)"

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        marked, start = _global_table(chosen, batch, keys).to(device), keys - length
        one = marked.shape[0] == 1

        def rule(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            place = q + start
            entry = b * 0 if one else b
            # A query before the first key (L > S) stands nowhere, so it is not global.
            seen = ((place - k < window) & (k - place < window)) | marked[entry, k]
            seen = seen | (marked[entry, place.clamp(min=0)] & (place >= 0))
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
        num_random: how many further blocks each block sees, drawn once from all; a draw may repeat what is seen
            already.
        causal: let no query look ahead, global or not.
        seed: of the draw. The same seed draws the same blocks for the same length.

    Returns:
        The mask; the last query stands at the last key. It holds ``num_random`` numbers a block, and no ``L x S``
        table.

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
    check.integer("seed", seed, minimum=0)
    if not check.flag("causal", causal) and window % 2 == 0:
        raise ValueError(f"window must be odd, so that it is the same on both sides, got {window}")
    behind, ahead = (window - 1, 0) if causal else (window // 2, window // 2)

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        blocks, start = -(-keys // block), keys - length
        draw = torch.Generator().manual_seed(seed)
        drawn = torch.randint(max(blocks, 1), (max(blocks, 1), num_random), generator=draw).to(device)

        def rule(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            place = q + start
            mine, other = place.div(block, rounding_mode="floor"), k.div(block, rounding_mode="floor")
            seen = (other >= mine - behind) & (other <= mine + ahead)
            seen = seen | (other < num_global) | ((mine < num_global) & (place >= 0))
            for column in range(num_random):
                seen = seen | ((drawn[mine.clamp(min=0), column] == other) & (place >= 0))
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
    if chosen.device.type == "cpu" and chosen.numel() and int(chosen.max()) >= keys:
        raise ValueError(f"global_tokens has position {int(chosen.max())}, used with {keys} keys")
    table = torch.zeros(1, keys, dtype=torch.bool, device=chosen.device)
    table[0, chosen.long()] = True
    return table
