"""Attention by hand, sound, and the same with one fault each: every fault is one method that was overridden."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion.diagnostics import Adapter

WIDTHS = ((16, 4), (24, 4), (32, 8), (48, 4), (40, 4), (48, 8))


class Hand(nn.Module):
    """Self-attention in the open: each step a method. ``mask`` is (L, S) or (B, 1, 1, S), True may attend."""

    causal = False
    rotary = False

    def __init__(self, d_model: int, num_heads: int, kv_heads: int | None = None) -> None:
        super().__init__()
        self.H, self.G, self.D = num_heads, kv_heads or num_heads, d_model // num_heads
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, self.G * self.D)
        self.v = nn.Linear(d_model, self.G * self.D)
        self.o = nn.Linear(d_model, d_model)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.D).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.H // self.G, 1)

    def embed(self, x: Tensor) -> Tensor:
        return x

    def triangle(self, length: int, keys: int) -> Tensor:
        return torch.ones(length, keys, dtype=torch.bool).tril(keys - length)

    def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -math.inf)

    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is None:
            return scores.softmax(-1)
        weights = self.hide(scores, allowed).softmax(-1)
        return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)

    def allowed(self, mask: Tensor | None, length: int, keys: int) -> Tensor | None:
        if self.causal:
            triangle = self.triangle(length, keys)
            return triangle if mask is None else triangle & mask
        return mask

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = q @ k.mT / math.sqrt(self.D)
        return self.weigh(scores, self.allowed(mask, q.shape[2], k.shape[2])) @ v

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embed(x)
        q, k, v = self.split(self.q(x), self.H), self.split(self.k(x), self.G), self.split(self.v(x), self.G)
        return self.o(self.merge(self.attend(q, self.repeat(k), self.repeat(v), mask)))


class HandCausal(Hand):
    causal = True


class Polarity(HandCausal):
    """masked_fill where one may attend."""

    def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(allowed, -math.inf)


class PolaritySdpa(Hand):
    """triu, which says who is hidden, given to what wants to know who may attend."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        hidden = torch.ones(q.shape[2], k.shape[2]).triu(1).bool()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=hidden)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class PolarityTold(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return super().weigh(scores, None if allowed is None else ~allowed)


class OneAhead(HandCausal):
    def triangle(self, length: int, keys: int) -> Tensor:
        return torch.ones(length, keys, dtype=torch.bool).tril(keys - length + 1)


class NotItself(HandCausal):
    def triangle(self, length: int, keys: int) -> Tensor:
        return torch.ones(length, keys, dtype=torch.bool).tril(keys - length - 1)


class PolarityBillion(Polarity):
    """The last query sees nothing, and so everything alike."""

    def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(allowed, -1e9)

    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return scores.softmax(-1) if allowed is None else self.hide(scores, allowed).softmax(-1)


