"""Masked language modelling: hide some tokens of a text, to be guessed from both sides."""

from __future__ import annotations

import torch
from torch import Tensor

from companion import check
from companion.batch import LabelBatch
from companion.losses import check_table
from companion.splitmix import SplitMix
from companion.typing import Bool, Int
from companion.vocabulary import MASK

__all__ = ["mask_tokens"]


def mask_tokens(
    ids: Int[Tensor, "B L"],
    real: Bool[Tensor, "B L"],
    *,
    vocab_size: int,
    random: SplitMix,
    rate: float = 0.15,
    first: int = MASK + 1,
) -> LabelBatch:
    """Hide tokens, for a model that guesses them from both sides.

    Of those chosen, 80 in 100 become the mask token, 10 another token, and 10 stay: at the end nothing is masked, and
    a model that learned from masks alone would not know what to make of that.

    Args:
        ids: ``(B, L)``.
        real: ``True`` for a real token, ``(B, L)``. Padding is never chosen.
        vocab_size: how many tokens there are.
        random: where the choice comes from.
        rate: how likely a token is chosen.
        first: the lowest id that may be chosen or put in; those below are special.

    Returns:
        A batch whose ids are partly hidden, and whose labels are the true ones, counted where a token was chosen.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: numbers or shapes that do not fit.

    Source: Devlin et al., "BERT", 2018 (arXiv:1810.04805), section 3.1 and appendix A.
    """
    check.ids("ids", ids, check.integer("vocab_size", vocab_size))
    check_table("real", real, ids)
    if not isinstance(random, SplitMix):
        raise TypeError(f"random must be a SplitMix, got {type(random).__name__}")
    check.probability("rate", rate)
    if check.integer("first", first, minimum=0) >= vocab_size:
        raise ValueError(f"first must be less than vocab_size={vocab_size}, got {first}")
    shape = (ids.shape[0], ids.shape[1])
    chance, fate = random.uniform(shape).to(ids.device), random.uniform(shape).to(ids.device)
    other = (random.integers(vocab_size - first, shape) + first).to(ids.device, ids.dtype)
    chosen = (chance < rate) & real & (ids >= first)
    hidden = torch.where(chosen & (fate < 0.8), torch.full_like(ids, MASK), ids)
    hidden = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, hidden)
    return LabelBatch(hidden, real, ids, chosen)
