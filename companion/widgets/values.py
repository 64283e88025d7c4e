"""Traits for what figures are made of: numbers, points and matrices, each number checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import traitlets

if TYPE_CHECKING:
    from torch import Tensor

__all__: list[str] = []


class Unfit(traitlets.TraitError, ValueError):
    """A value that a figure cannot show."""


class Number(traitlets.Float):
    """A float between two ends. ``Float`` alone lets NaN through, which is neither too small nor too large."""

    def validate(self, obj: Any, value: Any) -> float:
        """The number, or an error that names the trait."""
        got = float(super().validate(obj, value))
        if not math.isfinite(got):
            raise Unfit(f"{self.name} must be a finite number, got {got}")
        return got


class Point(traitlets.List):
    """A row of ``size`` numbers, or of ``least`` to ``most``, each from ``-limit`` to ``limit``."""

    def __init__(
        self,
        default: list[float],
        *,
        limit: float,
        size: int | None = 2,
        least: int = 1,
        most: int = 100,
        **options: Any,
    ) -> None:
        self.limit, self.size, self.least, self.most = limit, size, least, most
        super().__init__(traitlets.Float(), default, **options)

    def validate(self, obj: Any, value: Any) -> list[float]:
        """The row as floats, or an error that names the trait."""
        row = list(super().validate(obj, _listed(value)) or [])
        if not self.least <= len(row) <= self.most:
            raise Unfit(f"{self.name} must have {self.least} to {self.most} numbers, got {len(row)}")
        return _row(self.name, row, self.size or len(row), self.limit)


class Points(traitlets.List):
    """``least`` to ``most`` rows of ``size`` numbers."""

    def __init__(
        self,
        default: list[list[float]],
        *,
        limit: float,
        size: int = 2,
        least: int = 1,
        most: int = 100,
        **options: Any,
    ) -> None:
        self.limit, self.size, self.least, self.most = limit, size, least, most
        super().__init__(traitlets.List(traitlets.Float()), default, **options)

    def validate(self, obj: Any, value: Any) -> list[list[float]]:
        """The rows as floats, or an error that names the trait."""
        rows = list(super().validate(obj, _listed(value)) or [])
        if not self.least <= len(rows) <= self.most:
            raise Unfit(f"{self.name} must have {self.least} to {self.most} rows, got {len(rows)}")
        return [_row(self.name, row, self.size, self.limit) for row in rows]


class Matrix(traitlets.List):
    """Rows of equal length, ``(rows, columns)`` each in a range."""

    def __init__(
        self,
        default: list[list[float]],
        *,
        limit: float,
        rows: tuple[int, int],
        columns: tuple[int, int],
        **options: Any,
    ) -> None:
        self.limit, self.rows, self.columns = limit, rows, columns
        super().__init__(traitlets.List(traitlets.Float()), default, **options)

    def validate(self, obj: Any, value: Any) -> list[list[float]]:
        """The rows as floats, or an error that names the trait."""
        table = list(super().validate(obj, _listed(value)) or [])
        width = len(table[0]) if table else 0
        for kind, got, (least, most) in (("rows", len(table), self.rows), ("columns", width, self.columns)):
            if not least <= got <= most:
                raise Unfit(f"{self.name} must have {least} to {most} {kind}, got {got}")
        return [_row(self.name, row, width, self.limit) for row in table]


def _kind(value: Any) -> str:
    return type(value).__name__


def _listed(value: Any) -> Any:
    """Tensors and arrays as the lists that they print."""
    return value.tolist() if hasattr(value, "tolist") else value


def _row(name: str | None, row: list[float], size: int, limit: float) -> list[float]:
    if len(row) != size:
        raise Unfit(f"{name} must have {size} numbers in a row, got {len(row)}")
    if not all(math.isfinite(x) and abs(x) <= limit for x in row):
        raise Unfit(f"{name} must have numbers from {-limit:g} to {limit:g}, got {row}")
    return [float(x) for x in row]


class Heads(traitlets.Dict):
    """Attention weights, ``(layers, H, L, S)``: taken as a tensor or lists, kept packed."""

    def validate(self, obj: Any, value: Any) -> dict[str, Any]:
        """Packed weights, or an error that names the trait."""
        from companion.widgets.packed import pack, sound

        if isinstance(value, dict):
            if not sound(value):
                raise Unfit(f"{self.name} must be packed as companion.widgets packs them")
            return value
        return pack(self._table(value))

    def _table(self, value: Any) -> Tensor:
        import torch

        try:
            layers = [torch.as_tensor(x) for x in value]
            table = torch.stack([x[0] if x.dim() == 4 and len(x) == 1 else x for x in layers]).detach()
            table = table.to("cpu", torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise Unfit(f"{self.name} must be numbers (layers, H, L, S), got {_kind(value)}") from error
        if table.dim() != 4 or not table.numel():
            raise Unfit(f"{self.name} must be (layers, H, L, S), got shape {tuple(table.shape)}")
        if table.numel() > 250_000 or max(table.shape) > 48:
            raise Unfit(f"{self.name} must be at most 48 each way and 250,000 in all, got shape {tuple(table.shape)}")
        if not bool(((table >= -1e-6) & (table <= 1 + 1e-6)).all()):
            raise Unfit(f"{self.name} must be from 0 to 1, got {float(table.min())} to {float(table.max())}")
        return table.clamp(0, 1)
