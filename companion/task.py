"""What every task is: something that makes batches from a seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from companion import check
from companion.batch import LabelBatch, PairBatch, TextBatch
from companion.splitmix import SplitMix
from companion.vocabulary import Vocabulary

__all__ = ["Task"]

Batch = TypeVar("Batch", PairBatch, TextBatch, LabelBatch, covariant=True)


class Task(ABC, Generic[Batch]):
    """Makes batches.

    Args:
        vocabulary: of what it makes.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @property
    def vocab_size(self) -> int:
        """How many ids there are, the special ones included: what a model's config is given."""
        return len(self.vocabulary)

    def batch(self, size: int, seed: int = 0) -> Batch:
        """One batch.

        Args:
            size: ``B``.
            seed: the same one gives the same batch.

        Returns:
            The batch, on the CPU.

        Raises:
            TypeError: no ints.
            ValueError: ``size`` is less than 1, or ``seed`` negative.
        """
        return self.make(check.integer("size", size), SplitMix(seed))

    def batches(self, size: int, seed: int = 0) -> Iterator[Batch]:
        """Batches without an end; the first is ``batch(size, seed)``.

        Args:
            size: ``B``.
            seed: the same one gives the same batches.

        Returns:
            An iterator; ask again for another that starts anew.

        Raises:
            TypeError: no ints.
            ValueError: ``size`` is less than 1, or ``seed`` negative.
        """
        return self._go_on(check.integer("size", size), SplitMix(seed))

    def _go_on(self, size: int, random: SplitMix) -> Iterator[Batch]:
        while True:
            yield self.make(size, random)

    @abstractmethod
    def make(self, size: int, random: SplitMix) -> Batch:
        """The next batch from a source of random numbers."""
