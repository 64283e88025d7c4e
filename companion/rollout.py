r"""Where did a vector come from? Weights of all layers, multiplied along the way.

.. math:: R_0 = I, \qquad R_\ell = \tfrac12 (\bar A_\ell + I)\, R_{\ell - 1}

with :math:`\bar A_\ell` the mean over a layer's heads. The identity is the residual connection, through which a token
hands on itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from companion import check
from companion.attention import at_least_float32
from companion.typing import Float

__all__ = ["rollout"]

FUSIONS = ("mean", "max", "min")


def rollout(
    layers: Sequence[Float[Tensor, "*batch _ L L"]] | Float[Tensor, "layers *batch H L L"], *, heads: str = "mean"
) -> Float[Tensor, "*batch L L"]:
    r"""How much of each input token is in each output vector, if attention and residuals were all that mixes them.

    It looks at weights alone: what values hold, what ``W_V`` and ``W_O`` make of them, and the feed-forward networks
    stay out of sight.

    Args:
        layers: self-attention weights, ``(..., H, L, L)``, the first layer first; ``H`` may vary. Or all of
            them in one tensor.
        heads: how a layer's heads become one matrix: their ``"mean"``, or the ``"max"`` or ``"min"`` of each entry, its
            rows then brought back to a sum of 1.

    Returns:
        ``(..., L, L)``: row i says what share of output i came from each input; rows sum to 1. A query that may see
        nothing keeps to itself. In float32 at least.

    Raises:
        TypeError: no floating-point tensors, or no sequence of them.
        ValueError: no layers, shapes that do not fit, or an unknown way with heads.

    Example:
        >>> one = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])  # (H, L, L); with half of itself: 1, 0 and 1/4, 3/4
        >>> rollout([one, one])  # the second row: 1/4 + 3/4 * 1/4, and 3/4 * 3/4
        tensor([[1.0000, 0.0000],
                [0.4375, 0.5625]])

    Source: Abnar and Zuidema, "Quantifying Attention Flow in Transformers", 2020 (arXiv:2005.00928), section 3.
    """
    check.one_of("heads", heads, FUSIONS)
    matrices = checked_layers("layers", layers)
    for i, x in enumerate(matrices):
        if x.shape[:-3] + x.shape[-2:] != matrices[0].shape[:-3] + matrices[0].shape[-2:]:
            raise ValueError(
                "layers must agree in all dims but H, got shapes "
                f"{check.shape(matrices[0])} and, of layers[{i}], {check.shape(x)}"
            )
    flow: Tensor | None = None
    for x in matrices:
        step = _mixed(at_least_float32(x), heads)
        flow = step if flow is None else step @ flow  # later layers on the left: they act on what earlier ones made
    assert flow is not None
    return flow


def checked_layers(name: str, layers: object) -> list[Tensor]:
    """Refuse what is no sequence of square weights ``(..., H, L, L)``, on one device."""
    if isinstance(layers, Tensor) and layers.dim() < 5:
        raise TypeError(f"{name} must be a sequence of tensors (..., H, L, L), one a layer, got one Tensor")
    if not isinstance(layers, (Sequence, Tensor)) or isinstance(layers, (str, bytes)):
        raise TypeError(
            f"{name} must be a sequence of tensors (..., H, L, L), one a layer, got {type(layers).__name__}"
        )
    if not len(layers):
        raise ValueError(f"{name} must hold at least one layer, got none")
    found = [square(f"{name}[{i}]", x) for i, x in enumerate(layers)]
    if len({x.device for x in found}) > 1:
        raise ValueError(f"{name} must be on one device, got {sorted({str(x.device) for x in found})}")
    return found


def square(name: str, x: object) -> Tensor:
    """Refuse what is no ``(..., H, L, L)``."""
    weights = check.floating(name, x)
    check.min_rank(name, weights, 3, "(..., H, L, L)")
    if weights.shape[-1] != weights.shape[-2]:
        raise ValueError(
            f"{name} must be self-attention's, (..., H, L, L), got shape {check.shape(weights)}; where a cache was in "
            "use, run the whole text at once"
        )
    if weights.shape[-3] == 0:
        raise ValueError(f"{name} must have at least one head, got shape {check.shape(weights)}")
    return weights


def _mixed(weights: Tensor, heads: str) -> Tensor:
    """A layer's attention and residual in one matrix: ``(..., H, L, L)`` to ``(..., L, L)``."""
    fused = weights.mean(-3) if heads == "mean" else weights.amax(-3) if heads == "max" else weights.amin(-3)
    itself = torch.eye(fused.shape[-1], dtype=fused.dtype, device=fused.device)
    total = fused.sum(-1, keepdim=True)
    if heads != "mean":  # the rows of a mean sum to 1 by themselves
        fused = fused / total.masked_fill(total == 0, 1.0)
    return (torch.where(total == 0, itself, fused) + itself) / 2
