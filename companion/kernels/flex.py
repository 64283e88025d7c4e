"""FlexAttention: the rule itself goes into the kernel, which is compiled for it and skips blocks that nobody sees.

A ``Mask`` needs no table here, and most of its blocks no look. The price is a compilation of some seconds for each kind
of rule, dtype and number of heads; other lengths reuse it.
"""

from __future__ import annotations

import os
import shutil
import sys
import types
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from companion.call import Call
from companion.kernels.flex_mask import BLOCK, block_mask, parts, score_mod
from companion.kernels.guard import guarded
from companion.mask import Mask

__all__: list[str] = []


def run(call: Call) -> Tensor:
    """Serve a checked call: ``(B, H, L, E)``."""
    return _guarded(call)


def why_not(device: torch.device, call: Call | None) -> str | None:
    """Why FlexAttention cannot work on this device or, given a call, serve it; ``None`` if it can."""
    if device.type not in ("cpu", "cuda"):
        return f"flex runs on CUDA and the CPU only, not on {device}."
    if device.type == "cuda" and not torch.cuda.is_available():
        return "flex needs a CUDA device, and PyTorch finds none here."
    if device.type == "cpu" and torch.compiler.is_compiling():
        return "flex on a CPU compiles by itself: PyTorch cannot put it into a larger kernel of torch.compile."
    if device.type == "cpu" and _cpp_compiler() is None:
        return "flex compiles its kernel, for which a CPU needs a C++ compiler (g++, clang++ or what CXX names)."
    return None if call is None else _refuses(call)


def refusal(call: Call) -> str | None:
    """Why FlexAttention cannot serve a call, the device included."""
    return why_not(call.device, None) or _refuses(call)


def _refuses(call: Call) -> str | None:
    if call.dropout_p:
        return f"flex has no dropout, got dropout_p={call.dropout_p}."
    if call.query.dtype is torch.float64:
        return "flex takes float32, float16 and bfloat16, got torch.float64."
    if call.bias is not None and call.bias.requires_grad and torch.is_grad_enabled():
        return "flex gives the bias no gradient, and bias.requires_grad is True."
    inputs = (call.query, call.key, call.value)
    if call.device.type == "cpu" and torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return "flex has no backward on a CPU, and an input requires a gradient; call it under torch.no_grad()."
    if isinstance(call.mask, Mask) and not _traces(call.mask, call):
        return f"flex traces the predicate of {call.mask.name}, which has to be made of tensor operations alone."
    return None


@guarded
def _guarded(call: Call) -> Tensor:
    query, key, value = call.query, call.key, call.value
    if not torch.is_grad_enabled():  # FlexAttention looks at the tensors only
        query, key, value = query.detach(), key.detach(), value.detach()
    given = (query, key, value, score_mod(call), block_mask(call), call.scale, call.num_heads != key.shape[1])
    return _flex(*given) if torch.compiler.is_compiling() else _compiled(call, given)


# --- What is compiled, and how often ---


def _flex(*given: Any) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    output = flex_attention(*given)
    assert isinstance(output, Tensor)
    return output


@cache
def _compiler(kind: tuple[Any, ...], dynamic: bool | None = None) -> Callable[..., Tensor]:
    """A compiled FlexAttention for one kind of call.

    ``torch.compile`` counts the variants of a function by its code, and gives up after a few. So each kind gets code
    of its own, in which only lengths change; from the second length on they are symbols.
    """
    code = _flex.__code__.replace(co_name=f"flex_{abs(hash(kind))}")
    function: Callable[..., Tensor] = types.FunctionType(code, globals())
    return torch.compile(function, fullgraph=True, dynamic=dynamic)


_FIXED: set[tuple[Any, ...]] = set()
"""Kinds that compile for one length at a time."""


def _compiled(call: Call, given: tuple[Any, ...]) -> Tensor:
    kind = _kind(call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own, about itself
        if kind not in _FIXED:
            try:
                return _compiler(kind)(*given)
            except Exception:  # PyTorch 2.13 on a CPU: where symbols are many, the C++ it writes mixes up their names
                if call.device.type != "cpu":
                    raise
                _FIXED.add(kind)
        try:
            return _compiler((*kind, call.query.shape[0], *call.lengths), False)(*given)
        except Exception as error:
            raise ValueError(
                f"flex cannot compile {call.mask}: {type(error).__name__}: {_first_line(error)}"
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _kind(call: Call) -> tuple[Any, ...]:
    """What a compiled kernel holds fixed: all but the lengths and the batch, and whether those are 0 or 1."""
    (batch, heads, length, width), keys = call.query.shape, call.key.shape[2]
    sizes = (heads, call.key.shape[1], width, call.value.shape[-1], batch == 1, length == 1, keys == 1)
    kind = (call.device, call.query.dtype, torch.is_grad_enabled(), *sizes)
    if call.mask is None and call.bias is None and not call.causal:
        return kind
    mask = parts(call.mask).code if isinstance(call.mask, Mask) else call.mask is not None
    blocks, shift = (length <= BLOCK, keys <= BLOCK), keys - length
    return (*kind, mask, call.causal, None if call.bias is None else call.bias.dtype, *blocks, min(abs(shift), 2))


# --- What is here ---


def _cpp_compiler() -> str | None:
    """Where PyTorch's compiler would find its own compiler, by the same names and without importing it."""
    windows, mac = sys.platform == "win32", sys.platform == "darwin"
    return shutil.which(os.environ.get("CXX") or ("cl" if windows else "clang++" if mac else "g++"))


_TRACES: WeakKeyDictionary[Mask, bool] = WeakKeyDictionary()


def _traces(mask: Mask, call: Call) -> bool:
    """Whether a rule can be asked about one pair at a time, in symbols."""
    if torch.compiler.is_compiling() or parts(mask).tensors is not None:  # those of this package can
        return True
    if mask not in _TRACES:
        from torch.nn.attention.flex_attention import create_mask

        rule = mask.rule(call.query.shape[0], *call.lengths, call.device)
        try:
            answer = create_mask(lambda b, h, q, k: rule(b, h, q, k), 1, 1, 2, 2, device=str(call.device))
            _TRACES[mask] = answer.shape == (1, 1, 2, 2)
        except Exception:  # whatever a predicate may do
            _TRACES[mask] = False
    return _TRACES[mask]
