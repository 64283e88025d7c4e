"""PyTorch's fused kernels, brought to this package's contract.

``F.scaled_dot_product_attention`` aligns ``is_causal`` to the first key, may give NaN to a query that sees nothing, and
lets a NaN in a hidden value into every row. What stands around the call here mends that, without waiting for a GPU and,
where it can be avoided, without an ``L x S`` tensor.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from companion.call import Call
from companion.kernels.guard import guarded, is_nothing

KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def runner(name: str) -> Callable[[Call], Tensor]:
    """The function that runs a call on one kernel alone."""
    return guarded(lambda call: _served(call, KERNELS[name]))


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


@guarded
def run(call: Call) -> Tensor:
    """Serve a checked call by PyTorch's fastest kernel: ``(B, H, L, E)``."""
    return _served(call, None)


def needs_table(call: Call) -> bool:
    """Whether causality cannot be told by a flag: more than one query, and fewer than half as many as keys."""
    length, keys = call.lengths
    return length > 1 and 2 * length < keys


def is_fused(call: Call) -> bool:
    """Whether PyTorch has a kernel for it that holds no scores; on CUDA taken for granted."""
    return not call.query.is_cpu or _cpu_flash_refuses(call) is None


def picked(call: Call) -> str:
    """The kernel that PyTorch picks."""
    if is_nothing(call):
        return "math"
    call = _packed(call)
    plan = _plan(call)
    given: tuple[Any, ...] = (plan.query, call.key, call.value, plan.mask, call.dropout_p, plan.is_causal)
    grouped = call.num_heads != call.key.shape[1]
    number = torch._fused_sdp_choice(*given, scale=call.scale, enable_gqa=grouped)
    return {kernel.value: name for name, kernel in KERNELS.items()}.get(number, "math")


def _served(call: Call, kernel: SDPBackend | None) -> Tensor:
    call = _packed(call)
    plan = _plan(call)
    output = _kernel(call, plan, kernel)
    return output if plan.finish is None else plan.finish(output)


def _packed(call: Call) -> Call:
    """Fused kernels want the features of a position side by side."""
    if call.query.stride(-1) == call.key.stride(-1) == call.value.stride(-1) == 1:
        return call
    query, key, value = (x.clone(memory_format=torch.contiguous_format) for x in (call.query, call.key, call.value))
    return replace(call, query=query, key=key, value=value)


class _Plan(NamedTuple):
    """What is handed to PyTorch, and what is done to its answer."""

    query: Tensor
    mask: Tensor | None
    is_causal: bool
    finish: Callable[[Tensor], Tensor] | None = None


def _plan(call: Call) -> _Plan:
    if call.mask is None and call.bias is None:
        plan = _causal_plan(call) if call.causal else _Plan(call.query, None, False)
        if plan is not None:
            return plan
    return _masked_plan(call)


def _causal_plan(call: Call) -> _Plan | None:
    """Causal and nothing else, aligned to the last key, by ``is_causal``, which is aligned to the first."""
    query, (length, keys) = call.query, call.lengths
    if length == keys:
        return _Plan(query, None, True)
    if length == 1:
        return _Plan(query, None, False)  # the last query sees every key
    if length > keys:  # the first L − S queries see nothing; the rest are square
        return _Plan(query[:, :, length - keys :], None, True, lambda tail: F.pad(tail, (0, 0, length - keys, 0)))
    if not needs_table(call):  # fill up to a square with queries whose answers are dropped: as much work, no L x S mask
        square = F.pad(query, (0, 0, keys - length, 0))
        return _Plan(square, None, True, lambda output: output[:, :, keys - length :])
    return None


def _masked_plan(call: Call) -> _Plan:
    allowed, bias = call.allowed(), call.bias
    if bias is not None:
        seen = bias.detach() != -math.inf
        allowed = seen if allowed is None else allowed & seen
    assert allowed is not None  # there is a mask, a bias, or causality that no flag can tell
    # An empty row is NaN in some kernels, forward or backward. So it may see everything, and its answer is dropped.
    empty = ~allowed.any(-1, keepdim=True)
    mask = allowed | empty
    if bias is not None:
        mask = _kernel_bias(call, bias.masked_fill(empty, 0.0).masked_fill(~mask, -math.inf))
    if call.device.type != "cpu":  # elsewhere the fused kernels want all four dims in full
        mask = mask.expand(*call.query.shape[:2], *call.lengths)
    return _Plan(call.query, mask, False, lambda output: output.masked_fill(empty, 0.0))


def _kernel_bias(call: Call, bias: Tensor) -> Tensor:
    """The bias in a dtype that the kernels take, without losing digits that matter.

    On a CPU float32 goes with half precision. On CUDA it has to be rounded; softmax ignores a shift, so the largest of
    each row is brought to 0 first, near which half precision is finest.
    """
    dtype = call.query.dtype
    if dtype not in (torch.float16, torch.bfloat16) or bias.dtype == dtype:
        return bias.to(dtype)
    if call.device.type == "cpu":
        return bias.float()
    largest = bias.detach().amax(-1, keepdim=True)
    return (bias - largest).to(dtype)


def _kernel(call: Call, plan: _Plan, kernel: SDPBackend | None) -> Tensor:
    query, scale = plan.query, call.scale
    if scale <= 0:  # the kernels take it for positive: what causality hides, minus infinity, would be turned about
        query, scale = (query * 0.0, 1.0) if scale == 0 else (-query, -scale)
    options: dict[str, Any] = {"dropout_p": call.dropout_p, "is_causal": plan.is_causal, "scale": scale}
    if call.num_heads != call.key.shape[1]:  # torch.compile with dynamic shapes refuses a symbol for the flag
        options["enable_gqa"] = True
    with nullcontext() if kernel is None else sdpa_kernel(kernel):
        return F.scaled_dot_product_attention(query, call.key, call.value, plan.mask, **options)


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
    if is_nothing(call):
        return None
    call = _packed(call)
    plan = _plan(call)
    grouped = call.num_heads != call.key.shape[1]
    mask = None if plan.mask is None else plan.mask.expand(*call.query.shape[:2], *call.lengths)
    parameters = cuda.SDPAParams(plan.query, call.key, call.value, mask, call.dropout_p, plan.is_causal, grouped)
    if test(parameters, False):
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        test(parameters, True)
    reasons = " ".join(str(warning.message).split(" (Triggered")[0].strip() for warning in caught)
    return reasons or f"PyTorch's {name} kernel refuses this call, and does not say why."
