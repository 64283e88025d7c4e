"""What has to be measured in a process of its own: memory, and the import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from companion.benchmarks import memory
from companion.benchmarks.attention_cases import WAYS
from companion.benchmarks.machine import available_memory
from companion.benchmarks.results import Row, Spread
from companion.benchmarks.settings import Job, NotHereError, Settings, number
from companion.benchmarks.subjects import PYTORCH
from companion.benchmarks.timing import exponent, spread

__all__: list[str] = []


class Contender(NamedTuple):
    """Whose memory is measured: its name in the table, as a subject, and whether linear growth was promised."""

    name: str
    who: str
    promised: bool
    holds_scores: bool = False


def of_memory(settings: Settings) -> Iterator[Job]:
    """How peak memory grows with length: chunks and windows, and beside them what keeps all scores."""
    sizes = settings.sizes
    contenders = (
        Contender('attend(backend="chunked")', "backend:chunked", True),
        Contender(f"sliding_window({sizes.window})", "window", True),
        Contender(PYTORCH, "pytorch", False),
        Contender("blocks, plain autograd", "plain blocks", False, holds_scores=True),
        Contender("explicit softmax", "naive", False, holds_scores=True),
    )
    for way, backward in WAYS.items():
        for each in contenders:
            if sizes.brief and not (backward and each.who in ("backend:chunked", "naive")):
                continue
            lengths = sizes.memory_naive_over if each.holds_scores else sizes.memory_over
            what = f"{each.name}, {way}, n = {number(lengths[0])} to {number(lengths[-1])}"
            goal = settings.goal(1.1, here=each.promised and lengths[-1] >= 16384)
            row = Row("memory", what, each.name, unit="B", measure="exponent", goal=goal)
            run = partial(_growth, settings, row, each, lengths, backward)
            yield Job("memory", what, run, goal, (each.name, ""))


def of_import(settings: Settings) -> Iterator[Job]:
    """What ``import companion`` takes beyond ``import torch``."""
    goal = settings.goal(0.1)
    row = Row("import", "import companion, after import torch", "companion", "torch", measure="seconds", goal=goal)
    yield Job("import", row.what, partial(_imports, settings, row), goal, (row.ours, row.theirs))


def _growth(settings: Settings, row: Row, each: Contender, lengths: tuple[int, ...], backward: bool) -> list[Row]:
    if each.holds_scores:
        _need_room(settings, lengths[-1])
    peaks = [memory.peak(settings, each.who, n, backward=backward) for n in lengths]
    if min(peaks) <= 0:
        raise NotHereError(f"peaks of {peaks} bytes: too small to be told from nothing.")
    power = exponent(lengths, peaks)
    points: list[tuple[float, float]] = [(n, peak) for n, peak in zip(lengths, peaks, strict=True)]
    return [replace(row, our_cost=peaks[-1], value=Spread(power, power, power, 1), series={each.name: points})]


def _need_room(settings: Settings, length: int) -> None:
    """All scores, five times over, have to fit, with room for the neighbours."""
    wanted = 5 * settings.sizes.heads * length**2 * settings.dtype.itemsize
    there = available_memory()
    if settings.device.type == "cpu" and there is not None and wanted > 0.7 * there:
        raise NotHereError(f"it might take {wanted / 2**30:.1f} GB, and {there / 2**30:.1f} GB are free.")


_CHILD = """
import time
start = time.perf_counter()
import torch
between = time.perf_counter()
import companion
print(between - start, time.perf_counter() - between)
"""


def _imports(settings: Settings, row: Row) -> list[Row]:
    pairs = [_import_once() for _ in range(settings.sizes.imports + 1)][1:]  # the first fills the disk's cache
    torch_alone, ours = ([pair[i] for pair in pairs] for i in range(2))
    value = spread(ours)
    return [replace(row, our_cost=value.median, their_cost=spread(torch_alone).median, value=value)]


def _import_once() -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True, timeout=120, check=True)
    theirs, ours = map(float, done.stdout.split())
    return theirs, ours
