"""Interrupt a call that does not come back, from within its own thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__: list[str] = []


def possible() -> bool:
    """Whether there are alarms: in the main thread, and not on Windows."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def alarm(seconds: float, error: type[BaseException], *, processor: bool = False, again: float = 0.0) -> Iterator[None]:
    """Raise an error in what runs inside, once so much time has passed.

    Args:
        seconds: of the clock.
        error: what is raised.
        processor: count this process's processor time in place of the clock's.
        again: seconds after which it is raised once more, in case the first was swallowed; 0 for never.
    """
    kind, timer = (signal.SIGPROF, signal.ITIMER_PROF) if processor else (signal.SIGALRM, signal.ITIMER_REAL)

    def ring(*_: object) -> None:
        raise error

    before = signal.signal(kind, ring)
    signal.setitimer(timer, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(timer, 0.0)
        signal.signal(kind, before)
