r"""Positions as angles: what sinusoidal and rotary positions share.

.. math:: \omega_c = \text{base}^{-2c / D}, \qquad \theta_{t, c} = t\, \omega_c

Frequencies stay in float32, whatever dtype a model is moved to: bf16 cannot tell position 256 from 257.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from companion import check
from companion.typing import Float, Int

__all__: list[str] = []


class Angles(nn.Module):
    """Holds the frequencies of ``width / 2`` pairs of features.

    Args:
        name: what the width is called in messages.
        width: an even number of features.
        base: the slowest pair turns once in about ``2 * pi * base`` positions.
    """

    frequencies: Tensor

    def __init__(self, name: str, width: int, base: float) -> None:
        super().__init__()
        self.width = check.integer(name, width, minimum=2)
        if width % 2:
            raise ValueError(f"{name} must be even, since features turn in pairs, got {width}")
        self.base = check.real("base", base)
        if self.base <= 1:
            raise ValueError(f"base must be more than 1, got {self.base}")
        default = torch.empty(0).device
        self.register_buffer("frequencies", self._frequencies(default), persistent=False)

    def angles(self, positions: Int[Tensor, "*batch L"], dtype: torch.dtype) -> Float[Tensor, "*batch L half"]:
        """The angle of each pair at each position, in radians; in ``dtype``, but float32 at least."""
        wide = torch.promote_types(dtype, torch.float32)
        return positions.unsqueeze(-1).to(wide) * self.frequencies.to(wide)

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"{self.width}, base={self.base:g}"

    def _frequencies(self, device: torch.device) -> Tensor:
        pairs = torch.arange(0, self.width, 2, dtype=torch.float64, device="cpu")  # not every device has float64
        return (self.base ** (-pairs / self.width)).float().to(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move with the module, but made anew: ``to(dtype)`` would round them, ``to_empty()`` leave them blank."""
        super()._apply(fn, recurse)
        self.frequencies = self._frequencies(self.frequencies.device)
        return self


def checked_positions(
    positions: Tensor | None, length: int, batch: tuple[int, ...], device: torch.device
) -> Int[Tensor, "*batch L"]:
    """Positions ``(L,)`` or ``(*batch, L)``; refuse any other shape. 0 to ``L - 1`` if not given."""
    if positions is None:
        return torch.arange(length, device=device)
    where = check.integers("positions", positions)
    if check.shape(where) not in ((length,), (*batch, length)):
        either = f"(L,) = {(length,)}" + (f" or (..., L) = {(*batch, length)}" if batch else "")
        raise ValueError(f"positions must have shape {either}, got {check.shape(where)}")
    if where.device != device:
        raise ValueError(f"positions must be on the device of x, {device}, got {where.device}")
    return where
