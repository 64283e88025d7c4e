"""One attention call, checked once and brought to one form, so that no backend has to.

PyTorch's kernels trust their input: on a CPU, flash attention reads past the end when keys and values differ in length,
and quietly combines a mask with ``is_causal``. Nothing reaches a kernel here before it has passed through ``Call.of``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from companion import check
from companion.bounds import Bounds
from companion.masks import Mask, causal_rows

__all__ = ["Call"]


@dataclass(frozen=True)
class Call:
    """Checked inputs, with all leading dims folded into ``B``.

    Attributes:
        query: ``(B, H, L, D)``.
        key: ``(B, G, S, D)``.
        value: ``(B, G, S, E)``.
        mask: boolean, each dim 1 or full, ``(B|1, H|1, L|1, S)``; or a ``Mask``; or None.
        bias: floating point, shaped as ``mask``.
        causal: query i sees keys up to ``S - L + i``.
        scale: factor of the scores.
        dropout_p: probability of dropping a weight.
        lead: the query's leading dims as they came, heads included.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | Mask | None
    bias: Tensor | None
    causal: bool
    scale: float
    dropout_p: float
    lead: tuple[int, ...]

    @staticmethod
    def of(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | Mask | None = None,
        *,
        bias: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
        dropout_p: float = 0.0,
    ) -> Call:
        """Check everything, fold the leading dims. Raises what ``scaled_dot_product_attention`` documents."""
        lead = _check_shapes(query, key, value)
        check.flag("causal", causal)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else check.real("scale", scale)
        if isinstance(mask, Mask) and mask.is_causal:
            mask, causal = None, True
        if mask is not None or bias is not None:
            scores = (*lead, query.shape[-2], key.shape[-2])
            mask = _fold_mask(mask, scores, query)
            bias = None if bias is None else _fold(_check_bias(bias, scores, query), scores)
        if dropout_p != 0.0 or type(dropout_p) is not float:
            dropout_p = check.probability("dropout_p", dropout_p)
        if query.dim() != 4:
            query, key, value = _fold_heads(query), _fold_heads(key), _fold_heads(value)
        return Call(query, key, value, mask, bias, causal, factor, dropout_p, lead)

    @property
    def num_heads(self) -> int:
        """``H``."""
        return self.query.shape[1]

    @property
    def lengths(self) -> tuple[int, int]:
        """``(L, S)``."""
        return self.query.shape[2], self.key.shape[2]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.query.device

    def bounds(self) -> Bounds:
        """What is known of mask and causality together without asking about each pair."""
        if self.mask is None:
            bounds = Bounds(exact=True)
        else:
            bounds = self.mask.bounds if isinstance(self.mask, Mask) else Bounds()
        return bounds & Bounds(after=0, exact=True) if self.causal else bounds

    def restore(self, x: Tensor) -> Tensor:
        """Give a result ``(B, H, ...)`` the leading dims that the query came with."""
        return x if len(self.lead) == 2 else x.reshape(*self.lead, *x.shape[2:])

    def allowed(self) -> Tensor | None:
        """Who may look at whom, mask and causality together: boolean, broadcastable to ``(B, H, L, S)``; or None."""
        batch, heads, (length, keys) = self.query.shape[0], self.num_heads, self.lengths
        mask = self.mask
        if isinstance(mask, Mask):
            mask = mask.compact(batch, heads, length, keys, self.device)
        if self.causal:
            triangle = causal_rows(length, keys, self.device)
            mask = triangle if mask is None else mask & triangle
        return mask

    def without_broken_keys(self) -> tuple[Call, Tensor | None]:
        """Take NaN and infinity out of the inputs, and say which queries would have met one.

        A weight of zero does not keep a NaN out of a matrix product, since 0 x NaN is NaN. So what is not finite is
        set to zero here, and the queries that may see it are returned as ``(B, H, L)`` for the caller to make NaN.
        """
        if not self.key.shape[2]:
            return self, None
        bad_keys = ~(_finite_rows(self.key) & _finite_rows(self.value))  # (B, G, S)
        bad_queries = ~_finite_rows(self.query)  # (B, H, L)
        hole = bad_keys.unsqueeze(-1)
        clean = replace(
            self,
            query=self.query.masked_fill(bad_queries.unsqueeze(-1), 0.0),
            key=self.key.masked_fill(hole, 0.0),
            value=self.value.masked_fill(hole, 0.0),
        )
        bad_keys = bad_keys.repeat_interleave(self.num_heads // bad_keys.shape[1], dim=1)  # (B, H, S)
        return clean, self._sees(bad_keys) | (bad_queries & self._sees(torch.ones_like(bad_keys)))

    def _sees(self, keys: Tensor) -> Tensor:
        """Which queries may see at least one of ``keys (B, H, S)``: ``(B, H, L)``."""
        length, total = self.lengths
        if self.mask is None and not self.causal:
            return keys.any(-1, keepdim=True).expand(*keys.shape[:2], length)
        if self.mask is None:  # causal alone needs no L x S matrix: has one come by the query's own position?
            seen = keys.cummax(-1).values
            last = torch.arange(length, device=keys.device) + total - length
            return seen[..., last.clamp(min=0)] & (last >= 0)
        allowed = self.allowed()
        assert allowed is not None
        return (allowed & keys.unsqueeze(-2)).any(-1)


def _finite_rows(x: Tensor) -> Tensor:
    return x.detach().isfinite().all(-1)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, ...]:
    """Refuse what does not fit; return the leading dims of the scores."""
    check.floating("query", query)
    check.floating("key", key)
    check.floating("value", value)
    if not query.dtype == key.dtype == value.dtype:
        check.same_dtype(query=query, key=key, value=value)
    if not query.device == key.device == value.device:
        check.same_device(query=query, key=key, value=value)
    if query.dim() == 4 and query.shape == key.shape == value.shape and query.shape[1] and query.shape[3]:
        return check.shape(query)[:2]  # the commonest case fits; a call on 16 tokens would notice the rest
    check.min_rank("query", query, 2, "(..., L, D)")
    check.min_rank("key", key, 2, "(..., S, D)")
    check.min_rank("value", value, 2, "(..., S, E)")
    if not query.dim() == key.dim() == value.dim():
        raise ValueError(
            "query, key and value must have the same number of dims, got shapes "
            f"{check.shape(query)}, {check.shape(key)} and {check.shape(value)}"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same width D, got {query.shape[-1]} and {key.shape[-1]} "
            f"(shapes {check.shape(query)} and {check.shape(key)})"
        )
    if query.shape[-1] == 0:
        raise ValueError(f"query and key must have a width D of at least 1, got shape {check.shape(query)}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"key and value must have the same length S, got {key.shape[-2]} and {value.shape[-2]} "
            f"(shapes {check.shape(key)} and {check.shape(value)})"
        )
    if key.shape[:-2] != value.shape[:-2]:
        raise ValueError(
            f"key and value must have the same leading dims, got shapes {check.shape(key)} and {check.shape(value)}"
        )
    if query.dim() == 2:
        return ()
    if query.shape[:-3] != key.shape[:-3]:
        raise ValueError(
            "query and key must have the same batch dims (nothing is broadcast), got shapes "
            f"{check.shape(query)} and {check.shape(key)}"
        )
    heads, groups = query.shape[-3], key.shape[-3]
    if groups == 0 or heads == 0 or heads % groups:
        raise ValueError(
            f"query has {heads} heads and key has {groups}: the first must be a multiple of the second "
            f"(shapes {check.shape(query)} and {check.shape(key)})"
        )
    return check.shape(query)[:-2]


