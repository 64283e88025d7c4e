r"""What a decoder need not compute twice: the keys and values of the tokens it has seen.

To write token t, attention needs the query of that token alone, and all keys and values up to it. Those do not change,
so they are kept. A step then costs what one query costs, not what the whole text costs.

A cache is for decoding. Under ``torch.no_grad`` it writes into memory that was set aside once; where gradients are
enabled it makes new tensors instead, at the price of a copy a step, and stays right.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from companion import check
from companion.layer_cache import LayerCache
from companion.typing import Bool, Float, Int

__all__ = ["KVCache", "RollingKVCache"]


class KVCache:
    """Keys and values of up to ``max_length`` positions, for each of some layers.

    Memory is set aside at a layer's first update: ``B * G * max_length * (D + E)`` numbers a layer.

    Args:
        max_length: how many positions it can hold.
        num_layers: how many layers it serves.

    Attributes:
        real: which of the positions are real tokens, ``(B, S)``, or None where all are. Models note it here, so that
            the padding of a prompt is still known when its text goes on.

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
        self.real: Bool[Tensor, "B S"] | None = None
        self._layers: list[LayerCache | None] = [None] * num_layers

    @property
    def length(self) -> int:
        """How many positions every layer has seen: what the next token's position is, before a step begins."""
        return min(self.seen(layer) for layer in range(self.num_layers))

    @property
    def level(self) -> bool:
        """Whether all layers have seen as much, as they have between steps."""
        return len({self.seen(layer) for layer in range(self.num_layers)}) == 1

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
            ValueError: shapes or devices that do not fit what is held, more positions than ``max_length``, or a layer
                that ``keep`` has filled.
        """
        index = self._index(layer)
        held = self._checked(index, key, value)
        self._limit(held, key.shape[-2])
        self._layers[index] = held
        both = held.add(key, value, self.max_length)
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
            TypeError: ``layer`` is no int, or ``make`` cannot be called.
            ValueError: no such layer, or one that ``update`` has filled.
        """
        index = self._index(layer)
        if not callable(make):
            raise TypeError(f"make must be callable, got {type(make).__name__}")
        held = self._layers[index]
        if held is None:
            held = self._layers[index] = LayerCache.memory(*make())
        if not held.fixed:
            raise ValueError(f"layer {layer} holds what self-attention has seen; a memory needs a cache of its own")
        return held.held()

    def crop(self, n: int) -> None:
        """Forget all but the first ``n`` positions: step back, as when a draft is rejected.

        Args:
            n: how many to keep, at most ``length``.

        Raises:
            TypeError: no int.
            ValueError: negative, more than are held, or further back than a rolling cache can go.
        """
        check.integer("n", n, minimum=0)
        if n > self.length:
            raise ValueError(f"n must be at most the {self.length} positions held, got {n}")
        layers = [held for held in self._layers if held is not None]
        for held in layers:  # all or none
            self._check_crop(held, held.seen - n)
        for held in layers:
            self._crop(held, held.seen - n)
        self.real = None if self.real is None else self.real[:, :n]

    def reorder(self, entries: Int[Tensor, " n"]) -> None:
        """Take batch entries anew, some twice and some not at all, as beam search does.

        Args:
            entries: which of the old entries each new one continues, ``(n,)`` integers.

        Raises:
            TypeError: ``entries`` is no integer tensor.
            ValueError: ``entries`` is not ``(n,)``, or there is no such entry.
        """
        chosen = check.int_or_bool("entries", entries, "n")
        if chosen.dtype is torch.bool:
            raise TypeError("entries must be integers (n,), got torch.bool")
        layers = [held for held in self._layers if held is not None]
        batch, largest = layers[0].key.shape[0] if layers else 0, check.extremes(chosen)[1]
        if layers and largest >= batch:
            raise ValueError(f"entries must be less than the batch, {batch}, got {largest}")
        for held in layers:
            held.take(chosen)
        if self.real is not None:
            self.real = self.real.index_select(0, chosen.to(self.real.device, torch.long))

    def reset(self) -> None:
        """Forget everything, and give the memory back."""
        self._layers = [None] * self.num_layers
        self.real = None

    def _index(self, layer: int) -> int:
        index = check.integer("layer", layer, minimum=0)
        if index >= self.num_layers:
            raise ValueError(f"layer must be less than num_layers={self.num_layers}, got {layer}")
        return index

    def _checked(self, layer: int, key: Tensor, value: Tensor) -> LayerCache:
        """Refuse what does not fit what the layer holds."""
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
            check.same_dtype(key=key, value=value)
            check.same_device(key=key, value=value)
            return LayerCache.empty(key, value)
        if held.fixed:
            raise ValueError(f"layer {layer} holds a memory; self-attention needs a cache of its own")
        held.require_same(key, value)
        return held

    def _limit(self, held: LayerCache, added: int) -> None:
        if held.seen + added > self.max_length:
            raise ValueError(
                f"key has {added} positions, and the cache holds {held.seen} of max_length={self.max_length}"
            )

    def _forget(self, held: LayerCache) -> None:
        """What is dropped after an update: nothing here."""

    def _check_crop(self, held: LayerCache, dropped: int) -> None:
        """Whether what would be left is still there: here it is."""

    def _crop(self, held: LayerCache, dropped: int) -> None:
        held.drop(dropped)


class RollingKVCache(KVCache):
    """Keys and values of the last positions only, for attention in a sliding window.

    An update returns the new positions and the ``window - 1`` before them: all that ``sliding_window(window)`` lets the
    new queries see. That mask is to be given too: of several new queries, each sees less. Memory does not grow with the
    text.

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

    def _limit(self, held: LayerCache, added: int) -> None:
        """None: what is old makes room for what is new."""

    def _forget(self, held: LayerCache) -> None:
        held.start = max(held.start, held.end - (self.window - 1))

    def _check_crop(self, held: LayerCache, dropped: int) -> None:
        left, needed = held.end - dropped, self._needed(held, dropped)
        if left < needed:
            raise ValueError(f"n is too far back: of the {needed} positions before it, {max(left, 0)} are still held")

    def _crop(self, held: LayerCache, dropped: int) -> None:
        super()._crop(held, dropped)
        held.start = held.end - self._needed(held, 0)

    def _needed(self, held: LayerCache, dropped: int) -> int:
        """How many positions the next query looks back on."""
        return min(self.window - 1, held.seen - dropped)
