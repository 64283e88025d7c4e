r"""Which of two things is faster, on a machine that others use too?

A time alone says as much of the neighbours as of the code. So the contenders take turns, in an order drawn anew each
round, and what is compared is two times of the same round; the neighbours slow both. The median over the rounds is
quoted, with its quartiles.

.. math:: r = \operatorname{median}_i \frac{t_i}{u_i}
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

import torch

from companion import check
from companion.benchmarks.results import Spread

__all__ = ["exponent", "interleave", "ratios", "spread", "stopwatch"]

Run = Callable[[], object]
Stopwatch = Callable[[Run, int], float]
"""A function and how often to call it in a row; the seconds that one call took."""

_SAMPLE = 1e-3  # seconds: a shorter sample says more of the clock than of the code
_MOST_REPEATS = 1000


def spread(values: Sequence[float]) -> Spread:
    """The median and the quartiles of some numbers.

    Args:
        values: at least one.

    Returns:
        Them, and how many values there were. Between two values quartiles are interpolated.

    Raises:
        TypeError: no sequence of real numbers.
        ValueError: no number, or one that is not finite.

    Example:
        >>> spread([1.0, 2.0, 3.0, 4.0, 50.0])
        Spread(median=3.0, low=2.0, high=4.0, rounds=5)
    """
    numbers = _numbers("values", values)
    if len(numbers) == 1:
        return Spread(numbers[0], numbers[0], numbers[0], 1)
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return Spread(middle, low, high, len(numbers))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Divide the times of each round.

    Args:
        ours: seconds, one for each round.
        theirs: as many, of the same rounds.

    Returns:
        One ratio a round; below 1 where ours is faster.

    Raises:
        TypeError: no sequences of real numbers.
        ValueError: not as many of the one as of the other, none at all, or a time that is not positive.

    Example:
        >>> spread(ratios([1.0, 9.0, 1.1], [2.0, 9.0, 2.0])).median  # a slow round slows both
        0.55
    """
    above, below = _numbers("ours", ours), _numbers("theirs", theirs)
    if len(above) != len(below):
        raise ValueError(f"theirs must have a time for each of {len(above)} rounds, got {len(below)}")
    for name, times in (("ours", above), ("theirs", below)):
        if min(times) <= 0:
            raise ValueError(f"{name} must be positive, got {min(times)}")
    return [a / b for a, b in zip(above, below, strict=True)]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    r"""How a cost grows with size: ``p`` in ``cost = c * size ** p``, by least squares of the logarithms.

    .. math:: p = \frac{\operatorname{cov}(\log n, \log c)}{\operatorname{var}(\log n)}

    Args:
        sizes: at least two different ones.
        costs: seconds, bytes or whatever, one for each size.

    Returns:
        1 where twice the size costs twice as much, 2 where it costs four times as much.

    Raises:
        TypeError: no sequences of real numbers.
        ValueError: not one cost a size, fewer than two different sizes, or a number that is not positive.

    Example:
        >>> exponent([1, 2, 4], [5, 20, 80])
        2.0
    """
    where, what = _numbers("sizes", sizes), _numbers("costs", costs)
    if len(where) != len(what):
        raise ValueError(f"costs must be one for each of {len(where)} sizes, got {len(what)}")
    if len(set(where)) < 2:
        raise ValueError(f"sizes must be at least two different ones, got {list(sizes)}")
    for name, numbers in (("sizes", where), ("costs", what)):
        if min(numbers) <= 0:
            raise ValueError(f"{name} must be positive, got {min(numbers)}")
    return statistics.linear_regression([math.log2(n) for n in where], [math.log2(c) for c in what]).slope


def stopwatch(device: torch.device | str = "cpu", clock: Callable[[], float] = time.perf_counter) -> Stopwatch:
    """What takes the time of a function on a device.

    Args:
        device: on CUDA the time is that between two events on the device, which is waited for before and after.
        clock: seconds since any moment; elsewhere than on CUDA.

    Returns:
        ``take(run, repeats) -> seconds``: those of one call, as the mean of so many in a row.

    Raises:
        TypeError: ``device`` names none, or ``clock`` cannot be called.
        ValueError: no such kind of device.

    Example:
        >>> ticks = iter([0.0, 6.0])
        >>> stopwatch(clock=lambda: next(ticks))(lambda: None, 3)
        2.0
    """
    place = check.device("device", device)
    if not callable(clock):
        raise TypeError(f"clock must be callable, got {type(clock).__name__}")

    def by_clock(run: Run, repeats: int) -> float:
        start = clock()
        for _ in range(repeats):
            run()
        return (clock() - start) / repeats

    def by_events(run: Run, repeats: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(place)
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize(place)
        return start.elapsed_time(end) / 1000 / repeats

    return by_events if place.type == "cuda" else by_clock


def interleave(
    contenders: Mapping[str, Run],
    *,
    rounds: int = 50,
    seconds: float = 5.0,
    warmup: int = 2,
    seed: int = 0,
    take: Stopwatch | None = None,
) -> dict[str, list[float]]:
    """Let contenders take turns, each once a round, in an order drawn anew for every round.

    Python's garbage collector is off meanwhile. What takes less than a millisecond is called several times in a row,
    all contenders as often.

    Args:
        contenders: functions without arguments, by name.
        rounds: how many at most.
        seconds: after so many measured seconds no new round begins, but three there are in any case.
        warmup: rounds before, whose times nobody sees.
        seed: of the orders.
        take: what takes the time; ``stopwatch()`` if not given.

    Returns:
        The seconds of each round, by name: the first of each name belong together, and so on.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no contenders, or a number that is too small.

    Example:
        >>> times = interleave({"a": lambda: 1, "b": lambda: 2}, rounds=4)
        >>> len(times["a"]), len(times["b"])
        (4, 4)
    """
    _check_contenders(contenders)
    most = check.integer("rounds", rounds)
    budget, before = check.positive("seconds", seconds), check.integer("warmup", warmup)
    if take is not None and not callable(take):
        raise TypeError(f"take must be callable, got {type(take).__name__}")
    take = stopwatch() if take is None else take
    random = Random(check.integer("seed", seed, minimum=0))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with _no_garbage_collection():
        first = [min(take(run, 1) for run in contenders.values()) for _ in range(before)]
        repeats = _repeats(min(first))
        spent = 0.0
        for done in range(most):
            if spent > budget and done >= 3:
                break
            for name in random.sample(list(contenders), len(contenders)):
                time_of_one = take(contenders[name], repeats)
                times[name].append(time_of_one)
                spent += time_of_one * repeats
    return times


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _repeats(fastest: float) -> int:
    """How often in a row, so that a sample is long enough to be timed."""
    return max(1, min(_MOST_REPEATS, math.ceil(_SAMPLE / max(fastest, 1e-9))))


def _check_contenders(contenders: object) -> None:
    if not isinstance(contenders, Mapping):
        raise TypeError(f"contenders must be a dict of functions by name, got {type(contenders).__name__}")
    if not contenders:
        raise ValueError("contenders must be at least one, got none")
    for name, run in contenders.items():
        if not callable(run):
            raise TypeError(f"contenders[{name!r}] must be callable, got {type(run).__name__}")


def _numbers(name: str, values: object) -> list[float]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a sequence of numbers, got {type(values).__name__}")
    if not len(values):
        raise ValueError(f"{name} must have at least one number, got none")
    return [check.real(f"{name}[{i}]", value) for i, value in enumerate(values)]
