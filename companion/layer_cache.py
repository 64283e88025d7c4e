"""One layer's keys and values: memory that is set aside once, and filled from the front."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion import check

__all__: list[str] = []


@dataclass
class LayerCache:
    """Of the buffers' positions, ``start`` to ``end`` are in use; ``seen`` were ever added."""

    key: Tensor
    value: Tensor
    start: int = 0
    end: int = 0
    seen: int = 0
    ours: bool = False  # the buffers were set aside here, so that writing into them changes nobody else's numbers
    fixed: bool = False  # a memory's, which nothing is added to

    @classmethod
    def empty(cls, key: Tensor, value: Tensor) -> LayerCache:
        """Nothing yet, in the shape of what is about to come."""
        return cls(_room(key, 0), _room(value, 0))

    @classmethod
    def memory(cls, key: Tensor, value: Tensor) -> LayerCache:
        """What is read and never added to."""
        return cls(key, value, 0, key.shape[-2], key.shape[-2], fixed=True)

    def held(self) -> tuple[Tensor, Tensor]:
        """What is in use, as views."""
        return self.key[:, :, self.start : self.end], self.value[:, :, self.start : self.end]

    def require_same(self, key: Tensor, value: Tensor) -> None:
        """Refuse what does not fit what is held."""
        for name, x, old in (("key", key, self.key), ("value", value, self.value)):
            check.same_dtype(**{name: x, "cache": old})
            check.same_device(**{name: x, "cache": old})
            batch, groups, width = *old.shape[:2], old.shape[-1]
            if check.shape(x) != (batch, groups, x.shape[2], width):
                wanted = f"({batch}, {groups}, n, {width})"
                raise ValueError(f"{name} must be (B, G, n, width) = {wanted}, as before; got {check.shape(x)}")

    def add(self, key: Tensor, value: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
        """Add new positions, and return all that is in use; ``capacity`` is how much memory to set aside, if needed."""
        added = key.shape[-2]
        if torch.is_grad_enabled():  # even if keys need no gradient: autograd may have saved them for the queries'
            old_key, old_value = self.held()
            self.key, self.value = torch.cat([old_key, key], dim=-2), torch.cat([old_value, value], dim=-2)
            self.start, self.end, self.ours = 0, self.key.shape[-2], False
        else:
            self._make_room(added, capacity)
            self.key[:, :, self.end : self.end + added] = key
            self.value[:, :, self.end : self.end + added] = value
            self.end += added
        self.seen += added
        return self.held()

    def take(self, entries: Tensor) -> None:
        """Take batch entries anew."""
        self.key, self.value = (x.index_select(0, entries.to(x.device, torch.long)) for x in (self.key, self.value))

    def drop(self, count: int) -> None:
        """Forget the last positions."""
        self.end -= count
        self.seen -= count

    def _make_room(self, added: int, capacity: int) -> None:
        """Move what is in use to the front of its memory, or of a new one."""
        kept = self.end - self.start
        if self.ours and self.end + added <= self.key.shape[-2]:
            return
        room = max(capacity, kept + added)
        for name, old in zip(("key", "value"), self.held(), strict=True):
            buffer = getattr(self, name)
            if not self.ours or buffer.shape[-2] != room:
                buffer = _room(old, room)
            buffer[:, :, :kept] = old.clone()  # the two may overlap
            setattr(self, name, buffer)
        self.start, self.end, self.ours = 0, kept, True


def _room(x: Tensor, positions: int) -> Tensor:
    """Memory for so many positions like those of ``x``."""
    return x.new_empty(*x.shape[:2], positions, x.shape[-1])
