"""Sound attention in many styles, which the doctor must clear."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import MultiHeadAttention, attend, scaled_dot_product_attention
from companion.blocks import DecoderBlock, EncoderBlock
from companion.rotary import Rotary
from tests.companion import doctor_faults as hand


class Einsum(nn.Module):
    """One tensor a projection, sums by einsum, no mask; weights are returned too."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        shape = (3, d_model, num_heads, d_model // num_heads)
        self.w_in = nn.Parameter(torch.randn(shape) * d_model**-0.5)
        self.w_out = nn.Parameter(torch.randn(num_heads, d_model // num_heads, d_model) * d_model**-0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = torch.einsum("blm,nmhd->nblhd", x, self.w_in)
        scores = torch.einsum("blhd,bshd->blsh", q, k) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores, dim=2)
        return torch.einsum("blsh,bshd,hdm->blm", weights, v, self.w_out), weights


class Packed(nn.Module):
    """Causal, one projection for q, k and v, a buffer for the triangle: the style of small GPTs."""

    def __init__(self, d_model: int, num_heads: int, longest: int = 32) -> None:
        super().__init__()
        self.n_head = num_heads
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class Exponents(nn.Module):
    """The softmax by hand, the keys first, the additive mask of another library, positions inside."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.heads = num_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.places = nn.Parameter(torch.randn(64, d_model) * 0.1)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = hidden_states + self.places[: hidden_states.shape[1]]
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.qkv(x).chunk(3, -1))
        scores = torch.einsum("bshd,blhd->bhsl", k, q) / q.shape[-1] ** 0.5
        if attention_mask is not None:
            scores = scores + attention_mask.mT
        top = scores.amax(2, keepdim=True)
        e = torch.exp(scores - top.masked_fill(top == -math.inf, 0.0))
        weights = e / e.sum(2, keepdim=True).clamp(min=1e-30)
        return self.out(torch.einsum("bhsl,bshd->blhd", weights, v).flatten(2))


class Annotated(nn.Module):
    """Three inputs, as in the Annotated Transformer, 1 where one may attend; a row of nothing gives zero."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        n = query.size(0)
        query, key, value = (
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -math.inf)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = weights.masked_fill(mask.unsqueeze(1) == 0, 0.0)
        x = torch.matmul(weights, value).transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k)
        return self.linears[-1](x)


class Renormalised(Packed):
    """Masked after the softmax, and made to sum to one again: the same, in another order."""

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        att = (q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))).softmax(-1) * self.bias[:, :, :T, :T]
        att = att / att.sum(-1, keepdim=True)
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class MustHaveMask(nn.Module):
    """A mask that has to be given, in ints."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.inner = MultiHeadAttention(d_model, num_heads)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.inner(x, mask=(mask == 1)[:, None, None, :])


def stack(d_model: int, heads: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(d_model, heads, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def gpt2(d_model: int, heads: int, how: str) -> nn.Module:
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    return GPT2Attention(GPT2Config(n_embd=d_model, n_head=heads, attn_implementation=how), layer_idx=0)


def bert(d_model: int, heads: int, how: str) -> nn.Module:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertAttention

    config = BertConfig(hidden_size=d_model, num_attention_heads=heads, attn_implementation=how)
    return BertAttention(config)


class Sound(NamedTuple):
    """What is sound, what the doctor is told, and which checks must have passed, so that a skip is no pass."""

    make: Callable[[int, int], Callable[..., Any]]
    passed: tuple[str, ...]
    options: Mapping[str, Any] = MappingProxyType({})


class Linear(nn.Module):
    """Linear attention: no softmax, divided by the sum of its weights, or not."""

    def __init__(self, d_model: int, num_heads: int, divided: bool = True) -> None:
        super().__init__()
        self.heads, self.divided = num_heads, divided
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = q @ (k.mT @ v)
        if self.divided:
            y = y / (q @ k.sum(-2).unsqueeze(-1))
        return self.out(y.transpose(1, 2).flatten(2))


class BatchSecond(hand.Hand):
    """For (L, B, M)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


LOOKED = ("batch entries are apart", "heads are split by features", "heads are merged in order", "one softmax")
LOOKED += ("the softmax is over the keys", "rows sum to one", "half precision stays finite")
MASKED = ("padding does not leak", "masked before the softmax")
FUTURE = ("the future does not leak",)
EMPTY = ("a fully masked row is zero", "gradients are finite")
SCALED = ("the scale is 1/√D", "rows sum to one", "one softmax", "half precision stays finite")

