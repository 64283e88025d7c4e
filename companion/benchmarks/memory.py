"""The most memory that a call holds at once, beside what was there before it.

On CUDA PyTorch counts what it hands out. On a CPU it does not, and a profiler sees only what passes through PyTorch's
allocator. So the call is made once in a process of its own, and the operating system says how large that grew: the
peak of its resident memory above what it was with the inputs in place, after a small call that has loaded what there
is to load. The process gives freed blocks back at once, so that what is counted is what was in use.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from companion.benchmarks.settings import NotHereError, Settings, Sizes, dtype_name
from companion.benchmarks.subjects import find, forward, forward_backward, need

__all__: list[str] = []

Run = Callable[[], object]

_WARM_UP = 64  # positions
_TIMEOUT = 600


@dataclass(frozen=True)
class Order:
    """What another process is asked to measure."""

    who: str
    length: int
    backward: bool
    causal: bool
    heads: int
    width: int
    window: int
    dtype: str

    def settings(self) -> Settings:
        """On a CPU, with these sizes."""
        sizes = Sizes(heads=self.heads, width=self.width, window=self.window)
        return Settings(dtype=getattr(torch, self.dtype), sizes=sizes)


def peak(settings: Settings, who: str, length: int, *, backward: bool, causal: bool = False) -> int:
    """Bytes that a subject takes at most, at one length.

    Raises:
        NotHereError: it cannot be run, or memory cannot be told here.
    """
    sizes = settings.sizes
    order = Order(who, length, backward, causal, sizes.heads, sizes.width, sizes.window, dtype_name(settings.dtype))
    if settings.device.type == "cuda":
        return _on_cuda(partial(run_of, order, settings), settings.device)
    return _in_a_process(order)


def run_of(order: Order, settings: Settings, length: int | None = None) -> Run:
    """What is measured, with its inputs in place."""
    subject = find(order.who, settings)
    inputs = settings.qkv(length or order.length, grad=order.backward)
    kind, _, name = order.who.partition(":")
    if kind == "backend":
        need(name, inputs, order.causal)
    way = forward_backward if order.backward else forward
    return way(partial(subject, causal=True) if order.causal else subject, inputs)


def _on_cuda(make: Callable[[], Run], device: torch.device) -> int:
    run = make()
    run()  # what is compiled or tuned takes memory once
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _in_a_process(order: Order) -> int:
    command = [sys.executable, "-m", "companion.benchmarks.memory", json.dumps(order.__dict__)]
    # Else glibc keeps freed blocks of up to 32 MB, and the process looks larger than what it uses.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise NotHereError(f"memory at n = {order.length:,} was not known after {_TIMEOUT} seconds.") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise NotHereError(last.removeprefix("NotHereError: "))
    return int(done.stdout.split()[-1])


def measure(order: Order) -> int:
    """In this process, which should be a fresh one: bytes."""
    settings = order.settings()
    run_of(order, settings, _WARM_UP)()
    run = run_of(order, settings)
    if _forget_peak():
        before = _status("VmRSS")
        run()
        return max(0, _status("VmHWM") - before)
    before = _largest_so_far()
    run()
    return max(0, _largest_so_far() - before)


def _forget_peak() -> bool:
    """Let Linux count the peak anew; False where it does not."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise NotHereError(f"this system's /proc/self/status says nothing of {name}.")


def _largest_so_far() -> int:
    """Bytes; also where there is no /proc, though then the peak of what was before cannot be forgotten."""
    try:
        import resource
    except ImportError:
        raise NotHereError("this system does not say how much memory a process took at most.") from None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def main() -> None:
    """Measure what the command line orders, and print the bytes."""
    try:
        print(measure(Order(**json.loads(sys.argv[1]))))
    except NotHereError as reason:
        sys.exit(f"NotHereError: {reason}")


if __name__ == "__main__":
    main()
