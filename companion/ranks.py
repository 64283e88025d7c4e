"""The processes of a group: who this one is, whether all were called alike, and a ring to pass tensors round.

A collective that one process enters and another does not, or with another shape, waits for ever or mixes up numbers. So
each call first tells the others in a few words what it was given; what differs is an error on every rank.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

__all__: list[str] = []

WORDS = 512
"""Bytes in which a call is told."""

T = TypeVar("T")


class Arrival:
    """A tensor on its way here, and the one that leaves for it."""

    def __init__(self, works: list[dist.Work], tensor: Tensor, leaving: Tensor) -> None:
        self._works, self._tensor = works, tensor
        self._leaving = leaving  # kept: it must not be freed before it is sent

    def wait(self) -> Tensor:
        """What the rank before sent. Then what was sent from here may be freed, too."""
        for work in self._works:
            work.wait()
        return self._tensor


class Ranks(NamedTuple):
    """The processes of a group, as one of them sees it.

    Attributes:
        group: as ``torch.distributed`` knows it; None is all processes.
        rank: which of them this is.
        size: ``P``, how many they are.
    """

    group: dist.ProcessGroup | None
    rank: int
    size: int

    @staticmethod
    def of(group: object) -> Ranks:
        """Who is there.

        Raises:
            TypeError: ``group`` is no process group.
            ValueError: there is none yet, or this process is not in it.
        """
        if not dist.is_available():
            raise ValueError("group cannot be had: this PyTorch was built without torch.distributed")
        if group is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError("group must have this process as a member: only members may call this")
        if group is not None and not isinstance(group, dist.ProcessGroup):
            raise TypeError(f"group must be a torch.distributed.ProcessGroup or None, got {type(group).__name__}")
        if not dist.is_initialized():
            raise ValueError(
                "group is not there yet: call torch.distributed.init_process_group() first, in a script that is "
                "started by `torchrun --nproc-per-node=4 script.py`"
            )
        return Ranks(group, dist.get_rank(group), dist.get_world_size(group))

    def pass_on(self, x: Tensor, tag: int = 0) -> Arrival:
        """Send a contiguous ``x`` to the next rank and take one like it from the rank before; returns at once.

        Both are posted together, on every rank alike, so nobody waits for a partner who waits for another.
        """
        arriving = torch.empty_like(x)
        after, before = (self._global((self.rank + step) % self.size) for step in (1, -1))
        send = dist.P2POp(dist.isend, x, after, self.group, tag)
        take = dist.P2POp(dist.irecv, arriving, before, self.group, tag)
        return Arrival(dist.batch_isend_irecv([send, take]), arriving, x)

    def collect(self, x: Tensor) -> list[Tensor]:
        """The ``x`` of each rank, in order; all of one shape, dtype and kind of device."""
        # As bytes, since gloo does not know every dtype.
        flat = x.contiguous().view(-1).view(torch.uint8)
        heard = [torch.empty_like(flat) for _ in range(self.size)]
        if flat.numel():
            dist.all_gather(heard, flat, group=self.group)
        return [each.view(x.dtype).view(x.shape) for each in heard]

    def check_carries(self, device: torch.device) -> None:
        """Refuse tensors that the group's backend would not take, or would take for memory of the CPU."""
        backend = self._backends().get(device.type)
        if backend is None or (backend == "gloo" and device.type != "cpu"):
            wanted = "gloo" if device.type == "cpu" else "nccl"
            raise ValueError(
                f"group must have a backend that passes on tensors on {device.type}, such as {wanted}; it has "
                f"{dist.get_backend_config(self.group)}"
            )

    def tell(self, words: str) -> list[str]:
        """What each rank has to say, in order."""
        # By the CPU where it can be, so that no GPU is waited for.
        kinds = self._backends()
        place = "cpu" if "cpu" in kinds else next(iter(kinds))
        letters = words.encode()
        if len(letters) > WORDS:  # what is cut off still counts
            letters = letters[: WORDS - 9] + b" %08x" % zlib.crc32(letters)
        letters = letters.ljust(WORDS, b"\0")
        heard = self.collect(torch.frombuffer(bytearray(letters), dtype=torch.uint8).to(place))
        rows = torch.stack(heard).cpu()
        return [bytes(row.tolist()).rstrip(b"\0").decode(errors="ignore") for row in rows]

    def _backends(self) -> dict[str, str]:
        """Backend by kind of device."""
        return dict(pair.split(":") for pair in dist.get_backend_config(self.group).split(","))

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)


def agreed(
    name: str, group: dist.ProcessGroup | None, make: Callable[[], T], describe: Callable[[T], str]
) -> tuple[T, Ranks]:
    """Make something of this rank's arguments, and see to it that every rank could, and was called alike.

    Args:
        name: of the function that is called.
        group: the processes that call it.
        make: checks the arguments; its errors are this rank's errors, and the others hear of them.
        describe: says in words what has to be the same on every rank.

    Returns:
        What ``make`` returned, and the ranks.

    Raises:
        TypeError: ``group`` is no process group; or what ``make`` raises.
        ValueError: there is no group, or another rank was called otherwise; or what ``make`` raises.
    """
    try:
        made = make()
    except Exception as error:
        try:
            ranks = Ranks.of(group)
        except (TypeError, ValueError):  # nobody to tell
            raise error from None
        if ranks.size > 1:
            ranks.tell(f"{name} refused: {error}")
        raise
    ranks = Ranks.of(group)
    if ranks.size > 1:
        said = ranks.tell(f"{name} of {describe(made)}")
        if len(set(said)) > 1:
            raise ValueError(f"every rank of group must call {name} alike; {_who_said(said)}")
    return made, ranks


def _who_said(said: list[str]) -> str:
    """Each thing that was said once, with those who said it."""
    who: dict[str, list[str]] = {}
    for rank, words in enumerate(said):
        who.setdefault(words, []).append(str(rank))
    return "; ".join(f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}: {words}" for words, ranks in who.items())