SOUND = {
    "MultiHeadAttention": Sound(
        MultiHeadAttention,
        (*LOOKED, *MASKED, *FUTURE, *EMPTY, "cached equals uncached", "equivariant without positions"),
    ),
    "MultiHeadAttention, told causal": Sound(MultiHeadAttention, (*LOOKED, *FUTURE), {"causal": True}),
    "GQA, rotary": Sound(
        lambda d, h: MultiHeadAttention(d, h, num_kv_heads=h // 2, d_head=4, rotary=Rotary(4)),
        (*LOOKED, *MASKED, *FUTURE, *EMPTY, "cached equals uncached", "key/value heads in order"),
    ),
    "EncoderBlock": Sound(EncoderBlock, (*LOOKED, *MASKED, *FUTURE, *EMPTY, "cached equals uncached")),
    "EncoderBlock, pre-LN": Sound(lambda d, h: EncoderBlock(d, h, norm_first=True), (*LOOKED, *MASKED, *EMPTY)),
    "DecoderBlock": Sound(DecoderBlock, (*LOOKED, *MASKED, *EMPTY)),
    "attend": Sound(lambda d, h: attend, (*SCALED, *MASKED, *FUTURE, *EMPTY, "key/value heads in order")),
    "scaled_dot_product_attention": Sound(
        lambda d, h: scaled_dot_product_attention, (*SCALED, *MASKED, *EMPTY, "key/value heads in order")
    ),
    "nn.MultiheadAttention": Sound(lambda d, h: nn.MultiheadAttention(d, h, batch_first=True), (*LOOKED, *MASKED)),
    "nn.MultiheadAttention, (L, B, M)": Sound(nn.MultiheadAttention, (*LOOKED, *MASKED), {"causal": True}),
    "nn.TransformerEncoderLayer": Sound(
        lambda d, h: nn.TransformerEncoderLayer(d, h, batch_first=True), (*LOOKED, *MASKED, *EMPTY)
    ),
    "nn.TransformerEncoderLayer, (L, B, M)": Sound(nn.TransformerEncoderLayer, (*LOOKED, *MASKED, *EMPTY)),
    "nn.TransformerEncoder, two layers": Sound(stack, ("batch entries are apart", "rows sum to one", *MASKED, *EMPTY)),
    "nn.TransformerDecoderLayer": Sound(
        lambda d, h: nn.TransformerDecoderLayer(d, h, batch_first=True), (*LOOKED, *MASKED, *EMPTY)
    ),
    "F.scaled_dot_product_attention": Sound(
        lambda d, h: F.scaled_dot_product_attention, (*SCALED, *MASKED, *FUTURE, "key/value heads in order")
    ),
    "GPT-2": Sound(lambda d, h: gpt2(d, h, "sdpa"), (*LOOKED, *FUTURE, *MASKED), {"causal": True}),
    "GPT-2, eager": Sound(
        lambda d, h: gpt2(d, h, "eager"), (*LOOKED, *FUTURE, *MASKED, "cached equals uncached"), {"causal": True}
    ),
    "BERT": Sound(lambda d, h: bert(d, h, "sdpa"), (*LOOKED, *MASKED, "equivariant without positions")),
    "BERT, eager": Sound(lambda d, h: bert(d, h, "eager"), (*LOOKED, *MASKED, "equivariant without positions")),
    "einsum": Sound(Einsum, (*LOOKED, "equivariant without positions"), {"causal": False}),
    "packed": Sound(Packed, (*LOOKED, *FUTURE)),
    "renormalised": Sound(Renormalised, (*LOOKED, *FUTURE)),
    "exponents": Sound(Exponents, (*LOOKED, *MASKED, *EMPTY)),
    "annotated": Sound(Annotated, (*LOOKED, *MASKED)),
    "mask demanded": Sound(MustHaveMask, (*LOOKED, *MASKED, *EMPTY)),
    "hand": Sound(hand.Hand, (*LOOKED, *MASKED, *EMPTY)),
    "hand, causal": Sound(hand.HandCausal, (*LOOKED, *MASKED, *EMPTY, *FUTURE), {"causal": True}),
    "hand, padding": Sound(hand.PaddingKeys, (*LOOKED, *MASKED, *EMPTY)),
    "hand, cached": Sound(hand.Cached, (*LOOKED, *FUTURE, "cached equals uncached")),
    "hand, cached pairs": Sound(hand.CacheTuple, (*LOOKED, *FUTURE, "cached equals uncached")),
    "hand, cross": Sound(hand.Cross, (*LOOKED, *MASKED, *EMPTY)),
    "hand, positions": Sound(hand.Positions, (*LOOKED, *MASKED)),
    "hand, grouped": Sound(hand.grouped(hand.Hand), (*LOOKED, "key/value heads in order")),
    "hand, (L, B, M)": Sound(BatchSecond, LOOKED, {"adapter": hand.Adapter(batch_first=False)}),
    "hand, positions told": Sound(hand.Positions, (*LOOKED, *MASKED), {"positions": True}),
    "linear": Sound(Linear, ("batch entries are apart", "the input is left alone", "rows sum to one")),
    "q, k, v, as many keys as queries": Sound(lambda d, h: hand.square, (*SCALED, *FUTURE)),
    "q, k, v": Sound(lambda d, h: lambda q, k, v: hand.dot(q, k, v, q.shape[-1] ** -0.5), SCALED),
}


def sound(name: str, seed: int) -> tuple[Callable[..., Any], int, Sound]:
    """A sound module, of a width and a start that the seed decides."""
    case = SOUND[name]
    d_model, heads = hand.WIDTHS[seed % len(hand.WIDTHS)]
    torch.manual_seed(seed)
    return case.make(d_model, heads), d_model, case
