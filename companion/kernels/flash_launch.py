"""How the flash kernels are started: how many programs, on which blocks, with which numbers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from companion.kernels.flash_tiles import padded, tiles

__all__: list[str] = []

# In the interpreter a step takes as long for a small block as for a large one.
INTERPRETED = {"BLOCK_L": 64, "BLOCK_S": 64}

Numbers = tuple[int | None, int | None, float]
"""``before``, ``after`` (None for no limit) and the scale."""


def forward(
    query: Tensor, key: Tensor, value: Tensor, lengths: Tensor | None, numbers: Numbers
) -> tuple[Tensor, Tensor]:
    """Output ``(B, H, L, E)`` and log-sum-exp ``(B, H, L)``, float32."""
    query, key, value = map(_features_adjacent, (query, key, value))
    output = query.new_empty(*query.shape[:3], value.shape[3])
    logsumexp = query.new_empty(query.shape[:3], dtype=torch.float32)
    _start("forward", (query, key, value), (output, logsumexp, lengths), numbers)
    return output, logsumexp


def backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Tensor | None,
    numbers: Numbers,
    saved: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, G, S, D)``.
        value: ``(B, G, S, E)``.
        lengths: ``(B,)``.
        numbers: as for the forward.
        saved: what the forward returned.
        grads: the gradient of each.
    """
    query, key, value, grad_output = map(_features_adjacent, (query, key, value, grads[0]))
    output, logsumexp, grad_logsumexp = (x.contiguous() for x in (*saved, grads[1]))
    grad_query, grad_key, grad_value = (x.new_empty(x.shape) for x in (query, key, value))
    delta = torch.empty_like(logsumexp)
    strided = (query, key, value, grad_output)
    _start("query", strided, (output, logsumexp, lengths, grad_logsumexp, grad_query, delta), numbers)
    _start("key", strided, (logsumexp, lengths, delta, grad_key, grad_value), numbers)
    return grad_query, grad_key, grad_value


def is_interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels. It asks for ``TRITON_INTERPRET`` when triton is imported."""
    from triton import language

    # Triton's own functions too: imported before the variable was set, they cannot be interpreted.
    functions = (language.max, _kernels()["forward"])
    return all(type(function).__name__ == "InterpretedFunction" for function in functions)


@cache
def _kernels() -> dict[str, Any]:
    from companion.kernels import flash_backward, flash_forward

    return {
        "forward": flash_forward.forward_kernel,
        "query": flash_backward.query_kernel,
        "key": flash_backward.key_kernel,
    }


def _start(name: str, strided: tuple[Tensor, ...], tensors: tuple[Tensor | None, ...], numbers: Numbers) -> None:
    """Run a kernel over all blocks of all heads."""
    query, _, value = strided[:3]
    (batch, heads, length, width), (_, groups, keys, value_width) = query.shape, value.shape
    everything = length + keys  # farther than any key can lie
    before, after, scale = numbers
    reach = [everything if limit is None else min(limit, everything) for limit in (before, after)]
    strides = [step for x in strided for step in x.stride()[:3]]
    interpreted = is_interpreted()
    options: dict[str, Any] = {
        "D": width,
        "E": value_width,
        "BLOCK_D": padded(width),
        "BLOCK_E": padded(value_width),
        "CAUSAL": after is not None,
        "INTERPRETED": interpreted,
    }
    kernel = _kernels()[name] if interpreted else _tuned(name, query, value)

    def programs(meta: dict[str, Any]) -> tuple[int]:
        size, count, copies = (keys, meta["BLOCK_S"], groups) if name == "key" else (length, meta["BLOCK_L"], heads)
        return (-(-size // count) * copies * batch,)

    with _on(query.device):
        kernel[programs](
            *strided, *tensors, *strides, heads, groups, length, keys, *reach, scale,
            **options, **(INTERPRETED if interpreted else {}),
        )  # fmt: skip


def _tuned(name: str, query: Tensor, value: Tensor) -> Any:
    """The kernel, with its block sizes to be found on this GPU."""
    # What is fastest on a few tokens is not on many, so a small first call must not choose for all.
    long = query.shape[2] > 1024
    device = query.device
    return _tuner(name, query.shape[3], value.shape[3], query.dtype, capability(device), shared_memory(device), long)


@cache
def _tuner(
    name: str, D: int, E: int, dtype: torch.dtype, capability: tuple[int, int], shared_memory: int, long: bool
) -> Any:
    import triton

    tensor_cores = dtype is not torch.float32 and capability >= (8, 0)
    some = tiles(name, D, E, dtype.itemsize, tensor_cores=tensor_cores, shared_memory=shared_memory)
    configs = [
        triton.Config(
            {"BLOCK_L": tile.BLOCK_L, "BLOCK_S": tile.BLOCK_S}, num_warps=tile.num_warps, num_stages=tile.num_stages
        )
        for tile in some
    ]
    return triton.autotune(configs, key=["CAUSAL"])(_kernels()[name])


def capability(device: torch.device) -> tuple[int, int]:
    """The generation of a GPU: 7.5 is Turing, 8.0 Ampere, 9.0 Hopper."""
    return torch.cuda.get_device_capability(device)


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a program may have."""
    from triton.runtime import driver

    index = torch.cuda.current_device() if device.index is None else device.index
    return int(driver.active.utils.get_device_properties(index)["max_shared_mem"])


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton starts kernels on the current GPU, wherever the tensors are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _features_adjacent(x: Tensor) -> Tensor:
    """The kernels read the features of a position side by side; all else may lie as it likes."""
    return x if x.stride(-1) == 1 else x.contiguous()
