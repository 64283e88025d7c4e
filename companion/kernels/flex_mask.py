"""A call's mask as FlexAttention wants it: a rule to compile, and a list of the blocks worth a look."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from companion.call import Call
from companion.mask import Mask, Rule
from companion.masks import causal

__all__: list[str] = []

BLOCK = 128
"""Queries and keys of one square of a ``BlockMask``."""
STRIP = 1 << 22
"""Pairs whose answers are held at once while the blocks are counted."""


def score_mod(call: Call) -> Callable[..., Tensor] | None:
    """The bias, looked up for each pair."""
    if call.bias is None:
        return None
    table = call.bias.detach().expand(*call.query.shape[:2], *call.lengths)
    return lambda score, b, h, q, k: score + table[b, h, q, k]


def _rule(call: Call) -> Rule | None:
    """Mask, causality and the holes of the bias as one rule."""
    (batch, heads), (length, keys) = call.query.shape[:2], call.lengths
    rules: list[Rule] = []
    if isinstance(call.mask, Mask):
        rules.append(call.mask.rule(batch, length, keys, call.device))
    elif call.mask is not None:
        rules.append(_looked_up(call.mask.expand(batch, heads, length, keys)))
    if call.causal:
        rules.append(causal().rule(batch, length, keys, call.device))
    if call.bias is not None:
        rules.append(_looked_up((call.bias.detach() != -torch.inf).expand(batch, heads, length, keys)))
    if not rules:
        return None
    first, *others = rules
    for other in others:
        first = _both(first, other)
    return first


def _looked_up(table: Tensor) -> Rule:
    return lambda b, h, q, k: table[b, h, q, k]


def _both(one: Rule, other: Rule) -> Rule:
    return lambda b, h, q, k: one(b, h, q, k) & other(b, h, q, k)


def block_mask(call: Call) -> Any:
    """The rule with its blocks counted, or None; kept with its mask for the next layer."""
    if not isinstance(call.mask, Mask) or call.bias is not None or torch.compiler.is_compiling():
        return _counted(call, _rule(call))
    held = parts(call.mask).tensors
    if held is None:
        return _counted(call, _rule(call))
    key = (tuple(call.query.shape[:2]), call.lengths, call.device, call.causal)
    known = _KNOWN.setdefault(call.mask, {})
    versions = tuple((x.data_ptr(), x._version) for x in held)
    if key not in known or known[key][0] != versions:
        known[key] = versions, _counted(call, _rule(call))
    return known[key][1]


_KNOWN: WeakKeyDictionary[Mask, dict[Any, tuple[Any, Any]]] = WeakKeyDictionary()


class Parts(NamedTuple):
    """What a mask is made of.

    Attributes:
        code: of its functions, by which a compiler knows one kind of mask from another.
        tensors: that it holds; None where it holds what cannot be watched. Someone may write into them after the first
            use, and then a block mask is out of date.
    """

    code: tuple[Any, ...]
    tensors: list[Tensor] | None


def parts(mask: Mask) -> Parts:
    """Take a mask apart, by what its functions close over."""
    code: list[Any] = []
    tensors: list[Tensor] = []
    watched = True
    todo: list[Any] = [mask._bind]
    while todo:
        thing = todo.pop()
        if isinstance(thing, Tensor):
            watched &= not thing.is_inference()
            tensors.append(thing)
        elif isinstance(thing, Mask):
            todo.append(thing._bind)
        elif isinstance(thing, (list, tuple)):
            todo.extend(thing)
        elif isinstance(thing, types.FunctionType):
            watched &= thing.__module__.startswith("companion.")
            code.append(thing.__code__)
            todo.extend(cell.cell_contents for cell in thing.__closure__ or ())
        elif not (thing is None or isinstance(thing, (bool, int, float, str))):
            watched &= isinstance(thing, types.BuiltinFunctionType)
            code.append(getattr(thing, "__name__", type(thing)))
    return Parts(tuple(code), tensors if watched else None)


def _counted(call: Call, rule: Rule | None) -> Any:
    """A ``BlockMask``: which blocks of keys each block of queries looks at, and which of those in full.

    PyTorch's ``create_block_mask`` asks about all pairs at once, or compiles; here a strip of queries at a time.
    """
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask

    if rule is None:
        return None
    (batch, heads), (length, keys) = call.query.shape[:2], call.lengths
    if torch.compiler.is_compiling():
        return create_block_mask(rule, batch, heads, length, keys, device=str(call.device))
    b, h, k = (
        torch.arange(size, device=call.device).view(shape)
        for size, shape in ((batch, (-1, 1, 1, 1)), (heads, (1, -1, 1, 1)), (keys, (1, 1, 1, -1)))
    )
    rows = max(1, STRIP // max(1, batch * heads * keys * BLOCK)) * BLOCK
    strips = []
    for start in range(0, length, rows):
        q = torch.arange(start, min(start + rows, length), device=call.device).view(1, 1, -1, 1)
        strips.append(_per_block(rule(b, h, q, k), q.shape[2], keys))
    seen = torch.cat(strips, dim=2)  # (B|1, H|1, blocks of L, blocks of S)
    full = seen == BLOCK * BLOCK
    return BlockMask.from_kv_blocks(
        *_listed((seen > 0) & ~full),
        *_listed(full),
        BLOCK_SIZE=BLOCK,
        mask_mod=rule,
        seq_lengths=(length, keys),
    )


def _per_block(answer: Tensor, rows: int, keys: int) -> Tensor:
    """How many pairs of each block may attend: ``(B|1, H|1, R, S)`` to ``(B|1, H|1, R/128, S/128)``."""
    answer = answer[(None,) * (4 - answer.dim())]
    answer = answer.expand(*answer.shape[:2], rows, keys)
    answer = F.pad(answer, (0, -keys % BLOCK, 0, -rows % BLOCK))
    return answer.unflatten(3, (-1, BLOCK)).unflatten(2, (-1, BLOCK)).sum((3, 5))


def _listed(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks are wanted in each row, and which, those first."""
    order = wanted.int().argsort(dim=-1, descending=True, stable=True)
    return wanted.sum(-1, dtype=torch.int32), order.int()
