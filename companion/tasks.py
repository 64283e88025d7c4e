"""Small tasks whose right answer is known, to train the book's models on in seconds.

Each is an object that makes batches from a seed: ``task.batch(64, seed=1)`` is the same wherever and whenever it runs,
and ``task.batches(64, seed=1)`` goes on from there, batch after batch.

>>> task = reverse(length=4)
>>> pair = task.batch(2, seed=0)
>>> [task.vocabulary.decode(row) for row in (pair.source[0], pair.target[0])]
['ogap', 'pago']
"""

from __future__ import annotations

from string import ascii_letters, digits

import torch

from companion import check
from companion.batch import LabelBatch, PairBatch, TextBatch
from companion.characters import CharCorpus, char_corpus
from companion.dates import Dates, dates
from companion.splitmix import SplitMix
from companion.task import Task
from companion.vocabulary import END, MASK, PAD, START, Vocabulary

__all__ = [
    "END",
    "MASK",
    "PAD",
    "START",
    "CharCorpus",
    "Dates",
    "LabelBatch",
    "PairBatch",
    "Repeats",
    "Sequences",
    "Task",
    "TextBatch",
    "char_corpus",
    "copy",
    "dates",
    "repeats",
    "reverse",
]


class Sequences(Task[PairBatch]):
    """Random symbols, to be written again in another order; ``copy`` and ``reverse`` make it.

    Args:
        symbols: how many different ones.
        length: of a sequence; with ``min_length`` the most that one has.
        min_length: the fewest; ``length`` if not given.
        backwards: write the last one first.
    """

    def __init__(self, symbols: int, length: int, min_length: int | None, *, backwards: bool) -> None:
        super().__init__(Vocabulary(_names(symbols)))
        self.count = symbols
        self.length = check.integer("length", length)
        self.min_length = self.length if min_length is None else check.integer("min_length", min_length)
        if self.min_length > self.length:
            raise ValueError(f"min_length must be at most length={length}, got {min_length}")
        self.backwards = backwards

    def make(self, size: int, random: SplitMix) -> PairBatch:
        """The next batch."""
        first = self.vocab_size - self.count
        source = random.integers(self.count, (size, self.length)) + first
        lengths = random.integers(self.length - self.min_length + 1, (size, 1)) + self.min_length
        place = torch.arange(self.length)
        source_real = place < lengths  # (B, S)
        # Where each target token comes from; what stands in the padding is hidden below.
        origin = (lengths - 1 - place if self.backwards else place.expand(size, -1)).clamp(min=0)
        target = torch.full((size, self.length + 2), PAD)
        target[:, 0] = START
        target[:, 1:-1] = source.gather(1, origin).masked_fill(~source_real, PAD)
        target.scatter_(1, lengths + 1, END)
        target_real = torch.arange(self.length + 2) < lengths + 2
        alignment = torch.zeros(size, self.length + 2, self.length, dtype=torch.bool)
        alignment[:, 1:-1] = (origin.unsqueeze(-1) == place) & source_real.unsqueeze(-1)
        return PairBatch(source.masked_fill(~source_real, PAD), target, source_real, target_real, alignment)


def copy(symbols: int = 16, length: int = 10, min_length: int | None = None) -> Sequences:
    """Write what was read.

    Args:
        symbols: how many different ones; a guess is right once in so many.
        length: of a sequence; with ``min_length`` the most that one has.
        min_length: the fewest; ``length`` if not given. Shorter ones are padded at the end.

    Returns:
        The task.

    Raises:
        TypeError: no ints.
        ValueError: numbers that do not fit.

    Example:
        >>> pair = copy(length=3, min_length=1).batch(3, seed=1)
        >>> pair.source
        tensor([[13, 15, 19],
                [11, 11,  0],
                [18, 12,  0]])
        >>> pair.target  # 0 is padding, 1 the start token, 2 the end token
        tensor([[ 1, 13, 15, 19,  2],
                [ 1, 11, 11,  2,  0],
                [ 1, 18, 12,  2,  0]])
    """
    return Sequences(symbols, length, min_length, backwards=False)


