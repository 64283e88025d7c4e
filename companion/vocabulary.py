"""Which number stands for which symbol: four special tokens, and then the symbols of a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from companion import check
from companion.typing import Bool, Int

__all__ = ["END", "MASK", "PAD", "START", "Vocabulary", "pad"]

PAD, START, END, MASK = range(4)
"""The special tokens, the same in every task: fills a batch, begins a target, ends it, hides a token."""

SPECIAL = ("<pad>", "<start>", "<end>", "<mask>")


class Vocabulary:
    """Symbols and their ids; the special tokens come first.

    Args:
        symbols: each a str, all different: the letters of a text, or words.

    Attributes:
        symbols: all of them, the special ones included; the id is the place.

    Raises:
        TypeError: a symbol is no str.
        ValueError: no symbols, the same one twice, or one that looks like a special token.

    Example:
        >>> letters = Vocabulary("abc")
        >>> letters.encode("cab")
        [6, 4, 5]
        >>> letters.decode([1, 6, 4, 5, 2, 0])
        'cab'
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        if isinstance(symbols, Tensor) or not isinstance(symbols, Iterable):
            raise TypeError(f"symbols must be strings, got {type(symbols).__name__}")
        own = tuple(symbols)
        for symbol in own:
            if not isinstance(symbol, str):
                raise TypeError(f"symbols must be strings, got {type(symbol).__name__} ({symbol!r})")
        self.symbols = SPECIAL + own
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols)}
        if not own or len(self._ids) < len(self.symbols):
            raise ValueError(f"symbols must be all different, at least one, and none of {SPECIAL}; got {own!r}")

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: Iterable[str]) -> list[int]:
        """Turn symbols to ids.

        Args:
            text: a str, where the symbols are letters, or a list of symbols.

        Returns:
            Their ids; no start or end is added.

        Raises:
            TypeError: ``text`` is neither.
            ValueError: a symbol that is not in the vocabulary.
        """
        if isinstance(text, Tensor) or not isinstance(text, Iterable):
            raise TypeError(f"text must be a str or a list of symbols, got {type(text).__name__}")
        ids = []
        for symbol in text:
            if symbol not in self._ids:
                raise ValueError(f"text must be of the vocabulary's symbols, got {symbol!r}")
            ids.append(self._ids[symbol])
        return ids

    def decode(self, ids: Sequence[int] | Int[Tensor, " L"]) -> str:
        """Turn ids to text, up to the end token; start, padding and mask tokens are left out.

        Args:
            ids: ``(L,)``.

        Returns:
            The symbols, joined.

        Raises:
            TypeError: ``ids`` is no list or tensor of ints.
            ValueError: ``ids`` has more than one dim, or an id is not in the vocabulary.
        """
        if isinstance(ids, Tensor) and ids.dim() != 1:
            raise ValueError(f"ids must have shape (L,), got {check.shape(ids)}")
        text = []
        for number in _list("ids", ids.tolist() if isinstance(ids, Tensor) else ids):
            if check.integer("ids", number, minimum=0) >= len(self):
                raise ValueError(f"ids must be less than {len(self)}, got {number}")
            if number == END:
                break
            if number >= len(SPECIAL):
                text.append(self.symbols[number])
        return "".join(text)


def pad(
    rows: Sequence[Sequence[int]], *, length: int | None = None, left: bool = False
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Make one table of rows of different lengths.

    Args:
        rows: ids, a list a row.
        length: of the table; that of the longest row if not given.
        left: put the padding before the text.

    Returns:
        ids ``(B, L)``, and ``True`` for a real token, ``(B, L)``.

    Raises:
        TypeError: ``rows`` are no lists of ints, or ``left`` is no bool.
        ValueError: no rows, or one longer than ``length``.

    Example:
        >>> pad([[5, 6], [7]])
        (tensor([[5, 6],
                [7, 0]]), tensor([[ True,  True],
                [ True, False]]))
    """
    if not _list("rows", rows):
        raise ValueError("rows must be at least one, got none")
    check.flag("left", left)
    for row in rows:
        for number in _list("rows", row):
            check.integer("rows", number, minimum=0)
    longest = max(map(len, rows))
    width = longest if length is None else check.integer("length", length)
    if longest > width:
        raise ValueError(f"length must be at least {longest}, that of the longest row, got {width}")
    ids = torch.full((len(rows), width), PAD)
    real = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(len(row))
        ids[i, place] = torch.tensor(row, dtype=torch.long)
        real[i, place] = True
    return ids, real


def _list(name: str, x: object) -> Sequence[Any]:
    """Refuse what is no list; of what, the caller looks."""
    if isinstance(x, str) or not isinstance(x, Sequence):
        raise TypeError(f"{name} must be a list of ints, got {type(x).__name__} ({x!r:.40})")
    return x
