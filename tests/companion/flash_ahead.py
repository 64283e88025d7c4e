"""Compile the flash kernels for GPUs that are not here, by the very calls that would start them there.

``TRITON_INTERPRET=0 python -m tests.companion.flash_ahead [GENERATION:DTYPE:D[:HOW] ...]``, such as
``75:float16:64:few,ones``; without arguments all tiles, for every GPU below. Prints a line of JSON for each kernel and
tile: what was compiled, how it multiplies, and the shared memory it asks for.

What may stand for ``HOW``: ``few`` (the smallest tile only), ``plain`` (no mask), ``ones`` (all sizes 1, which Triton
treats apart), ``strange`` (expanded, not aligned).
"""

import itertools
import json
import sys
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from companion.kernels import flash_launch, flash_tiles

# What one program may have, in bytes: T4, A100, RTX 3090, RTX 4090, H100, B200, RTX 5090
SHARED_MEMORY = {75: 65536, 80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TILE = flash_tiles.Tile._fields


class Absent:
    """Answers what Triton asks of a GPU before it starts a kernel."""

    generation = 80

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.generation, 32)

    def get_current_device(self) -> int:
        return self.generation  # compiled kernels are kept by device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        def once(call: Any, quantiles: Any) -> list[float]:
            call()
            return [1.0, 1.0, 1.0]

        return once


gpu, compiled = Absent(), {}
driver.set_active(gpu)
run, all_tiles = JITFunction.run, flash_tiles.tiles


def only_compile(function: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
    kernel = run(function, *args, grid=grid, warmup=True, **options)
    compiled[kernel.metadata.name, *(options[field] for field in TILE)] = kernel
    return kernel


JITFunction.run = only_compile
flash_launch.capability = lambda device: divmod(gpu.generation, 10)
flash_launch.shared_memory = lambda device: SHARED_MEMORY[gpu.generation]


def ahead(generation: int, dtype: torch.dtype, D: int, how: list[str]) -> None:
    """Forward and backward, as on that GPU."""
    gpu.generation = generation
    batch, heads, groups, length, keys = (1, 1, 1, 1, 1) if "ones" in how else (2, 4, 2, 40, 70)
    q = torch.zeros(batch, heads, length, D, dtype=dtype)
    k = v = torch.zeros(batch, groups, keys, D, dtype=dtype)
    if "strange" in how:
        q = torch.zeros(q.numel() + 1, dtype=dtype)[1:].view(batch, length, heads, D).transpose(1, 2)
        k = k[:, :1].expand_as(k)
    plain = "plain" in how
    lengths, numbers = (None, (None, None, 1.0)) if plain else (torch.ones(batch, dtype=torch.long), (5, 0, 1.0))
    flash_launch.tiles = lambda *args, **given: all_tiles(*args, **given)[-1 if "few" in how else 0 :]
    flash_launch._tuner.cache_clear()
    saved = flash_launch.forward(q, k, v, lengths, numbers)
    flash_launch.backward(q, k, v, lengths, numbers, saved, (saved[0][..., :1, :].expand_as(saved[0]), saved[1]))


def report(wanted: str) -> None:
    for (name, *tile), kernel in compiled.items():
        code = kernel.asm["ptx"]
        multiply = [word for word in ("tcgen05.mma", "wgmma.mma", "mma.sync") if word in code]
        line = {
            "wanted": wanted,
            "generation": gpu.generation,
            "kernel": name,
            "tile": tile,
            "shared": kernel.metadata.shared,
            "room": SHARED_MEMORY[gpu.generation],
            "multiply": multiply[0] if multiply else "fma",
            "tf32": "tf32" in code,
        }
        print(json.dumps(line), flush=True)
    compiled.clear()


def everything() -> list[str]:
    some = itertools.product(SHARED_MEMORY, DTYPES, (64, 128, 256))
    refused = {(75, "float32", 256), *((75, "bfloat16", D) for D in (64, 128, 256))}  # why_not says so
    return [":".join(map(str, each)) for each in some if each not in refused]


for wanted in sys.argv[1:] or everything():
    generation, dtype, D, how = (*wanted.split(":"), "")[:4]
    ahead(int(generation), DTYPES[dtype], int(D), how.split(","))
    report(wanted)
