r"""Rotary positions: turn queries and keys, and their dot product knows the distance.

Each pair of features is a point in the plane, turned by an angle that grows with the position:

.. math:: (x_a, x_b) \mapsto (x_a \cos\theta - x_b \sin\theta,\; x_a \sin\theta + x_b \cos\theta),
   \qquad \theta = t\, \omega_c

The angle between a query turned by :math:`i\,\omega` and a key turned by :math:`j\,\omega` changes by
:math:`(j - i)\,\omega`: by their distance alone.

Which features make a pair is a convention, and there are two: *half-split* (feature c with c + D/2: Llama, GPT-NeoX)
and *interleaved* (2c with 2c + 1: the paper, GPT-J). Weights trained with one are wrong under the other until their
features are reordered.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion import check
from companion.angles import Angles, checked_positions
from companion.typing import Float, Int

__all__ = ["Rotary", "half_split", "interleaved"]


class Rotary(Angles):
    """Turn queries or keys by their positions.

    Args:
        d_head: ``D``, even.
        base: the slowest pair turns once in about ``2 * pi * base`` positions.
        interleaved: pair neighbouring features; without it, the first half with the second.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: ``d_head`` is odd or less than 2, or ``base`` not more than 1.

    Example:
        >>> x = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])  # (H, L, D): one head, two positions
        >>> Rotary(2)(x)[0, 1]  # position 1 turns by one radian: cos 1, sin 1
        tensor([0.5403, 0.8415])

    Source: Su et al., "RoFormer", 2021 (arXiv:2104.09864), section 3.4.
    """

    def __init__(self, d_head: int, base: float = 10_000.0, *, interleaved: bool = False) -> None:
        super().__init__("d_head", d_head, base)
        self.interleaved = check.flag("interleaved", interleaved)

    def forward(
        self, x: Float[Tensor, "*batch L D"], positions: Int[Tensor, "*some L"] | None = None
    ) -> Float[Tensor, "*batch L D"]:
        """Turn each position's features.

        Args:
            x: queries or keys, ``(..., H, L, D)``, or ``(L, D)``.
            positions: ``(L,)``, or ``(..., L)``: one row a batch entry, the same for all its heads. 0 to ``L - 1`` if
                not given.

        Returns:
            ``(..., H, L, D)``, in the dtype of ``x``; turned in float32 at least.

        Raises:
            TypeError: ``x`` is no floating-point tensor, or ``positions`` no integer one.
            ValueError: shapes or devices that do not fit.
        """
        return self._turned(x, *self._turns("x", x, positions))

    def both(
        self,
        query: Float[Tensor, "*batch L D"],
        key: Float[Tensor, "*kv_batch L D"],
        positions: Int[Tensor, "*some L"] | None = None,
    ) -> tuple[Float[Tensor, "*batch L D"], Float[Tensor, "*kv_batch L D"]]:
        """Turn queries and keys of the same tokens: their angles are alike, and worked out once.

        Args:
            query: ``(..., H, L, D)``, or ``(L, D)``.
            key: ``(..., G, L, D)``, with the same leading dims but for the heads.
            positions: as for ``forward``.

        Returns:
            Both, turned: what ``forward`` gives for each.

        Raises:
            TypeError: ``query`` or ``key`` is no floating-point tensor, they differ in dtype, or ``positions`` is no
                integer one.
            ValueError: shapes or devices that do not fit.
        """
        turns = self._turns("query", query, positions)
        check.floating("key", key)
        check.same_dtype(query=query, key=key)
        check.same_device(query=query, key=key)
        wanted = check.shape(query)
        if check.shape(key) != (*wanted[:-3], *key.shape[-3:-2], *wanted[-2:]):
            raise ValueError(
                f"query and key must be alike in all dims but the heads, got shapes {wanted} and {check.shape(key)}"
            )
        return self._turned(query, *turns), self._turned(key, *turns)

    def _turns(self, name: str, x: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each angle, ``(L, D/2)`` or ``(..., 1, L, D/2)``."""
        check.floating(name, x)
        check.min_rank(name, x, 2, "(..., H, L, D)")
        check.width(name, x, self.width)
        check.on_device(name, x, self.frequencies)
        where = checked_positions(positions, x.shape[-2], check.shape(x)[:-3], x.device)
        angles = self.angles(where, x.dtype)  # (L, D/2) or (..., L, D/2)
        if angles.dim() > 2:
            angles = angles.unsqueeze(-3)  # (..., 1, L, D/2): all heads alike
        return angles.cos(), angles.sin()

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = _pairs(x, self.interleaved)
        turned = (a * cos - b * sin, a * sin + b * cos)  # half precision times float32 is float32
        return _joined(*turned, self.interleaved).to(x.dtype)

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"{super().extra_repr()}, interleaved={self.interleaved}"


def half_split(x: Float[Tensor, "*shape"], dim: int = -1) -> Float[Tensor, "*shape"]:
    """Reorder interleaved features to half-split ones: 0 2 4 … 1 3 5 ….

    Args:
        x: queries, keys, or the rows of the projections that make them, one head's features along ``dim``.
        dim: the axis of the features.

    Returns:
        ``x`` in the new order. ``Rotary(d)`` then gives the scores that ``Rotary(d, interleaved=True)`` gave before.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``dim`` no int.
        ValueError: no such axis, or an odd number of features.

    Example:
        >>> half_split(torch.tensor([0.0, 1.0, 2.0, 3.0]))
        tensor([0., 2., 1., 3.])
    """
    axis = _feature_axis(x, dim)
    return x.unflatten(axis, (-1, 2)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def interleaved(x: Float[Tensor, "*shape"], dim: int = -1) -> Float[Tensor, "*shape"]:
    """Reorder half-split features to interleaved ones: the inverse of ``half_split``.

    Args:
        x: queries, keys, or the rows of the projections that make them, one head's features along ``dim``.
        dim: the axis of the features.

    Returns:
        ``x`` in the new order.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``dim`` no int.
        ValueError: no such axis, or an odd number of features.

    Example:
        >>> interleaved(torch.tensor([0.0, 2.0, 1.0, 3.0]))
        tensor([0., 1., 2., 3.])
    """
    axis = _feature_axis(x, dim)
    return x.unflatten(axis, (2, -1)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def _pairs(x: Tensor, interleaved: bool) -> tuple[Tensor, Tensor]:
    if interleaved:
        return x[..., 0::2], x[..., 1::2]
    first, second = x.chunk(2, dim=-1)
    return first, second


def _joined(a: Tensor, b: Tensor, interleaved: bool) -> Tensor:
    return torch.stack([a, b], dim=-1).flatten(-2) if interleaved else torch.cat([a, b], dim=-1)


def _feature_axis(x: Tensor, dim: int) -> int:
    axis = check.along("x", x, dim, "(..., D)")
    if x.shape[axis] % 2:
        raise ValueError(f"x must have an even number of features along dim={dim}, got shape {check.shape(x)}")
    return axis
