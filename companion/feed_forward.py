r"""The half of a block that looks at no other position: widen, bend, narrow."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from companion import check
from companion.typing import Float

__all__ = ["FeedForward"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),  # GPT-2's
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    r"""Two projections with a non-linearity between, the same at each position.

    .. math::

       \text{relu, gelu:}\quad \sigma(x W_1)\, W_2 \qquad\qquad
       \text{swiglu:}\quad \bigl(\operatorname{silu}(x W_1) \circ x W_3\bigr)\, W_2

    Args:
        d_model: ``M``.
        d_ff: the width between; ``4 * d_model`` if not given, and two thirds of it for ``"swiglu"``, whose third
            matrix then costs nothing extra.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"`` (GPT-2's approximation) or ``"swiglu"``.
        bias: let the projections have a bias.
        dropout: the probability with which a feature between the projections is dropped, in training only.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a number out of range, or an unknown activation.

    Example:
        >>> import torch
        >>> FeedForward(4, d_ff=8)(torch.zeros(2, 3, 4)).shape
        torch.Size([2, 3, 4])

    Source: Vaswani et al., 2017 (arXiv:1706.03762), section 3.3; Shazeer, "GLU Variants Improve Transformer", 2020
    (arXiv:2002.05202).
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        activation: str = "relu",
        *,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.d_model = check.integer("d_model", d_model)
        self.activation = check.one_of("activation", activation, tuple(ACTIVATIONS))
        gated = activation == "swiglu"
        self.d_ff = (8 * d_model // 3 if gated else 4 * d_model) if d_ff is None else check.integer("d_ff", d_ff)
        check.flag("bias", bias)
        self.W_1 = nn.Linear(d_model, self.d_ff, bias=bias)
        self.W_3 = nn.Linear(d_model, self.d_ff, bias=bias) if gated else None
        self.W_2 = nn.Linear(self.d_ff, d_model, bias=bias)
        self.dropout = nn.Dropout(check.probability("dropout", dropout))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform projections, biases zero."""
        for projection in (self.W_1, self.W_2, self.W_3):
            if projection is not None:
                nn.init.xavier_uniform_(projection.weight)
                if projection.bias is not None:
                    nn.init.zeros_(projection.bias)

    def forward(self, x: Float[Tensor, "*batch M"]) -> Float[Tensor, "*batch M"]:
        """Think over each position by itself.

        Args:
            x: ``(..., M)``.

        Returns:
            ``(..., M)``.

        Raises:
            TypeError: ``x`` is no floating-point tensor, or has another dtype than the weights.
            ValueError: ``x`` has another width, or is elsewhere.
        """
        check.module_input("x", x, self.W_1.weight, "(..., M)")
        hidden = ACTIVATIONS[self.activation](self.W_1(x))  # (..., M) -> (..., d_ff)
        if self.W_3 is not None:
            hidden = hidden * self.W_3(x)
        return self.W_2(self.dropout(hidden))  # (..., d_ff) -> (..., M)
