"""Look inside while a module runs: what enters each softmax, what leaves it, and what if something else had left it.

A dispatch mode sees every operation below autograd, in whatever style the module is written: ``softmax``, a fused
``scaled_dot_product_attention``, or ``exp`` and a division by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__: list[str] = []

_SOFTMAX = {"_softmax", "_safe_softmax"}
_FUSED = "_scaled_dot_product_flash_attention_for_cpu"


class Event(NamedTuple):
    """One softmax: ``scores`` went in, ``weights`` came out, of the same shape."""

    scores: Tensor
    weights: Tensor


class Watch(TorchDispatchMode):
    """Record what happens.

    Args:
        which: the softmax whose result is to be replaced, counted from 0.
        do: what by: a tensor of the weights' shape.
    """

    def __init__(self, which: int | None = None, do: Tensor | None = None) -> None:
        super().__init__()
        self.which, self.do = which, do
        self.events: list[Event] = []
        self.eps = 0.0
        self._exps: list[tuple[Tensor, Tensor]] = []  # what came of exp, and what went in

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not by a wrapper, for which PyTorch would load its compiler, and that takes longer than a visit."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation, and note it."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == _FUSED:
            return self._fused(*args, **kwargs)
        before = args[0].clone() if name in ("exp_", "div_", "mul_") and isinstance(args[0], Tensor) else None
        out = func(*args, **kwargs)
        if not isinstance(out, Tensor):
            return out
        if name == "_to_copy" and out.numel() > 1 and out.is_floating_point() and args[0].is_floating_point():
            self.eps = max(self.eps, torch.finfo(out.dtype).eps)  # what is cast down is rounded
        if name in _SOFTMAX:
            return self._softmax(args[0], out)
        if name in ("exp", "exp_"):
            self._exps.append((out, args[0] if before is None else before))
        elif name in ("mul", "mul_", "masked_fill", "masked_fill_", "where"):
            scores = self._scores_of(args)
            if scores is not None and scores.shape == out.shape:
                self._exps.append((out, scores))
        elif name in ("div", "div_"):
            scores = self._scores_of(args[:1])
            if scores is not None and scores.shape == out.shape and out.dim() >= 2:
                made = self._softmax(scores, out)
                return out.copy_(made) if name == "div_" else made
        return out

    def _scores_of(self, args: Sequence[Any]) -> Tensor | None:
        for made, scores in reversed(self._exps):
            if any(arg is made for arg in args):
                return scores
        return None

    def _softmax(self, scores: Tensor, weights: Tensor) -> Tensor:
        self.events.append(Event(scores.detach().clone(), weights.detach().clone()))
        if self.do is not None and len(self.events) - 1 == self.which:
            return self.do.to(weights).expand_as(weights).contiguous()
        return weights

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        attn_mask: Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The fused kernel in its steps, so that its weights can be seen."""
        heads = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(heads, 1), value.repeat_interleave(heads, 1)
        scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if attn_mask is not None:
            scores = scores + attn_mask
        if is_causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril().logical_not()
            scores = scores.masked_fill(hidden, -math.inf)
        empty = (scores == -math.inf).all(-1, keepdim=True)
        weights = self._softmax(scores, scores.softmax(-1).masked_fill(empty, 0.0))
        return (weights @ value).transpose(1, 2).contiguous().transpose(1, 2), scores.logsumexp(-1)


def chained(events: list[Event]) -> int | None:
    """The number of the softmax that is fed with what another gave, if there is one."""
    for number, event in enumerate(events[1:], 1):
        for earlier in events[:number]:
            same = earlier.weights.shape == event.scores.shape
            if same and _equal_where_finite(earlier.weights, event.scores):
                return number
    return None


def _equal_where_finite(weights: Tensor, scores: Tensor) -> bool:
    seen = scores.isfinite() & (scores > -1e4) & weights.isfinite()
    return bool(seen.any()) and torch.allclose(weights[seen].to(scores.dtype), scores[seen], rtol=1e-5, atol=1e-7)
