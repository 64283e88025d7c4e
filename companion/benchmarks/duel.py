"""Two contenders and what their race says, as a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch

from companion.benchmarks.results import Row, Spread
from companion.benchmarks.settings import Settings
from companion.benchmarks.timing import ratios, spread

__all__: list[str] = []

Run = Callable[[], object]


def duel(settings: Settings, row: Row, ours: Run, theirs: Run, *, flops: float | None = None) -> Row:
    """Let two take turns, and fill in the row."""
    times = settings.race({"ours": ours, "theirs": theirs})
    return judged(settings, row, times["ours"], times["theirs"], flops=flops)


def judged(settings: Settings, row: Row, ours: list[float], theirs: list[float], *, flops: float | None = None) -> Row:
    """Fill in the row from the times of each round."""
    cost = spread(ours).median
    rate = None if flops is None else flops / cost
    return replace(
        row,
        our_cost=cost,
        their_cost=spread(theirs).median,
        value=compared(row.measure, ours, theirs),
        rate=rate,
        share=None if rate is None else rate / matmul_rate(settings),
    )


def compared(measure: str, ours: list[float], theirs: list[float]) -> Spread:
    """What a row's ``measure`` makes of the rounds."""
    if measure == "speedup":
        return spread(ratios(theirs, ours))
    if measure == "added":
        return spread([a - b for a, b in zip(ours, theirs, strict=True)])
    return spread(ratios(ours, theirs))


@cache
def matmul_rate(settings: Settings) -> float:
    """Operations a second of one large square product in this dtype: ``2 n^3`` over its median time."""
    n = settings.sizes.matmul
    a, b = (settings.random(n, n, seed=seed) for seed in (1, 2))
    with torch.no_grad():
        times = settings.race({"product": lambda: a @ b})["product"]
    return 2 * n**3 / spread(times).median
