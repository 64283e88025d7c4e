"""PyTorch's fused kernels, brought to this package's contract.

``F.scaled_dot_product_attention`` aligns ``is_causal`` to the first key, may give NaN to a query that sees nothing, and
lets a NaN in a hidden value into every row. What stands around the call here mends that, without waiting for a GPU and,
where it can be avoided, without an ``L x S`` tensor.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from companion.attention import reference
from companion.call import Call

KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def runner(name: str) -> Callable[[Call], Tensor]:
    """The function that runs a call on one kernel alone."""
    return lambda call: run(call, KERNELS[name])


def refuser(name: str) -> Callable[[torch.device, Call | None], str | None]:
    """The function that says why a kernel cannot serve."""

    def why_not(device: torch.device, call: Call | None) -> str | None:
        if name == "math":
            return None
        if device.type == "cpu":
            if name != "flash":
                return f"{name} runs on NVIDIA GPUs only, not on {device}."
            return None if call is None else _cpu_flash_refuses(call)
        if device.type != "cuda":
            return f"{name} runs on CUDA{' and the CPU' if name == 'flash' else ''} only, not on {device}."
        if not torch.cuda.is_available():
            return f"{name} needs a CUDA device, and PyTorch finds none here."
        return None if call is None else _cuda_refuses(name, call)

    return why_not


def run(call: Call, kernel: SDPBackend | None = None) -> Tensor:
    """Serve a checked call; without ``kernel``, PyTorch picks its fastest.

    Returns:
        ``(B, H, L, E)``.
    """
    if call.query.numel() == 0 or call.value.numel() == 0:
        return reference(call).output  # nothing to compute, and kernels differ on what nothing is
    call, broken = _guard(call)
    output = _unaligned_causal(call, kernel) if _is_plain_causal(call) else _masked(call, kernel)
    return output if broken is None else output.masked_fill(broken.unsqueeze(-1), math.nan)


def _guard(call: Call) -> tuple[Call, Tensor | None]:
    """On a CPU, keep NaN and infinity from the rows that may not see them; one sum finds out whether there are any."""
    if call.device.type != "cpu":
        return call, None
    if not torch.compiler.is_compiling():
        total = sum(x.detach().sum(dtype=_sum_dtype(x)) for x in (call.query, call.key, call.value))
        if math.isfinite(float(total)):
            return call, None
    return call.without_broken_keys()


def _sum_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _is_plain_causal(call: Call) -> bool:
    return call.causal and call.mask is None and call.bias is None


def _unaligned_causal(call: Call, kernel: SDPBackend | None) -> Tensor:
    """Causal and nothing else, aligned to the last key, by ``is_causal``, which is aligned to the first."""
    length, keys = call.lengths
    if length == keys:
        return _kernel(call, None, True, kernel)
    if length == 1:
        return _kernel(call, None, False, kernel)  # the last query sees every key
    if length > keys:  # the first L − S queries see nothing; the rest are square
        tail = _kernel(replace(call, query=call.query[:, :, length - keys :]), None, True, kernel)
        return F.pad(tail, (0, 0, length - keys, 0))
    if 2 * length >= keys:  # fill up to a square with queries whose answers are dropped: as much work, no L x S mask
        square = replace(call, query=F.pad(call.query, (0, 0, keys - length, 0)))
        return _kernel(square, None, True, kernel)[:, :, keys - length :]
    return _masked(call, kernel)


def _masked(call: Call, kernel: SDPBackend | None) -> Tensor:
    allowed = call.allowed()
    if allowed is None:
        return _kernel(call, call.bias, False, kernel)
    # An empty row is NaN in some kernels, forward or backward. So it may see everything, and its answer is dropped.
    empty = ~allowed.any(-1, keepdim=True)
    allowed = allowed | empty
    if call.bias is None:
        return _kernel(call, allowed, False, kernel).masked_fill(empty, 0.0)
    return _kernel(call, call.bias.masked_fill(~allowed, -math.inf), False, kernel).masked_fill(empty, 0.0)


def _kernel(call: Call, mask: Tensor | None, is_causal: bool, kernel: SDPBackend | None) -> Tensor:
    (batch, heads), (length, keys) = call.query.shape[:2], call.lengths
    if mask is not None:
        mask = mask.expand(batch, heads, length, keys)
        if mask.is_floating_point():
            mask = mask.to(call.query.dtype)
    options: dict[str, Any] = {"dropout_p": call.dropout_p, "is_causal": is_causal, "scale": call.scale}
    if heads != call.key.shape[1]:
        options["enable_gqa"] = True
    if kernel is None:
        return F.scaled_dot_product_attention(call.query, call.key, call.value, mask, **options)
    with sdpa_kernel(kernel):
        return F.scaled_dot_product_attention(call.query, call.key, call.value, mask, **options)


def _cpu_flash_refuses(call: Call) -> str | None:
    width, value_width = call.query.shape[-1], call.value.shape[-1]
    if width != value_width:
        return f"flash on a CPU needs values as wide as the keys, got E={value_width} and D={width}."
    if call.dropout_p:
        return f"flash on a CPU has no dropout, got dropout_p={call.dropout_p}."
    if call.bias is not None and call.bias.requires_grad:
        return "flash on a CPU gives the bias no gradient, and bias.requires_grad is True."
    return None


def _cuda_refuses(name: str, call: Call) -> str | None:
    """PyTorch's own reasons, which it prints as warnings."""
    cuda: Any = torch.backends.cuda
    test = getattr(cuda, f"can_use_{name}_attention")
    mask = None
    causal = call.causal
    if not _is_plain_causal(call):
        causal, allowed = False, call.allowed()
        mask = call.bias if call.bias is not None else allowed
        if mask is not None:
            mask = mask.expand(*call.query.shape[:2], *call.lengths)
    grouped = call.num_heads != call.key.shape[1]
    parameters = cuda.SDPAParams(call.query, call.key, call.value, mask, call.dropout_p, causal, grouped)
    if test(parameters, False):
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        test(parameters, True)
    reasons = " ".join(str(warning.message).split(" (Triggered")[0].strip() for warning in caught)
    return reasons or f"PyTorch's {name} kernel refuses this call, and does not say why."
