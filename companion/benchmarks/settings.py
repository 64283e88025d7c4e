"""What to run on, how large, and how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from companion.benchmarks.results import Goal, Row
from companion.benchmarks.timing import Stopwatch, interleave, stopwatch

__all__: list[str] = []


@dataclass(frozen=True)
class Sizes:
    """Lengths and the like; the defaults are those of the full run on a CPU."""

    heads: int = 8
    width: int = 64
    tiny: int = 16
    attend: tuple[int, ...] = (512, 1024, 2048, 4096)
    naive: tuple[int, ...] = (512, 2048)
    layer: tuple[int, ...] = (16, 512, 4096)
    chunked: int = 4096
    window: int = 256
    window_at: int = 8192
    window_over: tuple[int, ...] = (2048, 4096, 8192, 16384)
    memory_over: tuple[int, ...] = (2048, 4096, 8192, 16384)
    memory_naive_over: tuple[int, ...] = (1024, 2048, 4096)
    decode_at: tuple[int, ...] = (64, 128, 256, 512, 1024)
    decode_layers: int = 4
    vocabulary: int = 50257  # GPT-2's
    small_vocabulary: int = 1000
    imports: int = 9
    backends: tuple[int, ...] = (2048,)
    backends_causal: tuple[bool, ...] = (False,)
    matmul: int = 2048
    brief: bool = False  # leave out what takes seconds to begin: most processes, and a compiler


QUICK = Sizes(
    attend=(512,),
    naive=(512,),
    layer=(16, 512),
    chunked=1024,
    window_at=2048,
    window_over=(1024, 2048),
    memory_over=(1024, 2048),
    memory_naive_over=(512, 1024),
    decode_at=(64, 256),
    decode_layers=2,
    imports=1,
    backends=(512,),
    matmul=1024,
    brief=True,
)

ON_CUDA = Sizes(
    attend=(512, 1024, 2048, 4096, 8192, 16384),
    naive=(512, 2048, 4096),
    layer=(16, 512, 4096, 16384),
    chunked=16384,
    window_at=16384,
    window_over=(4096, 8192, 16384, 32768),
    memory_over=(2048, 4096, 8192, 16384),
    backends=(1024, 4096, 16384),
    backends_causal=(False, True),
    matmul=8192,
)


@dataclass(frozen=True)
class Settings:
    """One run's.

    Attributes:
        device: where.
        dtype: of all tensors.
        sizes: of the cases.
        rounds: at most, of a comparison.
        seconds: after which a comparison begins no new round.
        judged: goals hold, as they do for float32 on a CPU; elsewhere there are none.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    sizes: Sizes = field(default_factory=Sizes)
    rounds: int = 101
    seconds: float = 5.0
    judged: bool = True

    @staticmethod
    def of(device: torch.device, dtype: torch.dtype, quick: bool = False) -> Settings:
        """The settings of the command line."""
        on_cpu = device.type == "cpu"
        sizes = QUICK if quick else Sizes() if on_cpu else ON_CUDA
        chosen = Settings(device, dtype, sizes, judged=on_cpu and dtype is torch.float32)
        return replace(chosen, rounds=15, seconds=0.2) if quick else chosen

    @property
    def take(self) -> Stopwatch:
        """What takes the time."""
        return stopwatch(self.device)

    def race(self, contenders: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
        """The seconds of each round, by name."""
        return interleave(contenders, rounds=self.rounds, seconds=self.seconds, take=self.take)

    def goal(self, limit: float, *, at_most: bool = True, here: bool = True) -> Goal | None:
        """A goal, if this row is ``here`` where it was promised and this run is one that it was promised for."""
        return Goal(limit, at_most) if self.judged and here else None

    def qkv(self, length: int, *, grad: bool = False, heads: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value ``(1, H, L, D)``, the same at each call."""
        shape = (1, heads or self.sizes.heads, length, self.sizes.width)
        return tuple(self.random(*shape, seed=i).requires_grad_(grad) for i in range(3))  # type: ignore[return-value]

    def random(self, *shape: int, seed: int = 0) -> Tensor:
        """Normal numbers, drawn on the CPU, so that they are the same everywhere."""
        drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
        return drawn.to(self.device, self.dtype)


class NotHereError(Exception):
    """A case that cannot be run, and why, in a sentence."""


@dataclass(frozen=True)
class Job:
    """Some rows of a case, which are measured together.

    Attributes:
        case: whose.
        what: is measured; shown meanwhile, and in the table if it cannot be run.
        run: measures.
        goal: what one of its rows has to reach.
        names: of ours and theirs, for the table, if it cannot be run.
    """

    case: str
    what: str
    run: Callable[[], list[Row]]
    goal: Goal | None = None
    names: tuple[str, str] = ("", "")

    def rows(self) -> list[Row]:
        """Measure; what cannot be run, or breaks, is a row too."""
        try:
            return self.run()
        except NotHereError as reason:
            return [self._empty(str(reason), failed=False)]
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            return [self._empty(f"{type(error).__name__}: {first:.200}", failed=True)]

    def _empty(self, note: str, failed: bool) -> Row:
        ours, theirs = self.names
        return Row(self.case, self.what, ours, theirs, note=note, goal=self.goal, failed=failed)


def number(n: int) -> str:
    """16384 as ``16,384``."""
    return f"{n:,}"


def dtype_name(dtype: Any) -> str:
    """``torch.float32`` as ``float32``."""
    return str(dtype).removeprefix("torch.")
