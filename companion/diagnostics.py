r"""How spread out is attention? Numbers to look at before, and beside, any heatmap.

They take weights, ``(..., S)``, each row summing to 1 (or to 0 where there was nothing to see), and answer row by row.
:func:`~companion.capture.capture` gets the weights out of a model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion import check
from companion.attention import at_least_float32
from companion.capture import capture
from companion.clinic import Adapter, doctor
from companion.typing import Float

__all__ = ["Adapter", "capture", "doctor", "effective_tokens", "entropy", "saturation"]


def entropy(weights: Float[Tensor, "*batch S"]) -> Float[Tensor, "*batch"]:
    r"""The entropy of each row, in nats.

    .. math:: \operatorname{entropy}(a) = -\sum_j a_j \ln a_j, \qquad 0 \ln 0 = 0

    Args:
        weights: ``(..., S)``.

    Returns:
        ``(...)``: 0 where one key takes all, ``ln S`` where all take the same; 0 for an empty row. Gradients are
        finite where a weight is 0. Computed in float32 at least.

    Raises:
        TypeError: ``weights`` is no floating-point tensor.
        ValueError: ``weights`` has no dims.

    Example:
        >>> entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
        tensor([0.6931, 0.0000])

    Source: Shannon, "A Mathematical Theory of Communication", 1948.
    """
    check.floating("weights", weights)
    check.min_rank("weights", weights, 1, "(..., S)")
    w = at_least_float32(weights)
    logs = w.masked_fill(w == 0, 1.0).log()  # log 0 would make the gradient infinite, then NaN
    return (w * (0 - logs)).sum(-1)  # 0 − log 1 is 0, where −log 1 would print as −0


def effective_tokens(weights: Float[Tensor, "*batch S"]) -> Float[Tensor, "*batch"]:
    """How many keys a row attends to: the exponential of its entropy.

    Args:
        weights: ``(..., S)``.

    Returns:
        ``(...)``, from 1 (one key) to ``S`` (all alike).

    Raises:
        TypeError: ``weights`` is no floating-point tensor.
        ValueError: ``weights`` has no dims.

    Example:
        >>> effective_tokens(torch.tensor([0.5, 0.5, 0.0]))
        tensor(2.)
    """
    return entropy(weights).exp()


def saturation(weights: Float[Tensor, "*batch S"], threshold: float = 0.95) -> Tensor:
    """The share of rows in which one key takes nearly everything, so that hardly any gradient passes.

    Args:
        weights: ``(..., S)``.
        threshold: what a largest weight must exceed to count.

    Returns:
        A number from 0 to 1, over the rows that see anything; 0 if none does. A NaN among the weights makes it NaN.

    Raises:
        TypeError: ``weights`` is no floating-point tensor, or ``threshold`` no number.
        ValueError: ``weights`` has no dims, or ``threshold`` is not between 0 and 1.

    Example:
        >>> saturation(torch.tensor([[0.99, 0.01], [0.5, 0.5]]))
        tensor(0.5000)
    """
    check.floating("weights", weights)
    check.min_rank("weights", weights, 1, "(..., S)")
    limit = check.probability("threshold", threshold)
    if weights.shape[-1] == 0:
        return torch.zeros((), device=weights.device)
    largest = weights.detach().amax(-1).float()
    rows = largest != 0
    share = ((largest > limit) & rows).sum() / rows.sum().clamp(min=1)
    return share.masked_fill(largest.isnan().any(), torch.nan)
