r"""A rule about pairs, kept as a question and not as a table of answers.

May query ``q`` of head ``h`` in batch entry ``b`` look at key ``k``? ``True`` means *may attend*. A rule over a million
tokens costs nothing until somebody needs the table. Rules compose: ``a & b``, ``a | b``, ``~a``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from companion import check
from companion.bounds import Bounds
from companion.typing import Bool

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Mask", "Rule"]

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""``(b, h, q, k) -> bool``, on index tensors that broadcast against each other."""

Bind = Callable[[int, int, int, torch.device], Rule]
"""``(B, L, S, device) -> Rule``: a rule may depend on the sizes, and may hold tensors."""


class Mask:
    """A rule that says which pairs may attend; combine with ``&``, ``|``, ``~``.

    Args:
        predicate: ``(b, h, q, k) -> bool``, vectorised: it gets integer index tensors of shapes ``(B, 1, 1, 1)``,
            ``(1, H, 1, 1)``, ``(1, 1, L, 1)``, ``(1, 1, 1, S)`` (or scalars, inside FlexAttention) and returns a
            boolean tensor. ``q`` counts from the first query, ``k`` from the first key.
        name: what it is called when printed.

    Raises:
        TypeError: ``predicate`` cannot be called, or ``name`` is no str.

    Example:
        >>> Mask(lambda b, h, q, k: k <= q).dense(1, 1, 2, 2)[0, 0]
        tensor([[ True, False],
                [ True,  True]])
    """

    def __init__(self, predicate: Rule, name: str = "mask") -> None:
        if not callable(predicate):
            raise TypeError(f"predicate must be callable as (b, h, q, k), got {type(predicate).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}")
        self._bind: Bind = lambda batch, length, keys, device: predicate
        self.name = name
        self.bounds = Bounds()  # what kernels may skip unasked
        self.batch: int | None = None  # the only B it can serve, where it holds something for each entry

    @classmethod
    def bound(cls, bind: Bind, name: str, batch: int | None = None, bounds: Bounds | None = None) -> Mask:
        """A mask whose rule is made when the sizes are known; ``batch`` is the only ``B`` that it can serve."""
        mask = cls(_never, name)
        mask._bind = bind
        mask.batch = batch
        mask.bounds = Bounds() if bounds is None else bounds
        return mask

    @property
    def is_causal(self) -> bool:
        """Whether it is ``causal()`` and nothing else, which kernels know by a flag."""
        return self.bounds.exact and self.bounds[:3] == (None, 0, None)

    def rule(self, B: int, L: int, S: int, device: torch.device | str | None = None) -> Rule:
        """The predicate for these sizes, as FlexAttention's ``mask_mod`` wants it.

        Raises:
            TypeError: a size is no int.
            ValueError: a size is negative, or the rule was made for other sizes.
        """
        _sizes(B=B, L=L, S=S)
        return self._bind(B, L, S, check.device("device", device))

    def compact(
        self, B: int, H: int, L: int, S: int, device: torch.device | str | None = None
    ) -> Bool[Tensor, "#B #H #L S"]:
        """The table with each dim that the rule does not look at left at 1: ``(B|1, H|1, L|1, S)``."""
        place = check.device("device", device)
        sizes = _sizes(B=B, H=H, L=L, S=S)
        index = [torch.arange(size, device=place) for size in sizes]
        b, h, q, k = (x.view([-1 if dim == axis else 1 for dim in range(4)]) for axis, x in enumerate(index))
        answer = _boolean(self, self.rule(B, L, S, place)(b, h, q, k))
        if answer.dim() > 4 or any(
            got not in (1, want) for got, want in zip(reversed(answer.shape), reversed(sizes), strict=False)
        ):
            raise ValueError(
                f"predicate of {self.name} must return a tensor that broadcasts to (B, H, L, S) = {tuple(sizes)}, "
                f"got shape {check.shape(answer)}"
            )
        answer = answer[(None,) * (4 - answer.dim())]
        return answer.expand(*answer.shape[:3], S)

    def dense(
        self, B: int, H: int, L: int, S: int, device: torch.device | str | None = None
    ) -> Bool[Tensor, "B H L S"]:
        """The whole table of answers.

        Args:
            B: batch.
            H: heads.
            L: query length.
            S: key length.
            device: where to make it; the CPU if not given.

        Returns:
            Boolean, ``(B, H, L, S)``, ``True`` where a query may attend.

        Raises:
            TypeError: a size is no int, or the predicate returns no boolean tensor.
            ValueError: a size is negative, or the rule was made for other sizes.
        """
        return self.compact(B, H, L, S, device).expand(B, H, L, S).contiguous()

    def block_mask(self, B: int, H: int, L: int, S: int, device: torch.device | str | None = None) -> Any:
        """The same rule as a ``BlockMask`` for ``torch.nn.attention.flex_attention``.

        Args:
            B: batch.
            H: heads.
            L: query length.
            S: key length.
            device: where to make it; the CPU if not given.

        Returns:
            A ``torch.nn.attention.flex_attention.BlockMask``.

        Raises:
            TypeError: a size is no int, or the predicate returns no boolean tensor.
            ValueError: a size is less than 1, or the rule was made for other sizes.
        """
        from torch.nn.attention.flex_attention import create_block_mask

        place = check.device("device", device)
        _sizes(1, B=B, H=H, L=L, S=S)
        rule, zero = self.rule(B, L, S, place), torch.zeros((), dtype=torch.long, device=place)
        _boolean(self, rule(zero, zero, zero, zero))
        # FlexAttention counts the arguments by name, so a predicate of ``*args`` gets four.
        return create_block_mask(lambda b, h, q, k: rule(b, h, q, k), B, H, L, S, device=str(place))

    def plot(
        self, tokens: Sequence[str] | int, *, keys: Sequence[str] | int | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw the table for the first batch entry and head: see :func:`companion.plots.mask`.

        Args:
            tokens: names of the queries, or how many there are.
            keys: names of the keys, or how many; the queries again if not given.
            ax: where to draw; a new figure if not given.

        Returns:
            The axes.
        """
        from companion import plots

        return plots.mask(self, tokens, keys=keys, ax=ax)

    def __and__(self, other: object) -> Mask:
        return _combined(self, other, "&", operator.and_)

    def __or__(self, other: object) -> Mask:
        return _combined(self, other, "|", operator.or_)

    __rand__, __ror__ = __and__, __or__  # met with a Mask on the right only, so they tell what is wrong

    def __invert__(self) -> Mask:
        def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
            rule = self._bind(batch, length, keys, device)
            return lambda b, h, q, k: ~rule(b, h, q, k)

        return Mask.bound(bind, f"~{self.name}", self.batch)

    def __bool__(self) -> bool:
        raise TypeError(
            f"a Mask is neither true nor false; combine masks with &, | and ~, not and, or and not ({self})"
        )

    def __repr__(self) -> str:
        return f"Mask({self.name})"


def _combined(left: Mask, right: object, sign: str, how: Callable[[Any, Any], Any]) -> Mask:
    if not isinstance(right, Mask):
        raise TypeError(f"a Mask combines with another Mask, got {type(right).__name__}")

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        one, two = left._bind(batch, length, keys, device), right._bind(batch, length, keys, device)
        return lambda b, h, q, k: how(one(b, h, q, k), two(b, h, q, k))

    batch = right.batch if left.batch is None else left.batch
    return Mask.bound(bind, f"({left.name} {sign} {right.name})", batch, how(left.bounds, right.bounds))


def _boolean(mask: Mask, answer: object) -> Tensor:
    if not isinstance(answer, Tensor) or answer.dtype is not torch.bool:
        kind = answer.dtype if isinstance(answer, Tensor) else type(answer).__name__
        raise TypeError(f"predicate of {mask.name} must return a boolean tensor, got {kind}")
    return answer


def _sizes(minimum: int = 0, **sizes: int) -> list[int]:
    return [check.integer(name, size, minimum) for name, size in sizes.items()]


def _never(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return k < 0
