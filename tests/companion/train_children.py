"""Training in processes of its own, which can be stopped and killed, and never outlive their test.

They are forked from a server that has imported everything once: starting one takes milliseconds, not the seconds that
importing torch does.
"""

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from companion import checkpoint

PATIENCE = 60.0
TINY = "--d-model 8 --num-heads 2 --num-layers 1 --batch-size 4 --length 4 --dropout 0.1 --threads 1".split()

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.companion.train_preload"])


class Child:
    """``python -m companion.train`` in a fork; ``before`` runs in it first."""

    def __init__(self, *argv: str, before: Callable[..., None] | None = None, at: str = "", **environment: str) -> None:
        self.said = Path(argv[argv.index("--out") + 1] + f".said{environment.get('RANK', '')}")
        self.process = _SERVER.Process(target=_run, args=(argv, self.said, before, at, environment), daemon=True)
        self.process.start()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.join(PATIENCE)

    def kill(self) -> None:
        """At once, as a power cut would."""
        assert self.process.is_alive(), f"it ended: {self.output}"
        self.process.kill()
        self.process.join(PATIENCE)
        assert self.process.exitcode == -signal.SIGKILL

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def status(self) -> int:
        """How it ended; a child that does not is an error, and is ended."""
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None, f"it hangs: {self.output}"
        return self.process.exitcode

    @property
    def output(self) -> str:
        return self.said.read_text() if self.said.exists() else ""


def until(true: Callable[[], object], child: Child) -> None:
    """Wait for something that a child is to do."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert child.process.is_alive() or true(), f"it ended: {child.output}"
        assert time.monotonic() < end, f"it hangs: {child.output}"
        time.sleep(0.005)


def two(*argv: str, before: Callable[..., None] | None = None) -> list[Child]:
    """Two processes that train together, as ``torchrun`` would start them."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return [Child(*argv, before=before, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(2)]


def log(out: Path) -> list[dict[str, Any]]:
    """What a run has written down, without what depends on the clock; nothing if it has not begun."""
    path = out / "log.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [{k: v for k, v in json.loads(x).items() if k not in ("time", "tokens_per_second")} for x in lines]


def steps(out: Path) -> int:
    """How many lines there are, also while one is being written."""
    path = out / "log.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def newest(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The newest checkpoint, read; all there are can be."""
    found = [checkpoint.read(path) for path in checkpoint.checkpoints(out)]
    assert found
    return found[-1]


def _run(
    argv: tuple[str, ...], said: Path, before: Callable[..., None] | None, at: str, environment: dict[str, str]
) -> None:
    os.environ.update(environment)
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(handle, stream.fileno())
    from companion.train import main

    if before is not None:
        before(at)
    raise SystemExit(main(argv))
