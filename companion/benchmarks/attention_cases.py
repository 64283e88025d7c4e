"""Attention itself: what ``attend`` adds to PyTorch's kernel, and what its other backends cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from companion.backends import attend
from companion.benchmarks import memory
from companion.benchmarks.duel import duel
from companion.benchmarks.results import Row
from companion.benchmarks.settings import Job, NotHereError, Settings, number
from companion.benchmarks.subjects import (
    PYTORCH,
    Subject,
    find,
    flops,
    forward,
    forward_backward,
    naive,
    need,
    pytorch,
    unavailable,
)
from companion.benchmarks.timing import exponent, spread

__all__: list[str] = []

WAYS = {"forward": False, "forward + backward": True}
BACKENDS = ("reference", "math", "flash", "efficient", "cudnn", "flex", "triton", "chunked")


def of_attend(settings: Settings) -> Iterator[Job]:
    """``attend(backend="auto")`` beside PyTorch's own function."""
    tiny = settings.sizes.tiny
    for causal in (False, True):
        for way, backward in WAYS.items():
            name = f"{way}{', causal' if causal else ''}"
            goal = settings.goal(20e-6)
            row = Row("attend", f"{name}, n = {tiny}", "attend", PYTORCH, measure="added", goal=goal)
            yield _job(settings, row, attend, pytorch, tiny, backward, causal)
            for n in settings.sizes.attend:
                goal = settings.goal(1.03, here=n >= 512)
                row = Row("attend", f"{name}, n = {number(n)}", "attend", PYTORCH, goal=goal)
                yield _job(settings, row, attend, pytorch, n, backward, causal)


def of_naive(settings: Settings) -> Iterator[Job]:
    """``attend`` beside the formula as it stands."""
    for n in settings.sizes.naive:
        for way, backward in WAYS.items():
            row = Row("naive", f"{way}, n = {number(n)}", "attend", "explicit softmax", measure="speedup")
            yield _job(settings, row, attend, naive, n, backward)


def of_chunked(settings: Settings) -> Iterator[Job]:
    """The chunked backend beside PyTorch's flash kernel."""
    n = settings.sizes.chunked
    for way, backward in WAYS.items():
        for causal in (False, True):
            goal = settings.goal(2.5, here=n == 4096 and not backward and not causal)
            name = f"{way}{', causal' if causal else ''}, n = {number(n)}"
            row = Row("chunked", name, 'attend(backend="chunked")', PYTORCH, goal=goal)
            ours = find("backend:chunked", settings)
            yield _job(settings, row, ours, pytorch, n, backward, causal, backend="chunked")


def of_window(settings: Settings) -> Iterator[Job]:
    """A sliding window beside causal attention to everything."""
    sizes, n = settings.sizes, settings.sizes.window_at
    ours, name = find("window", settings), f"sliding_window({settings.sizes.window})"
    for way, backward in WAYS.items():
        goal = settings.goal(3.0, at_most=False, here=n == 8192)
        what = f"{way}, n = {number(n)}"
        row = Row("window", what, name, f"{PYTORCH}, causal", measure="speedup", goal=goal)
        yield _job(settings, row, ours, partial(pytorch, causal=True), n, backward)
    for way, backward in WAYS.items():
        goal = settings.goal(1.1, here=max(sizes.window_over) >= 8192)
        what = f"{way}, n = {_over(sizes.window_over)}"
        row = Row("window", what, name, measure="exponent", goal=goal)
        yield Job("window", what, partial(_growth_of_window, settings, row, ours, backward), goal, (name, ""))


def of_backends(settings: Settings) -> Iterator[Job]:
    """Every backend beside PyTorch's own choice, with memory and the rate of arithmetic."""
    here = []
    for name in BACKENDS:
        reason = unavailable(name, settings.device)
        if reason is None:
            here.append(name)
        else:
            yield Job("backends", name, partial(_not_here, reason), names=(name, PYTORCH))
    for n in settings.sizes.backends:
        for causal in settings.sizes.backends_causal:
            for way, backward in WAYS.items():
                for name in here:
                    what = f"{name}, {way}{', causal' if causal else ''}, n = {number(n)}"
                    row = Row("backends", what, name, PYTORCH)
                    ours = find(f"backend:{name}", settings)
                    run = partial(_backend, settings, row, ours, n, backward, causal, name)
                    yield Job("backends", what, run, names=(name, PYTORCH))


def _not_here(reason: str) -> list[Row]:
    raise NotHereError(reason)


def _job(
    settings: Settings,
    row: Row,
    ours: Subject,
    theirs: Subject,
    length: int,
    backward: bool,
    causal: bool = False,
    backend: str | None = None,
) -> Job:
    def run() -> list[Row]:
        contest = _contestants(settings, (ours, theirs), length, backward, causal, backend)
        return [duel(settings, row, *contest)]

    return Job(row.case, row.what, run, row.goal, (row.ours, row.theirs))


def _contestants(
    settings: Settings,
    subjects: tuple[Subject, ...],
    length: int,
    backward: bool,
    causal: bool = False,
    backend: str | None = None,
) -> list[Callable[[], object]]:
    inputs = settings.qkv(length, grad=backward)
    if backend is not None:
        need(backend, inputs, causal)
    way = forward_backward if backward else forward
    return [way(partial(subject, causal=True) if causal else subject, inputs) for subject in subjects]


def _backend(
    settings: Settings, row: Row, ours: Subject, length: int, backward: bool, causal: bool, name: str
) -> list[Row]:
    brief = settings.sizes.brief and settings.device.type == "cpu"
    if brief and name == "flex":
        raise NotHereError("left out of a quick run: on a CPU it is compiled first, which takes its time.")
    contest = _contestants(settings, (ours, pytorch), length, backward, causal, name)
    work = flops(settings, length, causal=causal, backward=backward)
    filled = duel(settings, row, *contest, flops=work)
    if brief:
        return [filled]
    peak = memory.peak(settings, f"backend:{name}", length, backward=backward, causal=causal)
    return [replace(filled, peak=peak)]


def _growth_of_window(settings: Settings, row: Row, ours: Subject, backward: bool) -> list[Row]:
    """All lengths in one race, and an exponent for each round of it."""
    lengths = settings.sizes.window_over
    causal = partial(pytorch, causal=True)
    contenders = {str(n): _contestants(settings, (ours,), n, backward)[0] for n in lengths}
    if not backward:  # causal attention's gradients at the largest length would take the time of all the rest
        contenders |= {f"causal {n}": _contestants(settings, (causal,), n, backward)[0] for n in lengths}
    times = settings.race(contenders)
    rounds = range(len(times[str(lengths[0])]))
    value = spread([exponent(lengths, [times[str(n)][i] for n in lengths]) for i in rounds])
    series: dict[str, Sequence[tuple[float, float]]] = {row.ours: [(n, spread(times[str(n)]).median) for n in lengths]}
    if not backward:
        series["causal"] = [(n, spread(times[f"causal {n}"]).median) for n in lengths]
    return [replace(row, our_cost=series[row.ours][-1][1], value=value, series=series)]


def _over(lengths: tuple[int, ...]) -> str:
    return f"{number(lengths[0])} to {number(lengths[-1])}"
