"""One process, or several that make each update together.

By DDP each holds all parameters, by FSDP a part of each. :class:`~companion.trainer.Trainer` asks the same of all. Each
process takes its rows of a batch, and the sum of losses, the count of tokens and the gradients are those of all rows,
so that two processes make the update that one makes, but for rounding.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from companion.blocks import DecoderBlock, EncoderBlock

__all__: list[str] = []

KINDS = ("ddp", "fsdp")
HOW = "torchrun --nproc-per-node=2 -m companion.train ..."
# Nobody waits for ever for a process that has died.
_PATIENCE = timedelta(minutes=10)
# What must not be torn down: see ``leave``.
_KEPT: list[Any] = []


class Inside(nn.Module):
    """Runs a function of a model as a forward of its own.

    DDP and FSDP act before and after the forward of what they wrap. A loss may call more than the model's forward (the
    head of an encoder, say), so it is the loss that is wrapped.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return function(self.model, *arguments, **options)


class Alone:
    """One process.

    Attributes:
        rank: which of the processes this is.
        world: how many there are.
        name: how they share the work.
    """

    rank, world, name = 0, 1, "alone"

    def wrap(self, model: nn.Module) -> None:
        """Get a model ready; once, before its optimizer is made."""
        self.inside: nn.Module = Inside(model)
        self.model = model

    def rows(self, batch: Any) -> Any:
        """The part of a batch that is this process's."""
        return batch

    def forward(self, function: Callable[..., Any], *arguments: Any, last: bool = True, **options: Any) -> Any:
        """Call a function of the model with gradients; ``last`` before an update."""
        return self.inside(function, *arguments, **options)

    def evaluate(self, function: Callable[[nn.Module], Any]) -> Any:
        """Call a function of the model without gradients."""
        return function(self.model)

    def add(self, *numbers: Tensor) -> tuple[Tensor, ...]:
        """The sums over all processes."""
        return numbers

    def agree(self, numbers: dict[str, float]) -> dict[str, float]:
        """What the first process says, so that none decides otherwise."""
        return numbers

    def most(self, number: int) -> int:
        """The largest number that a process says."""
        return number

    def gather(self, x: Tensor) -> Tensor:
        """What each process has, ``(W, ...)``, on the CPU."""
        return x.cpu().unsqueeze(0)

    def whole(self, x: Tensor) -> Tensor:
        """All of a tensor of which each process may hold a part."""
        return x

    def part(self, x: Tensor, like: Tensor) -> Tensor:
        """This process's part of a whole tensor, as ``like`` is parted."""
        return x.to(like.device)

    def wait(self) -> None:
        """Go on when all have come here."""