def _fold_mask(mask: Tensor | Mask | None, scores: tuple[int, ...], query: Tensor) -> Tensor | Mask | None:
    if isinstance(mask, Mask):  # made for other sizes? Bound on no device, it only checks
        mask.rule(math.prod(scores[:-3]), scores[-2], scores[-1], "meta")
    elif mask is not None:
        mask = _fold(_check_mask(mask, scores, query), scores)
    return mask


def _check_mask(mask: object, scores: tuple[int, ...], query: Tensor) -> Tensor:
    x = check.tensor("mask", mask)
    if x.dtype is not torch.bool:
        way = "pass an additive mask as bias" if x.is_floating_point() else "use mask.bool() if 1 means may attend"
        raise TypeError(f"mask must be boolean, True where a query may attend, got {x.dtype}; {way}")
    return _check_scores_shape("mask", x, scores, query)


def _check_bias(bias: object, scores: tuple[int, ...], query: Tensor) -> Tensor:
    x = check.tensor("bias", bias)
    if x.dtype is torch.bool:
        raise TypeError("bias must be floating point, got torch.bool; pass a boolean mask as mask")
    return _check_scores_shape("bias", check.floating("bias", x), scores, query)


def _check_scores_shape(name: str, x: Tensor, scores: tuple[int, ...], query: Tensor) -> Tensor:
    """Allow ``(L, S)`` or one dim for each of the scores', 1 or full; the keys always in full."""
    if x.device != query.device:
        raise ValueError(f"{name} must be on the query's device, {query.device}, got {x.device}")
    fits = x.dim() in (2, len(scores)) and x.shape[-1] == scores[-1]
    fits = fits and all(got in (1, want) for got, want in zip(reversed(x.shape), reversed(scores), strict=False))
    if not fits:
        full = {2: "(L, S)", 3: "(L, S) or (H, L, S)", 4: "(L, S) or (B, H, L, S)"}.get(
            len(scores), "(L, S) or (..., H, L, S)"
        )
        hint = ""
        if x.dim() == 2 and len(scores) == 4 and check.shape(x) == (scores[0], scores[-1]):
            hint = f"; for one row of keys a batch entry, pass {name}[:, None, None, :]"
        elif x.dim() == 3 and len(scores) == 4:
            hint = f"; for one matrix a batch entry, pass {name}[:, None]"
        raise ValueError(
            f"{name} must have shape {full}, here {scores}, where each dim but S may be 1; got {check.shape(x)}{hint}"
        )
    return x


def _fold(x: Tensor, scores: tuple[int, ...]) -> Tensor:
    """``(L, S)`` or ``(..., H, L, S)`` to four dims, keeping dims of 1 where no folding forbids it."""
    if x.dim() <= 4:
        return x[(None,) * (4 - x.dim())]
    if all(size == 1 for size in x.shape[:-3]):
        return x.reshape(1, *x.shape[-3:])
    return x.expand(*scores[:-3], *x.shape[-3:]).flatten(0, -4)


def _fold_heads(x: Tensor) -> Tensor:
    """``(..., H, L, D)`` to ``(B, H, L, D)``."""
    if x.dim() < 4:
        return x[(None,) * (4 - x.dim())]
    return x.flatten(0, -4)
