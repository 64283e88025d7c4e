r"""What a decoder need not compute twice: the keys and values of the tokens it has seen.

To write token t, attention needs the query of that token alone, and all keys and values up to it. Those do not change,
so they are kept. A step then costs what one query costs, not what the whole text costs.

A cache is for decoding. Under ``torch.no_grad`` it writes into memory that was set aside once; where gradients are
wanted it makes new tensors instead, and stays right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from companion import check
from companion.typing import Float, Int

__all__ = ["KVCache", "RollingKVCache"]


@dataclass
class _Layer:
    """One layer's memory: of the buffers' positions, ``start`` to ``end`` are in use; ``seen`` were ever added."""

    key: Tensor
    value: Tensor
    start: int = 0
    end: int = 0
    seen: int = 0


class KVCache:
    """Keys and values of up to ``max_length`` positions, for each of some layers.

    Memory is set aside at a layer's first update: ``B * G * max_length * (D + E)`` numbers a layer.

    Args:
        max_length: how many positions it can hold.
        num_layers: how many layers it serves.

    Raises:
        TypeError: no ints.
        ValueError: less than 1.

    Example:
        >>> cache, one = KVCache(max_length=8), torch.ones(1, 1, 1, 2)  # (B, G, 1, D)
        >>> cache.update(0, one, one)[0].shape, cache.update(0, one, one)[0].shape
        (torch.Size([1, 1, 1, 2]), torch.Size([1, 1, 2, 2]))
        >>> cache.length
        2
    """

    def __init__(self, max_length: int, num_layers: int = 1) -> None:
        self.max_length = check.integer("max_length", max_length)
        self.num_layers = check.integer("num_layers", num_layers)
        self._layers: list[_Layer | None] = [None] * num_layers

    @property
    def length(self) -> int:
        """How many positions every layer has seen: what the next token's position is, before a step begins."""
        return min(self.seen(layer) for layer in range(self.num_layers))

    def seen(self, layer: int) -> int:
        """How many positions one layer has seen. Within a step, lower layers are ahead of upper ones.

        Args:
            layer: which, from 0.

        Returns:
            The count.

        Raises:
            TypeError: no int.
            ValueError: no such layer.
        """
        held = self._layers[self._index(layer)]
        return 0 if held is None else held.seen

    def update(
        self, layer: int, key: Float[Tensor, "B G n D"], value: Float[Tensor, "B G n E"]
    ) -> tuple[Float[Tensor, "B G S D"], Float[Tensor, "B G S E"]]:
        """Add new positions at the end.

        Args:
            layer: which, from 0.
            key: ``(B, G, n, D)``, as attention takes it: already turned, where positions are rotary.
            value: ``(B, G, n, E)``.

        Returns:
            All keys and values held, ``(B, G, S, D)`` and ``(B, G, S, E)``: views, good until the next update.

        Raises:
            TypeError: no floating-point tensors, or another dtype than before.
            ValueError: shapes or devices that do not fit what is held, or more positions than ``max_length``.
        """
        index = self._index(layer)
        held = self._checked(index, key, value)
        added = key.shape[-2]
        self._limit(held, added)
        if torch.is_grad_enabled() and any(x.requires_grad for x in (key, value, held.key, held.value)):
            held.key = torch.cat([held.key[:, :, held.start : held.end], key], dim=-2)
            held.value = torch.cat([held.value[:, :, held.start : held.end], value], dim=-2)
            held.start, held.end = 0, held.key.shape[-2]
        else:
            self._make_room(held, added)
            held.key[:, :, held.end : held.end + added] = key
            held.value[:, :, held.end : held.end + added] = value
            held.end += added
        held.seen += added
        both = held.key[:, :, held.start : held.end], held.value[:, :, held.start : held.end]
        self._forget(held)
        return both

    def keep(self, layer: int, make: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """For cross-attention: make keys and values at the first call, and hand out the same ones ever after.

        Args:
            layer: which, from 0.
            make: returns ``key (B, G, S, D)`` and ``value (B, G, S, E)``.

        Returns:
            The pair.

        Raises:
            TypeError: ``layer`` is no int.
            ValueError: no such layer.
        """
        index = self._index(layer)
        held = self._layers[index]
        if held is None:
            key, value = make()
            length = key.shape[-2]
            held = self._layers[index] = _Layer(key, value, 0, length, length)
        return held.key[:, :, held.start : held.end], held.value[:, :, held.start : held.end]

    def crop(self, n: int) -> None:
        """Forget all but the first ``n`` positions: step back, as when a draft is rejected.

        Args:
            n: how many to keep, at most ``length``.

        Raises:
            TypeError: no int.
            ValueError: negative, or more than are held.
        """
        check.integer("n", n, minimum=0)
        if n > self.length:
            raise ValueError(f"n must be at most the {self.length} positions held, got {n}")
        for held in self._layers:
            if held is not None:
                self._crop(held, held.seen - n)

    def reorder(self, entries: Int[Tensor, " B"]) -> None:
        """Take batch entries anew, some twice and some not at all, as beam search does.

        Args:
            entries: which of the old entries each new one continues, ``(B,)`` integers.

        Raises:
            TypeError: ``entries`` is no integer tensor.
            ValueError: ``entries`` is not ``(B,)``.
        """
        chosen = check.int_or_bool("entries", entries)
        if chosen.dtype is torch.bool:
            raise TypeError("entries must be integers (B,), got torch.bool")
        for held in self._layers:
            if held is not None:
                held.key, held.value = (x.index_select(0, chosen.to(x.device)) for x in (held.key, held.value))

    def reset(self) -> None:
        """Forget everything, and give the memory back."""
        self._layers = [None] * self.num_layers

    def _index(self, layer: int) -> int:
        index = check.integer("layer", layer, minimum=0)
        if index >= self.num_layers:
            raise ValueError(f"layer must be less than num_layers={self.num_layers}, got {layer}")
        return index

    def _checked(self, layer: int, key: Tensor, value: Tensor) -> _Layer:
        """Refuse what does not fit; set memory aside at the first update."""
        for name, x in (("key", key), ("value", value)):
            check.floating(name, x)
            if x.dim() != 4:
                raise ValueError(f"{name} must be (B, G, n, D), got shape {check.shape(x)}")
        if key.shape[:3] != value.shape[:3]:
            raise ValueError(
                f"key and value must agree but for their width, got {check.shape(key)} and {check.shape(value)}"
            )
        held = self._layers[layer]
        if held is None:
            keys, values = (x.new_empty(*x.shape[:2], self.max_length, x.shape[-1]) for x in (key, value))
            held = _Layer(keys, values)
            self._layers[layer] = held
        for name, x, old in (("key", key, held.key), ("value", value, held.value)):
            check.same_dtype(**{name: x, "cache": old})
            check.same_device(**{name: x, "cache": old})
            if (*x.shape[:2], x.shape[-1]) != (*old.shape[:2], old.shape[-1]):
                batch, groups, width = *old.shape[:2], old.shape[-1]
                raise ValueError(
                    f"{name} must be (B, G, n, width) = ({batch}, {groups}, n, {width}), as before; "
                    f"got {check.shape(x)}"
                )
        return held

    def _limit(self, held: _Layer, added: int) -> None:
        if held.seen + added > self.max_length:
            raise ValueError(
                f"key has {added} positions, and the cache holds {held.seen} of max_length={self.max_length}"
            )

    def _make_room(self, held: _Layer, added: int) -> None:
        """Move what is held to the front of its memory, or of a larger one."""
        kept = held.end - held.start
        if held.end + added <= held.key.shape[-2]:
            return
        room = max(self.max_length, kept + added)
        for name in ("key", "value"):
            old = getattr(held, name).detach()
            front = old if old.shape[-2] == room else old.new_empty(*old.shape[:2], room, old.shape[-1])
            front[:, :, :kept] = old[:, :, held.start : held.end].clone()  # the two may overlap
            setattr(held, name, front)
        held.start, held.end = 0, kept

    def _forget(self, held: _Layer) -> None:
        """What is dropped after an update: nothing here."""

    def _crop(self, held: _Layer, dropped: int) -> None:
        held.end -= dropped
        held.seen -= dropped


class RollingKVCache(KVCache):
    """Keys and values of the last positions only, for attention in a sliding window.

    An update returns the new positions and the ``window - 1`` before them: all that ``sliding_window(window)`` lets the
    new queries see. Memory does not grow with the text.

    Args:
        window: how many keys a query sees, itself included.
        num_layers: how many layers it serves.
        max_step: the most positions that one update may add without setting new memory aside.

    Raises:
        TypeError: no ints.
        ValueError: less than 1.

    Example:
        >>> cache, one = RollingKVCache(window=2), torch.ones(1, 1, 1, 2)
        >>> [cache.update(0, one, one)[0].shape[-2] for _ in range(3)], cache.length
        ([1, 2, 2], 3)
    """

    def __init__(self, window: int, num_layers: int = 1, max_step: int = 1) -> None:
        self.window = check.integer("window", window)
        self.max_step = check.integer("max_step", max_step)
        # Twice the window, so that only every window-th step has to move what is kept to the front.
        super().__init__(2 * self.window + self.max_step, num_layers)

    def _limit(self, held: _Layer, added: int) -> None:
        """None: what is old makes room for what is new."""

    def _forget(self, held: _Layer) -> None:
        held.start = max(held.start, held.end - (self.window - 1))

    def _crop(self, held: _Layer, dropped: int) -> None:
        left = held.end - dropped
        needed = min(self.window - 1, held.seen - dropped)
        if left < needed:
            raise ValueError(f"n is too far back: of the {needed} positions before it, {max(left, 0)} are still held")
        held.end, held.start = left, left - needed
        held.seen -= dropped
