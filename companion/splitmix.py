r"""Random numbers that are the same everywhere: on every machine, in every version of Python, NumPy and PyTorch.

PyTorch promises no such thing, and the book's tasks and its text must not change when a library does. So here is
SplitMix64: a counter that grows by a fixed odd step, and a mixing function over it,

.. math::

   z \leftarrow s + 0.618\ldots \cdot 2^{64}, \qquad
   z \leftarrow (z \oplus z \gg 30)\, a, \qquad
   z \leftarrow (z \oplus z \gg 27)\, b, \qquad
   z \oplus z \gg 31

in whole numbers modulo 2**64. For data it is more than good enough; it is no cryptography.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from companion import check
from companion.typing import Float, Int

__all__ = ["SplitMix"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLOCK = 4096


class SplitMix:
    """A seeded source of random numbers.

    Args:
        seed: a whole number from 0.

    Raises:
        TypeError: ``seed`` is no int.
        ValueError: ``seed`` is negative, or 2**64 or more.

    Example:
        >>> SplitMix(0).bits(1)  # the published first output for seed 0
        array([16294208416658607535], dtype=uint64)
        >>> SplitMix(0).integers(10, (2, 4))
        tensor([[8, 4, 0, 9],
                [1, 3, 1, 7]])

    Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17.
    """

    def __init__(self, seed: int = 0) -> None:
        if check.integer("seed", seed, minimum=0) >= 2**64:
            raise ValueError(f"seed must be less than 2**64, got {seed}")
        self._state = int(seed)
        self._ready: list[int] = []

    def bits(self, count: int) -> NDArray[np.uint64]:
        """The next numbers of the sequence, 64 bits each.

        Args:
            count: how many.

        Returns:
            ``(count,)``.

        Raises:
            TypeError: ``count`` is no int.
            ValueError: ``count`` is negative.
        """
        check.integer("count", count, minimum=0)
        z = np.uint64(self._state) + _STEP * np.arange(1, count + 1, dtype=np.uint64)  # arrays wrap around in silence
        self._state = (self._state + count * int(_STEP)) % 2**64
        z = (z ^ (z >> np.uint64(30))) * _A
        z = (z ^ (z >> np.uint64(27))) * _B
        return z ^ (z >> np.uint64(31))

    def integers(self, high: int, shape: tuple[int, ...] = ()) -> Int[Tensor, "*shape"]:
        """Whole numbers from 0 to ``high - 1``, each as likely (to one part in 2**32 / ``high``).

        Args:
            high: one more than the largest.
            shape: of the result.

        Returns:
            int64, of that shape, on the CPU.

        Raises:
            TypeError: no ints.
            ValueError: ``high`` is less than 1 or more than 2**32, or a negative size.
        """
        _high(high)
        top = self.bits(_size(shape)) >> np.uint64(32)
        return torch.from_numpy((top * np.uint64(high) >> np.uint64(32)).astype(np.int64)).reshape(shape)

    def uniform(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*shape"]:
        """Numbers from 0 to 1, 1 left out.

        Args:
            shape: of the result.

        Returns:
            float64, of that shape, on the CPU.

        Raises:
            TypeError: no ints.
            ValueError: a negative size.
        """
        return torch.from_numpy((self.bits(_size(shape)) >> np.uint64(11)) * 2.0**-53).reshape(shape)

    def permutations(self, count: int, size: int) -> Int[Tensor, "count size"]:
        """Orders of ``size`` things, each as likely.

        Args:
            count: how many orders.
            size: of each.

        Returns:
            int64, ``(count, size)``, each row 0 to ``size - 1`` in some order, on the CPU.

        Raises:
            TypeError: no ints.
            ValueError: a negative size.
        """
        keys = self.bits(_size((count, size))).reshape(count, size)
        return torch.from_numpy(keys.argsort(axis=1, kind="stable").astype(np.int64))

    def below(self, high: int) -> int:
        """One whole number from 0 to ``high - 1``; the fast way to draw many, one by one.

        Args:
            high: one more than the largest.

        Returns:
            The number.

        Raises:
            TypeError: no int.
            ValueError: ``high`` is less than 1 or more than 2**32.
        """
        if high.__class__ is not int or not 0 < high <= 2**32:  # the quick look first
            _high(high)
        if not self._ready:
            self._ready = (self.bits(_BLOCK) >> np.uint64(32)).tolist()[::-1]
        return self._ready.pop() * high >> 32


def _high(high: int) -> None:
    if check.integer("high", high) > 2**32:
        raise ValueError(f"high must be at most 2**32, got {high}")


def _size(shape: object) -> int:
    if not isinstance(shape, tuple):
        raise TypeError(f"shape must be a tuple of ints, got {type(shape).__name__}")
    size = 1
    for number in shape:
        size *= check.integer("shape", number, minimum=0)
    return size
