r"""Who may look at whom.

A mask is one question, asked of every pair: may query ``q`` of head ``h`` in batch entry ``b`` look at key ``k``? The
answer ``True`` means *may attend*. A ``Mask`` keeps the question, not the ``L x S`` table of answers, so that a rule
over a million tokens costs nothing until somebody needs the table. Rules compose: ``causal() & padding(lengths)``,
``a | b``, ``~a``.

Where the queries are the last ``L`` of ``S`` positions, as in decoding with a cache, rules that speak of distance align
the last query with the last key.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from companion import check
from companion.typing import Bool

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Mask", "Rule", "causal", "document", "padding", "sliding_window"]

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""``(b, h, q, k) -> bool``, on index tensors that broadcast against each other."""

_Bind = Callable[[int, int, int, torch.device], Rule]
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
        self._bind: _Bind = lambda batch, length, keys, device: predicate
        self.name = name
        self.is_causal = False  # exactly causal(), which kernels know by a flag
        self.batch: int | None = None  # the only B it can serve, where it holds something for each entry

    @classmethod
    def _bound(cls, bind: _Bind, name: str, batch: int | None = None) -> Mask:
        mask = cls(_never, name)
        mask._bind = bind
        mask.batch = batch
        return mask

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
        return create_block_mask(rule, B, H, L, S, device=str(place))

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

        return Mask._bound(bind, f"~{self.name}", self.batch)

    def __bool__(self) -> bool:
        raise TypeError(
            f"a Mask is neither true nor false; combine masks with &, | and ~, not and, or and not ({self})"
        )

    def __repr__(self) -> str:
        return f"Mask({self.name})"


def causal(offset: int | None = None) -> Mask:
    """A query sees itself and what came before it.

    Args:
        offset: the position of the first query among the keys. ``None`` is ``S - L``: the last query stands at the
            last key, so with ``L == S`` it is the lower triangle.

    Returns:
        The mask ``k <= q + offset``.

    Raises:
        TypeError: ``offset`` is no int.

    Example:
        >>> causal().dense(1, 1, 2, 3)[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    if offset is not None:
        start = check.integer("offset", offset, minimum=-(2**62))
        return Mask(lambda b, h, q, k: k <= q + start, f"causal(offset={start})")
    mask = _positioned(lambda q, k: k <= q, "causal()")
    mask.is_causal = True
    return mask


def sliding_window(window: int, *, causal: bool = True) -> Mask:
    """A query sees itself and its ``window - 1`` nearest neighbours: before it, or on each side.

    Args:
        window: how many keys a query sees, itself included.
        causal: look back only; ``False`` adds ``window - 1`` keys ahead.

    Returns:
        The mask ``0 <= q - k < window``, or ``|q - k| < window``.

    Raises:
        TypeError: ``window`` is no int, or ``causal`` no bool.
        ValueError: ``window`` is less than 1.

    Example:
        >>> sliding_window(2).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)

    Source: Child et al., "Generating Long Sequences with Sparse Transformers", 2019 (arXiv:1904.10509).
    """
    check.integer("window", window)
    if check.flag("causal", causal):
        return _positioned(lambda q, k: (k <= q) & (q - k < window), f"sliding_window({window})")
    return _positioned(lambda q, k: (q - k < window) & (k - q < window), f"sliding_window({window}, causal=False)")


def padding(lengths: Tensor | Sequence[int]) -> Mask:
    """Only real keys may be seen, not the padding that fills a batch.

    Args:
        lengths: how many real tokens each batch entry has, ``(B,)`` integers, where the padding comes last; or
            booleans ``(B, S)``, ``True`` for a real token, wherever the padding is.

    Returns:
        A mask on the *key* axis, ``(B, 1, 1, S)`` when compact. The rows of padded queries stay as they are: what
        they give is to be ignored, not masked.

    Raises:
        TypeError: ``lengths`` is neither integer nor boolean, or no table at all.
        ValueError: a wrong number of dims, a negative length, or, when used, another batch or key length.

    Example:
        >>> padding([2, 3]).dense(2, 1, 1, 3).squeeze()
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    real = _as_table("lengths", lengths)
    if real.dtype is torch.bool:
        if real.dim() != 2:
            raise ValueError(f"lengths given as booleans must have shape (B, S), got {check.shape(real)}")

        def bind_table(batch: int, length: int, keys: int, device: torch.device) -> Rule:
            if check.shape(real) != (batch, keys):
                raise ValueError(f"padding was given {check.shape(real)}, used with (B, S) = {(batch, keys)}")
            table = real.to(device)
            return lambda b, h, q, k: table[b, k]

        return Mask._bound(bind_table, "padding(...)", real.shape[0])

    if real.is_floating_point() or real.is_complex():
        raise TypeError(f"lengths must be integers (B,) or booleans (B, S), got {real.dtype}")
    if real.dim() != 1:
        raise ValueError(f"lengths must have shape (B,), got {check.shape(real)}; a table (B, S) must be boolean")
    longest = _largest(real)
    if real.device.type == "cpu" and real.numel() and int(real.min()) < 0:
        raise ValueError(f"lengths must not be negative, got {real.tolist()}")

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        if real.shape[0] != batch:
            raise ValueError(f"padding was given {real.shape[0]} lengths, used with a batch of {batch}")
        if longest > keys:
            raise ValueError(f"padding was given a length of {longest}, used with {keys} keys")
        ends = real.to(device)
        return lambda b, h, q, k: k < ends[b]

    return Mask._bound(bind, "padding(...)", real.shape[0])


