"""The book's corpus as a task: read some letters, predict the next."""

from __future__ import annotations

import torch

from companion import check
from companion.batch import TextBatch
from companion.corpus import corpus, split_paragraphs
from companion.splitmix import SplitMix
from companion.task import Task
from companion.vocabulary import Vocabulary

__all__ = ["CharCorpus", "char_corpus"]


class CharCorpus(Task[TextBatch]):
    """Windows of a text; ``char_corpus`` makes it.

    Args:
        text: to read.
        vocabulary: its letters.
        length: how many letters a window predicts; it has one more.

    Attributes:
        text: all of it.
        ids: the same as ids, ``(len(text),)``.
    """

    def __init__(self, text: str, vocabulary: Vocabulary, length: int) -> None:
        super().__init__(vocabulary)
        self.text = text
        self.ids = torch.tensor(vocabulary.encode(text))
        self.length = check.integer("length", length)
        if length >= len(text):
            raise ValueError(f"length must be less than the text's {len(text)} letters, got {length}")

    def encode(self, text: str) -> list[int]:
        """Letters to ids; see :meth:`~companion.vocabulary.Vocabulary.encode`."""
        return self.vocabulary.encode(text)

    def decode(self, ids: list[int] | torch.Tensor) -> str:
        """Ids to letters; see :meth:`~companion.vocabulary.Vocabulary.decode`."""
        return self.vocabulary.decode(ids)

    def make(self, size: int, random: SplitMix) -> TextBatch:
        """The next batch: windows that begin anywhere."""
        start = random.integers(len(self.ids) - self.length, (size, 1))
        ids = self.ids[start + torch.arange(self.length + 1)]
        return TextBatch(ids, torch.ones_like(ids, dtype=torch.bool))


def char_corpus(length: int = 64, *, held_out: bool = False, text: str | None = None) -> CharCorpus:
    """The book's own corpus, letter by letter.

    Args:
        length: how many letters a window predicts; it has one more.
        held_out: take windows from the tenth of the paragraphs that is kept for validation. No sentence of it is among
            the others.
        text: read this instead; paragraphs with an empty line between, ten at least.

    Returns:
        The task. Both parts have the letters of the whole text.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: ``length`` does not fit, or the text has too few paragraphs.

    Example:
        >>> task = char_corpus(length=10)
        >>> batch = task.batch(1, seed=4)
        >>> batch.ids.shape
        torch.Size([1, 11])
        >>> task.decode(batch.ids[0]) in task.text
        True
    """
    check.flag("held_out", held_out)
    whole = corpus() if text is None else text
    train, validation = split_paragraphs(whole)
    return CharCorpus(validation if held_out else train, Vocabulary(sorted(set(whole))), length)
