"""Bad input for the arithmetic of benchmarks; of their command line see ``test_bench.py``."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from companion.benchmarks import timing
from tests.companion.bad_input import Row, device_rows, integer_rows, number_rows, wrong_kind, wrong_value

MODULES = (timing,)


def sequence_rows(function: Callable[..., Any], name: str) -> Iterator[Row]:
    """Numbers, at least one."""
    for bad, kind in (
        (None, "NoneType"),
        (3.0, "float"),
        ("12", "str"),
        ({1.0: 2.0}, "dict"),
        (torch.ones(2), "Tensor"),
    ):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a sequence of numbers", kind))
    yield wrong_value(function, **{name: []}, says=(f"{name} must have at least one number",))
    for bad, kind in ((["1"], "str"), ([None], "NoneType"), ([True], "bool")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name}[0] must be a real number", kind))
    for bad in (math.nan, math.inf):
        yield wrong_value(function, **{name: [1.0, bad]}, says=(f"{name}[1] must be finite", str(bad)))


def rows() -> Iterator[Row]:
    yield from sequence_rows(timing.spread, "values")
    good = [1.0, 2.0]
    for function, one, two in ((timing.ratios, "ours", "theirs"), (timing.exponent, "sizes", "costs")):
        yield from sequence_rows(partial(function, **{two: good}), one)
        yield from sequence_rows(partial(function, **{one: good}), two)
        for name, other in ((one, two), (two, one)):
            for bad in (0.0, -1.0):
                yield wrong_value(
                    function, **{name: [bad, 2.0], other: good}, says=(f"{name} must be positive", str(bad))
                )
    yield wrong_value(timing.ratios, good, [1.0], says=("theirs must have a time for each of 2 rounds", "got 1"))
    yield wrong_value(timing.exponent, good, [1.0], says=("costs must be one for each of 2 sizes", "got 1"))
    yield wrong_value(timing.exponent, [2, 2], good, says=("sizes must be at least two different ones", "[2, 2]"))
    yield from device_rows(timing.stopwatch)
    yield wrong_kind(timing.stopwatch, clock=3.0, says=("clock must be callable", "float"))
    for bad, kind in ((None, "NoneType"), ([print], "list"), (print, "builtin_function_or_method")):
        yield wrong_kind(timing.interleave, bad, says=("contenders must be a dict of functions by name", kind))
    yield wrong_value(timing.interleave, {}, says=("contenders must be at least one",))
    yield wrong_kind(timing.interleave, {"a": 3}, says=("contenders['a'] must be callable", "int"))
    race = partial(timing.interleave, {"a": int})
    yield from integer_rows(race, "rounds", 0, -1)
    yield from integer_rows(race, "warmup", 0, -1)
    yield from integer_rows(race, "seed", -1)
    yield from number_rows(race, "seconds", (0, -1.0))
    yield wrong_kind(race, take=1.0, says=("take must be callable", "float"))
