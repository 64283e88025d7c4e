"""A wish to stop, noted when it comes and heeded when a step is over."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__: list[str] = []


class Interrupt:
    """Notes SIGINT (Ctrl-C) and SIGTERM, for as long as it is entered.

    A second Ctrl-C does not wait. Under ``torchrun`` it does: there both signals come by themselves, one after the
    other.

    Args:
        patient: whether a second signal waits too.

    Attributes:
        number: of the signal that came, or None.
    """

    def __init__(self, *, patient: bool) -> None:
        self.patient = patient
        self.number: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # no other may ask for signals
            for kind in (signal.SIGINT, signal.SIGTERM):
                self._before[kind] = signal.signal(kind, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number == number == signal.SIGINT and not self.patient:
            raise KeyboardInterrupt
        self.number = number
