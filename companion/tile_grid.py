"""Which tiles of the scores need work, and what is hidden in them.

The scores of one head are a matrix ``L x S`` that is never made. It is cut into tiles, some queries against some keys.
Where a rule is known by its bounds, whole tiles outside them are passed over, and tiles inside them need no mask; any
other mask is asked about one tile at a time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from companion.call import Call
from companion.mask import Mask, Rule

__all__: list[str] = []

CELLS = {"cpu": 2**21}
"""Scores held at once: on a CPU 8 MB in float32, which its cache keeps. On a GPU ``MANY``, since each step costs."""
MANY = 2**25


class Block(NamedTuple):
    """Heads that are worked on together: ``entries`` of the batch, ``groups`` of keys, and the ``heads`` of those."""

    entries: slice
    groups: slice
    heads: slice


class Grid:
    """The tiles of one call.

    Args:
        call: checked.
        tile: how many queries and keys a tile has at most; None chooses.
    """

    def __init__(self, call: Call, tile: tuple[int, int] | None = None) -> None:
        self.call, self.bounds = call, call.bounds()
        self.share = call.num_heads // call.key.shape[1]  # H / G
        self.height, self.width = default_tile(call) if tile is None else tile
        (length, keys), mask = call.lengths, call.mask
        self.height, self.width = min(self.height, length), min(self.width, keys)
        self.shift = keys - length  # of a query's place among the keys
        self.rule: Rule | None = None
        if isinstance(mask, Mask) and not mask.bounds.exact:
            self.rule = mask.rule(call.query.shape[0], length, keys, call.device)
        # Reading a number makes a GPU wait, so there no tile is passed over for what a tensor holds.
        self.reads = _reads(call.device)
        self.overflows = not self.reads or _may_overflow(call)
        self._caps: dict[tuple[int, int, int], Tensor] = {}

    @property
    def cells(self) -> int:
        """The largest number of scores in a tile of a block."""
        first = next(self.blocks(), None)
        if first is None:
            return 0
        entries, _, heads = first
        return (entries.stop - entries.start) * (heads.stop - heads.start) * self.height * self.width

    def blocks(self) -> Iterator[Block]:
        """All heads of all entries, as many at a time as the memory for their scores allows."""
        batch, groups = self.call.key.shape[:2]
        one = max(1, self.height * self.width * self.share)
        at_once = max(1, _cells(self.call.device) // one)
        for entries in cut(0, batch, max(1, at_once // groups)):
            for some in cut(0, groups, min(at_once, groups)):
                yield Block(entries, some, slice(some.start * self.share, some.stop * self.share))

    def rows(self) -> Iterator[slice]:
        """The queries of each row of tiles."""
        return cut(0, self.call.lengths[0], self.height)

    def columns(self, block: Block, rows: slice) -> Iterator[tuple[slice, Tensor | None]]:
        """The keys of each tile in which something may be seen, and a cap on its scores.

        Yields:
            A slice of the keys and, unless all may be seen, a table ``(b, h, rows, keys)``, each dim but the last 1
            or full: infinity where a query may attend, minus infinity where it may not.
        """
        before, after, lengths, _ = self.bounds
        keys = self.call.lengths[1]
        first, last = 0, keys
        if before is not None:
            first = max(first, rows.start + self.shift - before)
        if after is not None:
            last = min(last, rows.stop + self.shift + after)
        shortest = keys
        if lengths is not None:
            here = lengths[block.entries]
            if _reads(here.device):
                shortest = int(here.min())
                last = min(last, int(here.max()))
            else:
                shortest = 0
        for cols in cut(first, last, self.width):
            near, whole = self._between(rows, cols), cols.stop <= shortest
            asked = self._answers(block, rows, cols)
            if asked is None and whole:
                yield cols, None if near else self._band(rows, cols)
                continue
            says = (asked, None if whole else self._real(block, cols), None if near else self._band(rows, cols) > 0)
            allowed = reduce(operator.and_, (each for each in says if each is not None))
            if not self.reads:
                yield cols, _cap(allowed, self.call)
            elif allowed.any():
                yield cols, None if allowed.all() else _cap(allowed, self.call)

    def _between(self, rows: slice, cols: slice) -> bool:
        """Whether every query of a tile may reach every key, as far as distance goes."""
        before, after = self.bounds[:2]
        place, last = rows.start + self.shift, rows.stop - 1 + self.shift
        return (after is None or cols.stop - 1 <= place + after) and (before is None or cols.start >= last - before)

    def _band(self, rows: slice, cols: slice) -> Tensor:
        """The cap that distance sets: ``(1, 1, rows, keys)``. Tiles at one place along the diagonal share it."""
        place = rows.start + self.shift - cols.start
        kept = (place, rows.stop - rows.start, cols.stop - cols.start)
        if kept not in self._caps:
            if len(self._caps) >= 4:
                self._caps.clear()
            device = self.call.device
            k = torch.arange(kept[2], device=device)
            p = torch.arange(place, place + kept[1], device=device).unsqueeze(-1)
            before, after = self.bounds[:2]
            near = torch.ones_like(p - k, dtype=torch.bool)
            if before is not None:
                near &= k >= p - before
            if after is not None:
                near &= k <= p + after
            self._caps[kept] = _cap(near, self.call)[None, None]
        return self._caps[kept]

    def _real(self, block: Block, cols: slice) -> Tensor:
        """Which keys are no padding: ``(b, 1, 1, keys)``."""
        assert self.bounds.lengths is not None
        lengths = self.bounds.lengths[block.entries].to(self.call.device)
        k = torch.arange(cols.start, cols.stop, device=self.call.device)
        return (k < lengths.unsqueeze(-1))[:, None, None]

    def _answers(self, block: Block, rows: slice, cols: slice) -> Tensor | None:
        """What a mask says of each pair in a tile, or None where the bounds say it all."""
        if isinstance(self.call.mask, Tensor):
            return part(self.call.mask, block, rows, cols)
        if self.rule is None:
            return None
        wanted, index = [], []
        for axis, here in enumerate((block.entries, block.heads, rows, cols)):
            one = torch.arange(here.start, here.stop, device=self.call.device)
            index.append(one.view([-1 if dim == axis else 1 for dim in range(4)]))
            wanted.append(one.shape[0])
        b, h, q, k = index
        answer = self.rule(b, h, q, k)
        if not isinstance(answer, Tensor) or answer.dtype is not torch.bool:
            kind = answer.dtype if isinstance(answer, Tensor) else type(answer).__name__
            raise TypeError(f"predicate of {self.call.mask} must return a boolean tensor, got {kind}")
        pairs = zip(reversed(answer.shape), reversed(wanted), strict=False)
        if answer.dim() > 4 or any(got not in (1, want) for got, want in pairs):
            raise ValueError(
                f"predicate of {self.call.mask} must answer about the indices it is given, here {tuple(wanted)} of "
                f"(B, H, L, S); got shape {tuple(answer.shape)}"
            )
        return answer[(None,) * (4 - answer.dim())]


def default_tile(call: Call) -> tuple[int, int]:
    """How many queries and keys a tile should have; measured on CPUs, where matrix products like about 512 of each."""
    batch, heads, length, _ = call.query.shape
    keys, share, bounds = call.key.shape[2], heads // call.key.shape[1], call.bounds()
    side = 512 if call.device.type == "cpu" else 2048
    # A tile on the edge of what may be seen is computed whole and used in part, so there it should be low.
    if bounds.before is None or bounds.after is None:
        height = side if bounds.before is bounds.after is None else min(side // 2, max(side // 4, length // 8))
        height = min(length, max(32, height // share))
        return height, min(keys, max(side, side * side // max(1, 2 * height * share)))
    # In a band as low as pays, since each step has its price.
    band, low = bounds.before + bounds.after, 64
    while low < side // 2 and (8 * low < band or batch * heads * low * (low + band) < _cells(call.device) // 16):
        low *= 2
    height = min(length, max(32, low // share))
    return height, min(keys, 4 * side, height + band)


def cut(first: int, last: int, step: int) -> Iterator[slice]:
    """Slices of at most ``step`` from ``first`` to ``last``."""
    for start in range(first, last, max(1, step)):
        yield slice(start, min(start + step, last))


def part(x: Tensor, block: Block, rows: slice, cols: slice) -> Tensor:
    """What a mask or bias ``(B|1, H|1, L|1, S)`` says about a tile."""
    sizes = zip(x.shape, (block.entries, block.heads, rows), strict=False)
    return x[(*(slice(None) if size == 1 else here for size, here in sizes), cols)]


def _cells(device: torch.device) -> int:
    return CELLS.get(device.type, MANY)


def _reads(device: torch.device) -> bool:
    """Whether reading a number waits for nothing."""
    return device.type == "cpu"


def _may_overflow(call: Call) -> bool:
    """Whether a hidden score could be a NaN: by the bias, or by leaving the range of floats though no input has.

    Memory that nobody wrote to holds such keys.
    """
    if not call.query.numel() or not call.key.numel():
        return False
    if call.bias is not None and call.bias.numel() and math.isnan(float(call.bias.detach().amax())):
        return True
    query, key = (max(abs(float(end)) for end in torch.aminmax(x.detach())) for x in (call.query, call.key))
    dtype = torch.float64 if call.query.dtype is torch.float64 else torch.float32
    largest = query * key * abs(call.scale) * call.query.shape[-1]
    return not largest < torch.finfo(dtype).max / 2  # NaN too


def _cap(allowed: Tensor, call: Call) -> Tensor:
    """Booleans to infinities, which ``minimum`` applies several times as fast as ``masked_fill``."""
    dtype = torch.float64 if call.query.dtype is torch.float64 else torch.float32
    return torch.where(allowed, math.inf, -math.inf).to(dtype)
