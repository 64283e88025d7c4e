"""The forms in which modules take a mask: of what shape, of what numbers, and what True means."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from companion.clinic.adapter import SHAPES

__all__: list[str] = []

NUMBERS = ("bool", "int", "-inf", "float", "min")
"""True and False; 1 and 0; 0 and −∞ to add; 1.0 and 0.0; 0 and the smallest number to add."""


class Form(NamedTuple):
    """One form of a mask.

    Attributes:
        argument: what it is passed as.
        shape: one of ``adapter.SHAPES``.
        numbers: one of ``NUMBERS``.
        meaning: of True: ``"may attend"`` or ``"is hidden"``; of floats that are added: ``"is added"``.
    """

    argument: str
    shape: str
    numbers: str
    meaning: str = "may attend"

    def fits(self, allowed: Tensor) -> bool:
        """Whether this shape can say so: ``allowed (B, L, S)``."""
        if self.shape == "(L, S)":
            return bool((allowed == allowed[:1]).all())
        if self.shape in ("(B, S)", "(B, 1, 1, S)"):
            return bool((allowed == allowed[:, :1]).all())
        return True

    def make(self, allowed: Tensor, dtype: torch.dtype, heads: int) -> dict[str, Tensor]:
        """The argument that lets each query attend where ``allowed (B, L, S)`` says so."""
        table = ~allowed if self.meaning == "is hidden" else allowed
        return {self.argument: filled(shaped(table, self.shape, heads), self.numbers, dtype)}

    def __str__(self) -> str:
        if self.meaning == "is added":
            return f"{self.argument}: floats {self.shape}, added to the scores"
        kind = {"bool": "booleans", "int": "ints", "float": "floats"}[self.numbers]
        true = "True" if self.numbers == "bool" else "1"
        return f"{self.argument}: {kind} {self.shape}, {true} {self.meaning}"


def shaped(table: Tensor, shape: str, heads: int) -> Tensor:
    """A table ``(B, L, S)`` in one of the shapes."""
    made = {
        "(L, S)": lambda: table[0],
        "(B, 1, L, S)": lambda: table[:, None],
        "(B, L, S)": lambda: table,
        "(B, 1, 1, S)": lambda: table[:, None, :1],
        "(B, S)": lambda: table[:, 0],
        "(B·H, L, S)": lambda: table.repeat_interleave(heads, 0),
    }
    return made[shape]().contiguous()


def filled(table: Tensor, numbers: str, dtype: torch.dtype) -> Tensor:
    """A boolean table in the numbers wanted; for what is added, False is hidden."""
    if numbers == "bool":
        return table
    if numbers in ("int", "float"):
        return table.to(torch.long if numbers == "int" else dtype)
    low = -math.inf if numbers == "-inf" else torch.finfo(dtype).min
    return torch.zeros(table.shape, dtype=dtype, device=table.device).masked_fill(~table, low)


def shapes_for(argument: str) -> tuple[str, ...]:
    """All shapes, the likelier first."""
    rows = ("(B, S)", "(B, 1, 1, S)")
    return SHAPES if "pad" not in argument else (*rows, *(shape for shape in SHAPES if shape not in rows))
