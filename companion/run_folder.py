"""The folder of a run: its checkpoints, its log, and a lock, so that no two runs write into the same one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from torch import Tensor

from companion import checkpoint

__all__: list[str] = []

LOG = "log.jsonl"
_LOCK = ".lock"


class RunFolder:
    """Where one process writes what several may have computed.

    Args:
        path: of the folder; it is made.
        keep: how many checkpoints stay.

    Raises:
        BlockingIOError: another run is writing there.
    """

    def __init__(self, path: Path, keep: int) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path, self.keep = path, keep
        self._lock = (path / _LOCK).open("w")
        self._log: TextIO | None = None
        try:
            import fcntl
        except ModuleNotFoundError:  # Windows: no lock
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, however that ends
        except OSError:
            self._lock.close()
            raise BlockingIOError(f"another run is writing into {path}") from None

    def begin(self, step: int) -> None:
        """Make it what it was at the end of a step; 0 empties it of all that a run wrote."""
        checkpoint.tidy(self.path, self.keep if step else 0)
        log = self.path / LOG
        fresh = log.with_name(f".{LOG}{checkpoint.UNFINISHED}")
        with fresh.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in _lines(log, step))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, log)
        self._log = log.open("a", encoding="utf-8")

    def log(self, **numbers: Any) -> None:
        """Add a line, at once."""
        assert self._log is not None
        self._log.write(json.dumps(numbers) + "\n")
        self._log.flush()

    def save(self, step: int, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Path:
        """Write a checkpoint, and then remove old ones; the log on the disk is never behind it."""
        assert self._log is not None
        os.fsync(self._log.fileno())
        path = checkpoint.place(self.path, step)
        checkpoint.write(path, tensors, about)
        checkpoint.tidy(self.path, self.keep)
        return path

    def close(self) -> None:
        """Let others in."""
        if self._log is not None:
            self._log.close()
        self._lock.close()


def _lines(log: Path, step: int) -> list[str]:
    """Those up to a step; what a kill or a power cut left of a line is dropped."""
    kept = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else ():
        with suppress(ValueError, TypeError, KeyError):
            if json.loads(line)["step"] <= step:
                kept.append(line)
    return kept
