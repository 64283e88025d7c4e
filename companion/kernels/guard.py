"""What every fast backend needs around it: nothing in, nothing broken spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import wraps

import torch
from torch import Tensor

from companion.attention import reference
from companion.call import Call

__all__: list[str] = []


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
    """On a CPU, keep NaN and infinity from the rows that may not see them; one sum finds out whether there are any."""
    if call.device.type != "cpu":
        return call, None
    if not torch.compiler.is_compiling():
        total = sum(x.detach().sum(dtype=_sum_dtype(x)) for x in (call.query, call.key, call.value))
        with suppress(RuntimeError):  # under vmap a number cannot be read
            if math.isfinite(float(total)):
                return call, None
    return call.without_broken_keys()


def _sum_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32