class NotItselfNumber(NotItself):
    """The first query sees nothing, and so everything alike."""

    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return scores.softmax(-1) if allowed is None else scores.masked_fill(~allowed, -1e4).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class MinusTen(HandCausal):
    """Hidden by a number that is too small: e⁻¹⁰ is left."""

    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return scores.softmax(-1) if allowed is None else (scores + ~allowed * -10.0).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class NoMask(HandCausal):
    """Causal in name only."""

    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return scores.softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class MaskAfter(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        weights = scores.softmax(-1)
        return weights if allowed is None else weights.masked_fill(~allowed, 0.0)


class MaskAfterCausal(MaskAfter):
    causal = True


class Twice(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return super().weigh(scores, allowed).softmax(-1)


class OverQueries(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return (scores if allowed is None else self.hide(scores, allowed)).softmax(-2)


class ViewSplit(Hand):
    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(x.shape[0], heads, x.shape[1], self.D)


class ViewBoth(ViewSplit):
    def merge(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[2], -1)


class ViewKeys(Hand):
    """The keys' transpose is a view."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) / math.sqrt(self.D)
        return self.weigh(scores, mask) @ v


class OverHeads(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return (scores if allowed is None else self.hide(scores, allowed)).softmax(1)


class ViewMerge(Hand):
    def merge(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[2], -1)


class ViewMergeCausal(ViewMerge):
    causal = True


class Dropout(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return F.dropout(super().weigh(scores, allowed), 0.1)


class DropoutSdpa(Hand):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)


class FillBillion(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return (scores if allowed is None else scores.masked_fill(~allowed, -1e9)).softmax(-1)


class FillBillionCausal(FillBillion):
    causal = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class EmptyNan(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return (scores if allowed is None else self.hide(scores, allowed)).softmax(-1)


class EmptyMean(Hand):
    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        low = torch.finfo(scores.dtype).min
        return (scores if allowed is None else scores.masked_fill(~allowed, low)).softmax(-1)


class Tiled(Hand):
    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat(1, self.H // self.G, 1, 1)


class TiledExpand(Hand):
    def repeat(self, x: Tensor) -> Tensor:
        return x[:, None].expand(-1, self.H // self.G, -1, -1, -1).flatten(1, 2)


def turn(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary, half-split."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 100.0 ** (-torch.arange(half).to(x) / half)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class Cached(HandCausal):
    """Rotary, with a cache that is a dict."""

    def where(self, seen: int, length: int) -> Tensor:
        return torch.arange(seen, seen + length)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        q, k, v = self.split(self.q(x), self.H), self.split(self.k(x), self.G), self.split(self.v(x), self.G)
        seen = cache["k"].shape[2] if cache else 0
        positions = self.where(seen, x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        return self.o(self.merge(self.attend(q, k, v, None)))


class CacheOffset(Cached):
    def where(self, seen: int, length: int) -> Tensor:
        return torch.arange(length)


class CacheAhead(Cached):
    def where(self, seen: int, length: int) -> Tensor:
        return torch.arange(seen, seen + length) + int(seen > 0)


class CacheBehind(Cached):
    def where(self, seen: int, length: int) -> Tensor:
        return torch.arange(seen, seen + length) - int(seen > 0)


class CacheFirstKey(Cached):
    def triangle(self, length: int, keys: int) -> Tensor:
        return torch.ones(length, keys, dtype=torch.bool).tril()


class CacheTuple(Cached):
    """The same, returned and given back as a pair."""

    def forward(  # type: ignore[override]
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None, use_cache: bool = False
    ) -> Tensor | tuple[Tensor, Any]:
        cache = {} if past is None else {"k": past[0], "v": past[1]}
        y = super().forward(x, cache)
        return (y, (cache["k"], cache["v"])) if use_cache else y


class CacheTupleOffset(CacheTuple):
    def where(self, seen: int, length: int) -> Tensor:
        return torch.arange(length)


def waves(count: int, width: int) -> Tensor:
    angles = torch.arange(count)[:, None] * 50.0 ** (-torch.arange(width // 2) / (width // 2))
    return torch.cat([angles.sin(), angles.cos()], -1)


class Positions(Hand):
    def embed(self, x: Tensor) -> Tensor:
        return x + waves(64, x.shape[-1]).to(x)[: x.shape[1]]


class PositionsOverBatch(Hand):
    """Written for (L, B, M), used on (B, L, M)."""

    def embed(self, x: Tensor) -> Tensor:
        return x + waves(64, x.shape[-1]).to(x)[: x.shape[0], None]


class PaddingKeys(Hand):
    """``mask`` says which tokens are real, (B, S)."""

    def allowed(self, mask: Tensor | None, length: int, keys: int) -> Tensor | None:
        return None if mask is None else mask[:, None, None, :]


class PaddingQueries(PaddingKeys):
    def allowed(self, mask: Tensor | None, length: int, keys: int) -> Tensor | None:
        return None if mask is None else mask[:, None, :, None]


class PaddingQueriesBillion(PaddingQueries, FillBillion):
    pass


class PaddingMultiplied(PaddingKeys):
    """Scores times the mask: what is hidden has a score of 0, and e⁰."""

    def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return (scores if allowed is None else scores * allowed).softmax(-1)


class MaskIgnored(PaddingKeys):
    def allowed(self, mask: Tensor | None, length: int, keys: int) -> Tensor | None:
        return None


class BatchMixing(HandCausal):
    """Heads are folded into the batch in one order, and unfolded in another."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        B, H, L, D = q.shape
        out = super().attend(*(x.reshape(1, B * H, L, D) for x in (q, k, v)), mask)
        return out.reshape(H, B, L, D).transpose(0, 1)


class AlongBatch(Hand):
    """Attends over the first axis, as for (L, B, M)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class Cross(Hand):
    """With a context and a mask for each, True for real tokens."""

    def whose(self, mask: Tensor | None, context_mask: Tensor | None) -> Tensor | None:
        return context_mask

    def forward(  # type: ignore[override]
        self, x: Tensor, context: Tensor, mask: Tensor | None = None, context_mask: Tensor | None = None
    ) -> Tensor:
        q, k, v = (
            self.split(self.q(x), self.H),
            self.split(self.k(context), self.H),
            self.split(self.v(context), self.H),
        )
        real = self.whose(mask, context_mask)
        return self.o(self.merge(self.attend(q, k, v, None if real is None else real[:, None, None, :])))


class CrossWrong(Cross):
    def whose(self, mask: Tensor | None, context_mask: Tensor | None) -> Tensor | None:
        return mask


class CrossTorch(nn.Module):
    """PyTorch's module, PyTorch's names, the wrong one of two."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        return self.inner(tgt, memory, memory, key_padding_mask=tgt_key_padding_mask, need_weights=False)[0]


class Decoder(nn.Module):
    """Self-attention and cross-attention with one and the same padding mask, True where padded."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.own, self.cross = (nn.MultiheadAttention(d_model, num_heads, batch_first=True) for _ in range(2))

    def forward(
        self, x: Tensor, memory: Tensor, pad_mask: Tensor | None = None, memory_pad_mask: Tensor | None = None
    ) -> Tensor:
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        x = x + self.own(x, x, x, attn_mask=hidden, key_padding_mask=pad_mask, need_weights=False)[0]
        return x + self.cross(x, memory, memory, key_padding_mask=pad_mask, need_weights=False)[0]


class CrossQueries(Hand):
    """Its one mask hides queries."""

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        q, k, v = self.split(self.q(x), self.H), self.split(self.k(memory), self.H), self.split(self.v(memory), self.H)
        return self.o(self.merge(self.attend(q, k, v, None if memory_mask is None else memory_mask[:, None, :, None])))


class Overwrites(Hand):
    """Scaled in place: what comes in is changed too."""

    def embed(self, x: Tensor) -> Tensor:
        x *= 2
        return x


class OverwritesCausal(HandCausal, Overwrites):
    pass


class PositionsOverHeads(Hand):
    """Turned before the transpose: by the number of the head, so that each token is turned alike."""

    def split(self, x: Tensor, heads: int) -> Tensor:
        x = x.view(*x.shape[:2], heads, self.D)
        angle = torch.arange(x.shape[-2], dtype=x.dtype).unsqueeze(-1)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).transpose(1, 2)


class PositionsOverHeadsCausal(PositionsOverHeads, HandCausal):
    pass


def square(q: Tensor, k: Tensor, v: Tensor, diagonal: int = 0) -> Tensor:
    """Causal, for as many keys as queries only."""
    L = q.shape[-2]
    hidden = torch.ones(L, L, dtype=torch.bool).tril(diagonal).logical_not()
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf).softmax(-1) @ v


def dot(q: Tensor, k: Tensor, v: Tensor, factor: float, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-2, -1) * factor
    if mask is None:
        return scores.softmax(-1) @ v
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.nan_to_num() @ v


def by_sqrt_d_model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return dot(q, k, v, 1 / math.sqrt(q.shape[1] * q.shape[-1]))


def by_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return dot(q, k, v, 1.0)


def by_d(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return dot(q, k, v, 1 / q.shape[-1])


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-2) @ v


def twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).softmax(-1) @ v


def after(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights if mask is None else weights * mask) @ v


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v))
    return dot(q, k, v, 1 / math.sqrt(q.shape[-1]))


class Case(NamedTuple):
    """What is planted, as what it must be found, and what the doctor is told."""

    make: Callable[[int, int], Callable[..., Any]]
    name: str
    options: Mapping[str, Any] = MappingProxyType({})


def grouped(kind: type[Hand]) -> Callable[[int, int], Hand]:
    return lambda d_model, heads: kind(d_model, heads, heads // 2)


TOLD = {"causal": True}
FAULTS = {
    "polarity": Case(Polarity, "mask-polarity", TOLD),
    "polarity, not told": Case(Polarity, "mask-polarity"),
    "polarity in SDPA": Case(PolaritySdpa, "mask-polarity", TOLD),
    "polarity of an argument": Case(PolarityTold, "mask-polarity", {"adapter": Adapter(mask_true="may attend")}),
    "polarity, -1e9": Case(PolarityBillion, "mask-polarity", TOLD),
    "sees one ahead": Case(OneAhead, "causal-off-by-one", TOLD),
    "sees one ahead, not told": Case(OneAhead, "causal-off-by-one"),
    "does not see itself": Case(NotItself, "causal-off-by-one", TOLD),
    "does not see itself, -1e4": Case(NotItselfNumber, "causal-off-by-one", TOLD),
    "hidden by -10": Case(MinusTen, "future-leak", TOLD),
    "no causal mask": Case(lambda d, h: NoMask(d, h).forward, "future-leak", TOLD),
    "mask after softmax": Case(MaskAfter, "mask-after-softmax"),
    "causal mask after softmax": Case(MaskAfterCausal, "mask-after-softmax", TOLD),
    "softmax twice": Case(Twice, "softmax-twice"),
    "softmax over queries": Case(OverQueries, "softmax-over-queries"),
    "view without transpose": Case(ViewSplit, "heads-split"),
    "view without transpose, both ways": Case(ViewBoth, "heads-split"),
    "keys' transpose by view": Case(ViewKeys, "heads-split"),
    "softmax over heads": Case(OverHeads, "softmax-over-queries"),
    "merge without permute": Case(ViewMerge, "heads-merge"),
    "merge without permute, causal": Case(ViewMergeCausal, "heads-merge", TOLD),
    "dropout in eval": Case(Dropout, "dropout-in-eval"),
    "dropout in eval, SDPA": Case(DropoutSdpa, "dropout-in-eval"),
    "-1e9": Case(FillBillion, "fill-overflow"),
    "-1e9, causal": Case(FillBillionCausal, "fill-overflow", TOLD),
    "empty row NaN": Case(EmptyNan, "empty-row"),
    "empty row mean": Case(EmptyMean, "empty-row"),
    "GQA tiled": Case(grouped(Tiled), "gqa-order"),
    "GQA expanded in the wrong order": Case(grouped(TiledExpand), "gqa-order"),
    "cache offset": Case(CacheOffset, "cache-offset"),
    "cache offset, pairs": Case(CacheTupleOffset, "cache-offset"),
    "position one ahead": Case(CacheAhead, "position-off-by-one"),
    "position one behind": Case(CacheBehind, "position-off-by-one"),
    "aligned to the first key": Case(CacheFirstKey, "causal-alignment"),
    "positions over the batch": Case(PositionsOverBatch, "positions-over-batch"),
    "padding on queries": Case(PaddingQueries, "mask-on-queries"),
    "padding on queries, -1e9": Case(PaddingQueriesBillion, "mask-on-queries"),
    "scores times mask": Case(PaddingMultiplied, "padding-leak"),
    "mask ignored": Case(MaskIgnored, "padding-leak"),
    "wrong padding": Case(CrossWrong, "wrong-padding"),
    "wrong padding, PyTorch's names": Case(CrossTorch, "wrong-padding"),
    "wrong padding in a decoder": Case(Decoder, "wrong-padding"),
    "memory's padding on queries": Case(CrossQueries, "mask-on-queries"),
    "batch mixing": Case(BatchMixing, "batch-mixing", TOLD),
    "along the batch": Case(AlongBatch, "batch-mixing"),
    "writes into its input": Case(Overwrites, "input-overwritten"),
    "writes into its input, causal": Case(OverwritesCausal, "input-overwritten", TOLD),
    "positions over the heads": Case(PositionsOverHeads, "positions-missing", {"positions": True}),
    "positions over the heads, causal": Case(PositionsOverHeadsCausal, "positions-missing", {"positions": True}),
    "no attention": Case(lambda d, h: nn.Linear(d, d), "no-attention"),
    "q, k, v: sqrt(d_model)": Case(lambda d, h: by_sqrt_d_model, "scale-sqrt-d-model"),
    "q, k, v: sqrt(d_model), a number": Case(
        lambda d, h: lambda q, k, v: dot(q, k, v, 1 / math.sqrt(d)), "scale-sqrt-d-model"
    ),
    "q, k, v: no scale": Case(lambda d, h: by_one, "scale-missing"),
    "q, k, v: 1/d": Case(lambda d, h: by_d, "scale-1-over-d"),
    "q, k, v: softmax over queries": Case(lambda d, h: over_queries, "softmax-over-queries"),
    "q, k, v: softmax twice": Case(lambda d, h: twice, "softmax-twice"),
    "q, k, v: mask after softmax": Case(lambda d, h: after, "mask-after-softmax"),
    "q, k, v: as many keys as queries, sees one ahead": Case(
        lambda d, h: lambda q, k, v: square(q, k, v, 1), "causal-off-by-one"
    ),
    "q, k, v: GQA tiled": Case(lambda d, h: tiled, "gqa-order"),
}


def planted(name: str, seed: int) -> tuple[Callable[..., Any], int, Case]:
    """The module of a fault, of a width and a start that the seed decides."""
    case = FAULTS[name]
    d_model, heads = WIDTHS[seed % len(WIDTHS)]
    torch.manual_seed(seed)
    return case.make(d_model, heads), d_model, case
