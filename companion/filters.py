r"""Which tokens may be drawn at all: unlikely ones are many, and together likely enough to spoil a text.

A filter sets the scores of the others to :math:`-\infty`, so that softmax shares their probability among those that
stay. Tokens as likely as the last one that stays, stay too: a filter does not choose between equals.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from companion import check
from companion.typing import Float

__all__ = ["top_k", "top_p"]


def top_k(logits: Float[Tensor, "*batch V"], k: int) -> Float[Tensor, "*batch V"]:
    """Keep the ``k`` likeliest tokens.

    Args:
        logits: scores, ``(..., V)``.
        k: how many to keep; all, where there are no more.

    Returns:
        ``(..., V)``: the scores kept, and minus infinity.

    Raises:
        TypeError: ``logits`` is no floating-point tensor, or ``k`` no int.
        ValueError: no tokens, or ``k`` less than 1.

    Example:
        >>> top_k(torch.tensor([1.0, 3.0, 2.0]), 2)
        tensor([-inf, 3., 2.])

    Source: Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation", 2018 (arXiv:1805.04833), section 5.
    """
    scores = _checked(logits)
    kept = min(check.integer("k", k), scores.shape[-1])
    threshold = scores.topk(kept, dim=-1).values[..., -1:]
    return scores.masked_fill(scores < threshold, -math.inf)


def top_p(logits: Float[Tensor, "*batch V"], p: float) -> Float[Tensor, "*batch V"]:
    """Keep the likeliest tokens that make up a probability of ``p`` together: as few as can.

    Args:
        logits: scores, ``(..., V)``.
        p: how much of the probability to keep. 1 keeps all; the likeliest token always stays.

    Returns:
        ``(..., V)``: the scores kept, and minus infinity.

    Raises:
        TypeError: ``logits`` is no floating-point tensor, or ``p`` no number.
        ValueError: no tokens, or ``p`` outside 0 to 1.

    Example:
        >>> top_p(torch.tensor([0.5, 0.2, 0.3]).log(), 0.6).exp()  # a half is not enough; with 0.3 it is
        tensor([0.5000, 0.0000, 0.3000])

    Source: Holtzman et al., "The Curious Case of Neural Text Degeneration", 2019 (arXiv:1904.09751), section 3.1.
    """
    scores = _checked(logits)
    if check.probability("p", p) == 1:
        return scores  # sums of rounded probabilities may reach 1 before the last token
    ordered = scores.sort(dim=-1, descending=True).values
    probabilities = (ordered if ordered.dtype is torch.float64 else ordered.float()).softmax(-1)
    before = probabilities.cumsum(-1) - probabilities  # what the likelier tokens have already
    stays = before < p
    stays[..., 0] = True
    threshold = ordered.masked_fill(~stays, math.inf).amin(-1, keepdim=True)
    return scores.masked_fill(scores < threshold, -math.inf)


def _checked(logits: Tensor) -> Tensor:
    scores = check.floating("logits", logits)
    check.min_rank("logits", scores, 1, "(..., V)")
    if not scores.shape[-1]:
        raise ValueError(f"logits must score at least one token, got shape {check.shape(scores)}")
    return scores