def reverse(symbols: int = 16, length: int = 10, min_length: int | None = None) -> Sequences:
    """Write what was read, the last symbol first.

    Args:
        symbols: how many different ones; a guess is right once in so many.
        length: of a sequence; with ``min_length`` the most that one has.
        min_length: the fewest; ``length`` if not given. Shorter ones are padded at the end.

    Returns:
        The task.

    Raises:
        TypeError: no ints.
        ValueError: numbers that do not fit.

    Example:
        >>> pair = reverse(length=3).batch(1)
        >>> pair.source, pair.target  # 1 is the start token, 2 the end token
        (tensor([[18, 10,  4]]), tensor([[ 1,  4, 10, 18,  2]]))
    """
    return Sequences(symbols, length, min_length, backwards=True)


class Repeats(Task[TextBatch]):
    """Random symbols that come again and again; ``repeats`` makes it."""

    def __init__(self, symbols: int, length: int, min_period: int, max_period: int) -> None:
        super().__init__(Vocabulary(_names(symbols)))
        self.count = symbols
        self.length = check.integer("length", length, minimum=3)
        self.min_period = check.integer("min_period", min_period)
        self.max_period = check.integer("max_period", max_period)
        most = min(symbols, length - 2)
        if not self.min_period <= self.max_period <= most:
            raise ValueError(
                f"periods must be at most {most}, for symbols={symbols} and length={length}, and min_period at most "
                f"max_period; got min_period={min_period} and max_period={max_period}"
            )

    def make(self, size: int, random: SplitMix) -> TextBatch:
        """The next batch."""
        first = self.vocab_size - self.count
        order = random.permutations(size, self.count) + first
        period = random.integers(self.max_period - self.min_period + 1, (size, 1)) + self.min_period
        place = torch.arange(self.length).expand(size, -1)
        start = torch.full((size, 1), START)
        ids = torch.cat([start, order.gather(1, place % period)], dim=1)
        counted = torch.cat([torch.zeros(size, 1, dtype=torch.bool), place > period], dim=1)
        return TextBatch(ids, torch.ones_like(ids, dtype=torch.bool), counted, period.squeeze(1))


def repeats(symbols: int = 26, length: int = 48, *, min_period: int = 4, max_period: int = 20) -> Repeats:
    """Random symbols that repeat after a while, never one twice before that: the task of induction heads.

    Each row has a period of its own. Who finds the current symbol earlier in the row, and looks one further, knows the
    next: token t then stands at t - period too. Predictions count from the second token of the first repetition on,
    since nothing before that can be known.

    Args:
        symbols: how many different ones.
        length: of a row, the start token apart.
        min_period: the smallest period.
        max_period: the largest.

    Returns:
        The task.

    Raises:
        TypeError: no ints.
        ValueError: periods that do not fit.

    Example:
        >>> text = repeats(symbols=5, length=6, min_period=3, max_period=3).batch(1)
        >>> text.ids
        tensor([[1, 6, 8, 5, 6, 8, 5]])
        >>> text.ids[text.counted]  # 6 then 8, so 8 again; but who knows what comes after the first 5?
        tensor([8, 5])

    Source: Olsson et al., "In-context Learning and Induction Heads", 2022 (arXiv:2209.11895).
    """
    return Repeats(symbols, length, min_period, max_period)


def _names(symbols: int) -> str:
    """A letter for each symbol: a to z, A to Z, digits, and then Chinese ones, of which there are enough."""
    letters = ascii_letters + digits
    if check.integer("symbols", symbols) > len(letters) + 20_000:
        raise ValueError(f"symbols must be at most {len(letters) + 20_000}, got {symbols}")
    return letters[:symbols] + "".join(chr(0x4E00 + i) for i in range(symbols - len(letters)))