def document(ids: Tensor) -> Mask:
    """Tokens see their own document only, where several are packed into one row.

    Args:
        ids: the document of each position, integers ``(B, S)``.

    Returns:
        The mask ``ids[b, q] == ids[b, k]``, the last query standing at the last key.

    Raises:
        TypeError: ``ids`` is no integer tensor.
        ValueError: ``ids`` is not ``(B, S)``, or, when used, of another batch or length, or there are more queries
            than keys.

    Example:
        >>> document(torch.tensor([[0, 0, 1]])).dense(1, 1, 3, 3)[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """
    table = check.tensor("ids", ids)
    if table.is_floating_point() or table.is_complex() or table.dtype is torch.bool:
        raise TypeError(f"ids must be integers, got {table.dtype}")
    if table.dim() != 2:
        raise ValueError(f"ids must have shape (B, S), got {check.shape(table)}")

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        if check.shape(table) != (batch, keys):
            raise ValueError(
                f"document was given ids of shape {check.shape(table)}, used with (B, S) = {(batch, keys)}"
            )
        if length > keys:
            raise ValueError(f"document needs at most as many queries as keys, got L={length} and S={keys}")
        here, start = table.to(device), keys - length
        return lambda b, h, q, k: here[b, q + start] == here[b, k]

    return Mask._bound(bind, "document(...)", table.shape[0])


def _as_table(name: str, x: object) -> Tensor:
    if isinstance(x, Tensor):
        return check.tensor(name, x)
    if isinstance(x, (str, bytes)) or not isinstance(x, Sequence):
        raise TypeError(f"{name} must be a tensor or a sequence of ints, got {type(x).__name__}")
    if not len(x):
        return torch.zeros(0, dtype=torch.long)
    try:
        return torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be integers (B,) or booleans (B, S), got {x!r}: {error}") from None


def causal_rows(L: int, S: int, device: torch.device) -> Bool[Tensor, "1 1 L S"]:
    """The table of ``causal()``, which ``attend(causal=True)`` shares."""
    return causal().compact(1, 1, L, S, device)


def _positioned(compare: Callable[[Tensor, Tensor], Tensor], name: str) -> Mask:
    """A rule on positions, with the last query at the last key."""

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        start = keys - length
        return lambda b, h, q, k: compare(q + start, k)

    return Mask._bound(bind, name)


def _combined(left: Mask, right: object, sign: str, how: Callable[[Tensor, Tensor], Tensor]) -> Mask:
    if not isinstance(right, Mask):
        raise TypeError(f"a Mask combines with another Mask, got {type(right).__name__}")

    def bind(batch: int, length: int, keys: int, device: torch.device) -> Rule:
        one, two = left._bind(batch, length, keys, device), right._bind(batch, length, keys, device)
        return lambda b, h, q, k: how(one(b, h, q, k), two(b, h, q, k))

    batch = right.batch if left.batch is None else left.batch
    return Mask._bound(bind, f"({left.name} {sign} {right.name})", batch)


def _boolean(mask: Mask, answer: object) -> Tensor:
    if not isinstance(answer, Tensor) or answer.dtype is not torch.bool:
        kind = answer.dtype if isinstance(answer, Tensor) else type(answer).__name__
        raise TypeError(f"predicate of {mask.name} must return a boolean tensor, got {kind}")
    return answer


def _sizes(minimum: int = 0, **sizes: int) -> list[int]:
    return [check.integer(name, size, minimum) for name, size in sizes.items()]


def _largest(lengths: Tensor) -> int:
    """The longest, or 0 where reading it would wait for a GPU."""
    return int(lengths.max()) if lengths.device.type == "cpu" and lengths.numel() else 0


def _never(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return k < 0
