"""Small random inputs, and the experiment that decides nearly all: change one token, and see who notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__: list[str] = []

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


class Sizes(NamedTuple):
    """Lengths that cannot be taken for each other, nor for a number of heads: none divides ``M``."""

    B: int
    L: int
    S: int
    M: int
    H: int

    @property
    def D(self) -> int:
        """Width of a head."""
        return self.M // self.H

    @staticmethod
    def of(d_model: int, heads: int, length: int | None = None) -> Sizes:
        """Three primes that do not divide the width."""
        batch, queries, keys, *_ = [p for p in _PRIMES if d_model % p]
        if length is not None:
            queries, keys = length, length + 2
            batch = next(p for p in _PRIMES if d_model % p and p not in (queries, keys))
        return Sizes(batch, queries, keys, d_model, heads)


class Tokens(NamedTuple):
    """Inputs. In self-attention only ``query`` is there, in cross-attention no ``value``."""

    query: Tensor
    key: Tensor | None = None
    value: Tensor | None = None

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return (self.query if self.key is None else self.key).shape[-2]

    def with_key(self, other: Tokens, m: int) -> Tokens:
        """Token ``m``, as others see it, taken from other inputs, in all entries."""
        if self.key is None or other.key is None:
            return Tokens(_taken(self.query, other.query, m))
        if self.value is None or other.value is None:
            return Tokens(self.query, _taken(self.key, other.key, m))
        return Tokens(self.query, _taken(self.key, other.key, m), _taken(self.value, other.value, m))

    def with_query(self, other: Tokens, i: int) -> Tokens:
        """Token ``i``, as it asks, taken from other inputs, in all entries."""
        return self._replace(query=_taken(self.query, other.query, i))

    def with_entry(self, other: Tokens, b: int) -> Tokens:
        """One batch entry taken from other inputs."""
        key, value = (
            x if x is None or y is None else _entry(x, y, b)
            for x, y in ((self.key, other.key), (self.value, other.value))
        )
        return Tokens(_entry(self.query, other.query, b), key, value)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tokens:
        """Do something to each tensor."""
        key, value = (x if x is None else function(x) for x in (self.key, self.value))
        return Tokens(function(self.query), key, value)

    def alike(self) -> Tokens:
        """All tokens that are looked at are one: its own in each entry."""
        if self.value is not None:
            return self._replace(value=self.value[..., :1, :].expand_as(self.value).contiguous())
        if self.key is not None:
            return self._replace(key=self.key[..., :1, :].expand_as(self.key).contiguous())
        return Tokens(self.query[..., :1, :].expand_as(self.query).contiguous())


def draw(kind: str, sizes: Sizes, generator: torch.Generator, dtype: torch.dtype, device: torch.device) -> Tokens:
    """Normal inputs of a kind: ``"self"``, ``"cross"`` or ``"function"``, as plain as the sizes say."""
    B, L, S, M, H = sizes
    shapes: dict[str, list[tuple[int, ...]]] = {
        "self": [(B, L, M)],
        "cross": [(B, L, M), (B, S, M)],
        "function": [(B, H, L, M // H), (B, H, S, M // H), (B, H, S, M // H)],
    }
    made = [torch.randn(s, generator=generator, dtype=torch.float64).to(device, dtype) for s in shapes[kind]]
    return Tokens(*made)


def _taken(x: Tensor, y: Tensor, m: int) -> Tensor:
    x = x.clone()
    x[..., m, :] = y[..., m, :]
    return x


def _entry(x: Tensor, y: Tensor, b: int) -> Tensor:
    x = x.clone()
    x[b] = y[b]
    return x