class Replicas(Alone):
    """Processes that each hold all parameters (DDP), and that hear of each other through ``torch.distributed``."""

    name = "ddp"

    def __init__(self, device: torch.device) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = device

    def wrap(self, model: nn.Module) -> None:
        """Let gradients be averaged."""
        super().wrap(model)
        self.ddp = nn.parallel.DistributedDataParallel(self.inside)

    def rows(self, batch: Any) -> Any:
        """Rows from ``B * rank // world`` on; padding stays as it is, so that shapes are those of the whole batch."""
        size = len(batch[0])
        mine = slice(size * self.rank // self.world, size * (self.rank + 1) // self.world)
        return type(batch)(*(None if x is None else x[mine] for x in batch))

    def forward(self, function: Callable[..., Any], *arguments: Any, last: bool = True, **options: Any) -> Any:
        """Call a function of the model with gradients; processes exchange them before an update."""
        with nullcontext() if last else self.ddp.no_sync():
            return self.ddp(function, *arguments, **options)

    def add(self, *numbers: Tensor) -> tuple[Tensor, ...]:
        """The sums over all processes."""
        total = torch.stack([number.to(self.device, torch.float64) for number in numbers])
        dist.all_reduce(total)
        return tuple(total.unbind())

    def agree(self, numbers: dict[str, float]) -> dict[str, float]:
        """What the first process says, so that none decides otherwise."""
        said = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        dist.broadcast(said, src=0)
        return dict(zip(numbers, said.tolist(), strict=True))

    def most(self, number: int) -> int:
        """The largest number that a process says."""
        said = torch.tensor(number, device=self.device)
        dist.all_reduce(said, dist.ReduceOp.MAX)
        return int(said)

    def gather(self, x: Tensor) -> Tensor:
        """What each process has, ``(W, ...)``, on the CPU."""
        mine = x.to(self.device)
        seen = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(seen, mine)
        return torch.stack(seen).cpu()

    def wait(self) -> None:
        """Go on when all have come here."""
        self.most(0)


class Shards(Replicas):
    """Processes that each hold a part of every parameter, and of what AdamW remembers of it (FSDP2).

    A block's parameters are put together for its forward and again for its backward. Each micro-batch reduces its
    gradients: to keep whole ones until the last would cost the memory that this is meant to save.
    """

    name = "fsdp"

    def wrap(self, model: nn.Module) -> None:
        """Part the blocks, each by itself, and then the rest."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        Alone.wrap(self, model)
        mesh = init_device_mesh(self.device.type, (self.world,))
        for module in model.modules():
            if isinstance(module, (EncoderBlock, DecoderBlock)):
                fully_shard(module, mesh=mesh)
        fully_shard(self.inside, mesh=mesh)

    def forward(self, function: Callable[..., Any], *arguments: Any, last: bool = True, **options: Any) -> Any:
        """Call a function of the model with gradients."""
        return self.inside(function, *arguments, **options)

    def evaluate(self, function: Callable[[nn.Module], Any]) -> Any:
        """Call a function of the model without gradients, and part again what it put together."""
        inside: Any = self.inside
        try:
            return inside(function)
        finally:
            inside.reshard()

    def whole(self, x: Tensor) -> Tensor:
        """All of a tensor of which each process holds a part; all processes must ask."""
        from torch.distributed.tensor import DTensor

        return x.full_tensor() if isinstance(x, DTensor) else x

    def part(self, x: Tensor, like: Tensor) -> Tensor:
        """This process's part of a whole tensor, as ``like`` is parted."""
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(like, DTensor):
            return super().part(x, like)
        return distribute_tensor(x.to(like.device), like.device_mesh, like.placements)


def launched() -> bool:
    """Whether ``torchrun`` started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def leads() -> bool:
    """Whether this is the process that speaks."""
    return int(os.environ.get("RANK", "0")) == 0


def pick_device(name: str) -> torch.device:
    """The device of this process.

    Args:
        name: ``"auto"`` (a GPU for each process where there are enough, else the CPU), or a device.
    """
    here, beside = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if gpus >= beside else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:0, ..., got {name!r}") from None
    if device.type == "cuda":
        if device.index is not None and launched():
            raise ValueError(f"device must be cuda where torchrun gives each process one of its own, got {name}")
        index = here if device.index is None else device.index
        if index >= gpus:
            raise ValueError(f"device={name} asks for GPU {index}, and there are {gpus}")
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    elif device.type != "cpu":
        raise ValueError(f"device must be auto, cpu, cuda or cuda:0, ..., got {name!r}")
    return device


@contextmanager
def team(kind: str | None, device: torch.device) -> Iterator[Alone]:
    """The processes that train together, for as long as they do.

    Args:
        kind: ``"ddp"`` or ``"fsdp"``; None is DDP where ``torchrun`` started several, else one process.
        device: of this one.
    """
    if not launched():
        yield Alone()
        return
    nccl = device.type == "cuda"
    if not dist.is_initialized():
        dist.init_process_group("nccl" if nccl else "gloo", timeout=_PATIENCE)
    made = Shards(device) if kind == "fsdp" else Replicas(device)
    _KEPT.append(made)
    yield made
    made.wait()  # nobody leaves while another may still ask it for something
    if nccl:
        dist.destroy_process_group()


def leave(status: int) -> NoReturn:
    """End the process.

    Under ``torchrun`` nothing is torn down. What ends a group of gloo waits, with Python's lock in its hand, for a
    thread that may be waiting for that lock, to let go of its last tensor: with PyTorch 2.13, 4 runs in 34 hung there
    (pytorch#190489 tells of the same).
    """
    if launched():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    raise SystemExit(status)
