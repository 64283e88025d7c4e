"""What ``attend(backend="auto")`` does: which backend serves a call, and why.

PyTorch's fused kernels are the fastest where a flag says it all: no mask, or causal. Any other rule is a table to them,
``L x S``, and on a CPU a table of floats. So a large call goes to a kernel that asks the rule instead, and a small one,
whose table is no larger than a tile, stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from companion.call import Call
from companion.kernels import chunked, flex, sdpa
from companion.mask import Mask

__all__: list[str] = []

LARGE = {"cpu": 1 << 18}
"""Pairs from which a table is more than a tile: 512 x 512 on a CPU, where tables and tiles were measured equal."""
LARGE_ELSEWHERE = 1 << 20
"""On a GPU FlexAttention has to compile first, for seconds, and its tiles are larger."""
LARGE_FOR_A_WINDOW = 1 << 16
"""Tiles outside a window cost nothing, so there they win earlier, on a CPU."""


class Choice(NamedTuple):
    """A way to serve a call; ``name`` is None where PyTorch picks one of its own kernels."""

    name: str | None
    run: Callable[[Call], Tensor]
    why: str


def _by_pytorch(why: str) -> Choice:
    return Choice(None, sdpa.run, why)


PLAIN = _by_pytorch("there is no mask.")
CAUSAL = _by_pytorch("causal is a flag to PyTorch's kernels.")
DROPOUT = _by_pytorch("only PyTorch's own kernels have dropout.")
SMALL = _by_pytorch("the table of the mask is small.")
THIN = _by_pytorch("the mask is alike for all queries, a single row.")
COMPILED = _by_pytorch("torch.compile would unroll tiles, so the mask becomes a table.")
REFUSED = _by_pytorch("no other backend takes this call.")


def run(call: Call) -> Tensor:
    """Serve a checked call by what is fastest for it: ``(B, H, L, E)``."""
    choice = choose(call)
    return choice.run(call) if choice.name is None else choice.run(_autocast(call))


def _autocast(call: Call) -> Call:
    """To the dtype of autocast, which knows PyTorch's kernels alone: a longer call must give no other dtype."""
    device = call.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return call
    dtype = torch.get_autocast_dtype(device)
    if call.query.dtype in (dtype, torch.float64):
        return call
    return replace(call, query=call.query.to(dtype), key=call.key.to(dtype), value=call.value.to(dtype))


def chosen(call: Call) -> str:
    """The name of the backend, and why it is that one."""
    choice = choose(call)
    return f"{choice.name or sdpa.picked(call)}: {choice.why}"


def choose(call: Call) -> Choice:
    """The first rule that fits."""
    if call.dropout_p:
        return DROPOUT
    flagged = call.mask is None and call.bias is None and not (call.causal and sdpa.needs_table(call))
    if flagged and sdpa.is_fused(call):
        return CAUSAL if call.causal else PLAIN
    if not _is_large(call):
        return SMALL if not flagged else CAUSAL if call.causal else PLAIN
    if _is_thin(call) and sdpa.is_fused(call):
        return THIN
    return _without_table(call)


def _without_table(call: Call) -> Choice:
    """A backend that asks the rule, block by block."""
    if _is_new_cuda(call.device) and not flex.refusal(call):
        return Choice("flex", flex.run, "the rule is compiled into a kernel, which needs no table of L x S.")
    if torch.compiler.is_compiling():
        return COMPILED
    if chunked.why_not(call.device, call):
        return REFUSED
    if _is_window(call):
        return Choice("chunked", chunked.run, "tiles outside the window cost nothing.")
    return Choice("chunked", chunked.run, "a table of L x S would be larger than a tile.")


def _is_new_cuda(device: torch.device) -> bool:
    """Ampere or later, which FlexAttention's kernels are made for."""
    return device.type == "cuda" and torch.cuda.get_device_properties(device).major >= 8


def _is_large(call: Call) -> bool:
    """Whether the table of ``L x S`` would be."""
    length, keys = call.lengths
    limit = LARGE.get(call.device.type, LARGE_ELSEWHERE)
    if call.device.type == "cpu" and _is_window(call):
        limit = LARGE_FOR_A_WINDOW + 1
    return length * keys >= limit


def _is_window(call: Call) -> bool:
    """Whether distance alone says who may attend, and leaves most pairs out."""
    if not isinstance(call.mask, Mask) or call.bias is not None:
        return False
    before, after, _, exact = call.bounds()
    if not exact or before is None or after is None:
        return False
    return bool(call.lengths[1] >= 2 * (before + after + 1))


def _is_thin(call: Call) -> bool:
    """Whether all queries may see the same keys, so that the table is ``(B, H, 1, S)``."""
    if call.causal or (call.bias is not None and call.bias.shape[2] != 1):
        return False
    if not isinstance(call.mask, Mask):
        return call.mask is None or call.mask.shape[2] == 1
    # Asked about two queries and a key, does the rule answer for one query?
    sizes = (call.query.shape[0], call.num_heads, 2, 1)
    index = (torch.arange(size, device=call.device) for size in sizes)
    b, h, q, k = (x.view([-1 if dim == axis else 1 for dim in range(4)]) for axis, x in enumerate(index))
    answer = call.mask.rule(sizes[0], *call.lengths, call.device)(b, h, q, k)
    return isinstance(answer, Tensor) and (answer.dim() < 2 or answer.shape[-2] == 1)
