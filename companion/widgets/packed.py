"""Weights of many heads in little text, for a page to carry.

Each row is written in whole parts of its own total, so that its parts add up to what the row did: to 255 parts of one
where there are many weights, to 65,535 where there are few. A part of 255 takes a letter; a larger number of them has a
mark before its letter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__: list[str] = []

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
MARKS = ("", ".", "!", "~")
FINE_UP_TO = 4096
"""So many weights and no more get the finer parts."""


def pack(weights: Tensor) -> dict[str, Any]:
    """Write weights as text.

    Args:
        weights: ``(layers, H, L, S)``, each from 0 to 1.

    Returns:
        ``shape``, ``parts`` (of one: 255 or 65,535) and ``text``.
    """
    parts = 65_535 if weights.numel() <= FINE_UP_TO else 255
    whole = _parts(weights.detach().to("cpu", torch.float64).numpy(), parts)
    if parts == 255:
        table = np.array([MARKS[x // 64] + LETTERS[x % 64] for x in range(256)])
        text = "".join(table[whole].ravel())
    else:
        text = "".join(LETTERS[x >> 12] + LETTERS[x >> 6 & 63] + LETTERS[x & 63] for x in whole.ravel().tolist())
    return {"shape": list(weights.shape), "parts": parts, "text": text}


def _parts(weights: np.ndarray[Any, Any], parts: int) -> np.ndarray[Any, Any]:
    """Whole parts of one; those of a row add up to its total: the largest remainders are rounded up."""
    scaled = weights * parts
    whole = np.floor(scaled)
    missing = np.rint(scaled.sum(-1, keepdims=True)) - whole.sum(-1, keepdims=True)
    # How many in the row have a larger remainder; the first of equals comes first.
    rank = np.argsort(np.argsort(whole - scaled, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.minimum(whole + (rank < missing), parts).astype(np.int64)


def unpack(packed: dict[str, Any]) -> Tensor:
    """Read what ``pack`` wrote.

    Args:
        packed: ``shape``, ``parts`` and ``text``.

    Returns:
        ``(layers, H, L, S)``, float64, each at most one part from what was packed.
    """
    value = {letter: x for x, letter in enumerate(LETTERS)}
    text = packed["text"]
    numbers: list[int] = []
    if packed["parts"] == 255:
        more = 0
        for letter in text:
            if letter in MARKS:
                more = 64 * MARKS.index(letter)
            else:
                numbers.append(more + value[letter])
                more = 0
    else:
        numbers = [value[text[i]] << 12 | value[text[i + 1]] << 6 | value[text[i + 2]] for i in range(0, len(text), 3)]
    return (torch.tensor(numbers, dtype=torch.float64) / packed["parts"]).view(packed["shape"])


def sound(packed: dict[str, Any]) -> bool:
    """Whether ``unpack`` can read it."""
    try:
        if (
            set(packed) != {"shape", "parts", "text"}
            or packed["parts"] not in (255, 65_535)
            or len(packed["shape"]) != 4
        ):
            return False
        unpack(packed)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError):
        return False
    return True
