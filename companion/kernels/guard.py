"""What every fast backend needs around it: nothing in, nothing broken spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

from companion.attention import reference
from companion.call import Call

__all__: list[str] = []

WIDE = (torch.float32, torch.float64)  # in half precision a sum may overflow


def guarded(run: Callable[[Call], Tensor]) -> Callable[[Call], Tensor]:
    """Let a kernel meet no empty tensor and, on a CPU, no NaN: ``(B, H, L, E)`` as the contract wants it."""

    @wraps(run)
    def wrapper(call: Call) -> Tensor:
        if is_nothing(call):
            return reference(call).output  # kernels differ on what nothing is
        call, broken = without_broken(call)
        output = run(call)
        return output if broken is None else output.masked_fill(broken.unsqueeze(-1), math.nan)

    return wrapper


def is_nothing(call: Call) -> bool:
    """Whether there is no query, no key or no value."""
    return call.query.numel() == 0 or call.value.numel() == 0


def without_broken(call: Call) -> tuple[Call, Tensor | None]:
    """On a CPU, keep NaN and infinity from the rows that may not see them."""
    if not call.query.is_cpu or surely_finite(call.query, call.key, call.value):
        return call, None
    return call.without_broken_keys()


def surely_finite(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether there is no NaN and no infinity; False too where a sum overflows, or cannot be read.

    The inputs are read, not the output: a key of infinity may give scores of minus infinity alone, and leave no trace.
    """
    if torch.compiler.is_compiling():
        return False
    try:
        return math.isfinite(_total(query) + _total(key) + _total(value))
    except RuntimeError:  # under vmap a number cannot be read
        return False


def _total(x: Tensor) -> float:
    x = x.detach() if x.requires_grad else x
    return (x.sum() if x.dtype in WIDE else x.sum(dtype=torch.float32)).item()
