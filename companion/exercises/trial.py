"""Run a student's function on a question's inputs, whatever it does, and say in a sentence what came of it."""

from __future__ import annotations

import contextlib
import ctypes
import io
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from companion.alarm import alarm, possible

SECONDS = 10.0  # of the processor's time: a machine that is busy with others takes nothing away


class Absent:
    """Stands where a function gave nothing to compare."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


class Endless(BaseException):
    """Raised in a function that does not come to an end; no ``except Exception`` holds it up."""


class Outcome(NamedTuple):
    """What a call gave, and what it did beside."""

    output: Any  # ABSENT if it raised
    error: BaseException | None
    printed: str
    edited: list[int]  # which arguments it changed, from 1
    drew: bool  # random numbers of torch's own generator


def run(function: Callable[..., Any], arguments: tuple[Any, ...], seed: int = 0) -> Outcome:
    """Call a function with copies of the arguments; the generator, the printing and the time are looked after.

    Args:
        function: the student's.
        arguments: stay as they are.
        seed: of torch's generator during the call; its state comes back afterwards.

    Returns:
        The output, or the error, and what happened beside.

    Raises:
        KeyboardInterrupt: the reader stopped it.
    """
    given = tuple(_copy(argument) for argument in arguments)
    text = io.StringIO()
    output, error = ABSENT, None
    dtype = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        try:
            with _limited(SECONDS):
                output = function(*given)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit too: a student's exit() is no reason to lose the notebook
            error = raised
        finally:
            torch.set_default_dtype(dtype)
        drew = not torch.equal(before, torch.get_rng_state())
    edited = [place for place, (was, now) in enumerate(zip(arguments, given, strict=True), 1) if not _same(was, now)]
    return Outcome(output, error, text.getvalue(), edited, drew)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise ``Endless`` in what runs inside once it has used so much time."""
    if possible():
        with alarm(seconds, Endless, processor=True, again=1.0):
            yield
        return
    here = ctypes.c_ulong(threading.get_ident())
    # No signal in other threads, nor on Windows: another thread raises it in this one.
    timer = threading.Timer(
        seconds, lambda: ctypes.pythonapi.PyThreadState_SetAsyncExc(here, ctypes.py_object(Endless))
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def outputs(function: Callable[..., Any], cases: list[tuple[Any, ...]]) -> list[Any]:
    """What one of our own functions gives for each case; ``ABSENT`` where it does not fit and raises."""
    found = []
    for case in cases:
        try:
            found.append(plain(function(*(_copy(argument) for argument in case))))
        except Exception:
            found.append(ABSENT)
    return found


def plain(x: Any) -> Any:
    """A result without its gradient; a named tuple as a plain one."""
    if isinstance(x, Tensor):
        return x.detach()
    return tuple(plain(part) for part in x) if isinstance(x, tuple) else x


def alike(a: Any, b: Any, within: float) -> bool:
    """Two results hold the same numbers, in the same shape; dtypes may differ."""
    if a is ABSENT or b is ABSENT:
        return a is b
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
            return False
        return all(alike(x, y, within) for x, y in zip(a, b, strict=True))
    one, other = number(a), number(b)
    if one is None or other is None or one.shape != other.shape:
        return False
    return torch.allclose(one, other, rtol=within, atol=within, equal_nan=True)


def number(x: Any) -> Tensor | None:
    """A tensor or a number as float64; ``None`` for anything else."""
    if isinstance(x, (bool, int, float)):
        return torch.tensor(x, dtype=torch.float64)
    return x.detach().to("cpu", torch.float64) if isinstance(x, Tensor) and not x.is_complex() else None


def told_apart(some: list[Any], others: list[Any], within: float) -> bool:
    """Two functions differ clearly in a case that both can do."""
    both = [(a, b) for a, b in zip(some, others, strict=True) if a is not ABSENT and b is not ABSENT]
    return any(not alike(a, b, 100 * within) for a, b in both)


def _copy(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.clone()
    if isinstance(x, (list, tuple)):
        return type(x)(_copy(part) for part in x)
    return {name: _copy(part) for name, part in x.items()} if isinstance(x, dict) else x


def _same(a: Any, b: Any) -> bool:
    """An argument is as it was."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.shape == b.shape and torch.allclose(a, b, 0, 0, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, float) and math.isnan(a):
        return True
    return bool(a is b or type(a) is not type(b) or a == b)
