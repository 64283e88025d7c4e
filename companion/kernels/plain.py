"""The commonest call, which needs nothing mended: no mask, all shapes equal, four dims, on a CPU.

What ``Call`` checks and ``guard`` and ``sdpa`` mend is in order here at a glance, so that ``attend`` on a few tokens
costs little more than PyTorch's kernel. Whatever is not plain goes the long way, which alone refuses and explains.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from companion.kernels.guard import WIDE, surely_finite

__all__: list[str] = []


def run(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None) -> Tensor | None:
    """The output ``(B, H, L, E)``, or None if the call is not plain."""
    if torch.compiler.is_compiling() or not (
        type(query) is type(key) is type(value) is Tensor
        and query.layout is key.layout is value.layout is torch.strided
        and not (query.is_nested or key.is_nested or value.is_nested)
        and query.is_cpu
        and key.is_cpu
        and value.is_cpu
        and query.dtype is key.dtype is value.dtype
        and query.dtype in WIDE
        and query.dim() == 4
        and query.shape == key.shape == value.shape
        and query.numel()
        and query.stride(3) == key.stride(3) == value.stride(3) == 1
        and (causal is False or causal is True)
        and (scale is None or (type(scale) is float and 0 < scale < torch.inf))
        and surely_finite(query, key, value)
    ):
        return None
    return F.scaled_dot_product_attention(query, key, value, None, 0.0, causal, scale=scale)
