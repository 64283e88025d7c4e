"""Norms: bring each position's features to one scale, so that layers can be stacked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from companion import check
from companion.typing import Float

__all__ = ["RMSNorm", "make_norm"]


class RMSNorm(nn.Module):
    r"""Divide each position's features by their root mean square, and weigh them.

    .. math:: y = \frac{x}{\sqrt{\tfrac1M \sum_c x_c^2 + \epsilon}} \circ w

    Args:
        d_model: ``M``.
        eps: keeps a row of zeros from dividing by zero.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: ``d_model`` less than 1, or ``eps`` not positive.

    Example:
        >>> RMSNorm(2)(torch.tensor([[3.0, 3.0]]))
        tensor([[1.0000, 1.0000]], grad_fn=<MulBackward0>)

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.d_model = check.integer("d_model", d_model)
        self.eps = check.positive("eps", eps)
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*batch M"]) -> Float[Tensor, "*batch M"]:
        """Normalise the last dim.

        Args:
            x: ``(..., M)``.

        Returns:
            ``(..., M)``, in the dtype of ``x``; the mean square is taken in float32 at least.

        Raises:
            TypeError: ``x`` is no floating-point tensor, or has another dtype than the weight.
            ValueError: ``x`` has another width, or is elsewhere.
        """
        check.module_input("x", x, self.weight, "(..., M)")
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (normed * self.weight).to(x.dtype)  # rounded once

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"{self.d_model}, eps={self.eps:g}"


def make_norm(norm: str, d_model: int, eps: float = 1e-5, *, bias: bool = True) -> nn.Module:
    """A norm by name.

    Args:
        norm: ``"layer"`` or ``"rms"``.
        d_model: ``M``.
        eps: keeps a constant row from dividing by zero.
        bias: let a layer norm have one; an RMS norm never has.

    Returns:
        The module.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no such norm, or a number out of range.
    """
    check.one_of("norm", norm, ("layer", "rms"))
    check.flag("bias", bias)
    if norm == "rms":
        return RMSNorm(d_model, eps)
    return nn.LayerNorm(check.integer("d_model", d_model), check.positive("eps", eps), bias=bias)
