"""What conversion refuses. What needs ``transformers`` to be built is in ``test_convert_hf.py``."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from companion import convert, convert_hf, minilm
from companion.blocks import DecoderBlock, EncoderBlock
from companion.config import TransformerConfig
from companion.convert import from_hf, from_torch, to_torch
from companion.models import DecoderOnly
from companion.multihead import MultiHeadAttention
from companion.rotary import Rotary
from tests.companion.bad_input import Row, device_rows, float_rows, integer_rows, wrong_kind, wrong_value

MODULES = [convert, convert_hf, minilm]


class Subclass(nn.MultiheadAttention):
    """May compute anything."""


def layer(kind: Any = nn.TransformerEncoderLayer, part: str = "", put: Any = None, **options: Any) -> Any:
    made = kind(8, 2, 16, **options)
    owner, _, name = part.rpartition(".")
    if part:
        setattr(made.get_submodule(owner), name, put)
    return made


def rows() -> Iterator[Row]:
    for call in (from_torch, to_torch):
        for bad, kind in ((None, "NoneType"), (torch.ones(2), "Tensor"), (nn.Linear(2, 2), "Linear"), ("mha", "str")):
            yield wrong_kind(call, bad, says=("module must be a", "itself", kind))
    yield wrong_kind(from_torch, Subclass(8, 2), says=("module must be an nn.MultiheadAttention", "Subclass"))
    yield wrong_kind(
        from_torch, nn.TransformerEncoder(layer(), 1, enable_nested_tensor=False), says="TransformerEncoder"
    )
    yield wrong_kind(from_torch, MultiHeadAttention(8, 2), says="companion.multihead.MultiHeadAttention")
    yield wrong_kind(to_torch, nn.MultiheadAttention(8, 2), says="MultiheadAttention")
    attention = partial(nn.MultiheadAttention, 8, 2)
    yield wrong_value(from_torch, attention(kdim=4), says=("module has kdim=4 and vdim=8", "width 8"))
    yield wrong_value(from_torch, attention(vdim=6), says=("module has kdim=8 and vdim=6", "width 8"))
    yield wrong_value(from_torch, attention(add_bias_kv=True), says="module has add_bias_kv=True")
    yield wrong_value(from_torch, attention(add_zero_attn=True), says="module has add_zero_attn=True")
    for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        for bad in (torch.tanh, nn.SiLU()):
            yield wrong_value(
                from_torch, layer(kind, activation=bad), says=("module.activation must be ReLU or GELU", repr(bad))
            )
        for part, put, words in (
            ("norm1", nn.RMSNorm(8), "module.norm1 must be an nn.LayerNorm itself, with its weights"),
            ("norm2", nn.LayerNorm(8, elementwise_affine=False), "module.norm2 must be an nn.LayerNorm itself"),
            ("norm2", nn.LayerNorm(8, bias=False), "module.norm2.bias must be None exactly where"),
            ("linear1", nn.Sequential(nn.Linear(8, 16)), "module.linear1 must be an nn.Linear itself"),
            ("linear2", nn.Linear(16, 1), "module.linear2.weight must be of shape and dtype ((8, 16), torch.float32)"),
            ("linear2", nn.Linear(16, 8).half(), "module.linear2.weight must be of shape and dtype"),
            ("linear2", nn.Linear(16, 8, bias=False), "module.linear2.bias must be None exactly where"),
            ("self_attn", Subclass(8, 2), "module.self_attn must be an nn.MultiheadAttention itself"),
            ("self_attn", attention(bias=False), "module.self_attn.in_proj_bias must be None exactly where"),
            ("self_attn", attention(add_zero_attn=True), "module.self_attn has add_zero_attn=True"),
            ("dropout2", nn.Dropout(0.7), "module must have one rate in its residual dropouts, got [0.1, 0.7"),
        ):
            yield wrong_value(from_torch, layer(kind, part, put), says=words)
    cross = layer(nn.TransformerDecoderLayer, "multihead_attn", attention(kdim=4))
    yield wrong_value(from_torch, cross, says="module.multihead_attn has kdim=4")

    turned = MultiHeadAttention(8, 2, rotary=Rotary(4))
    grouped, wide = MultiHeadAttention(8, 2, num_kv_heads=1), MultiHeadAttention(8, 2, d_head=6)
    yield wrong_value(to_torch, grouped, says="module has num_kv_heads=1 for num_heads=2")
    yield wrong_value(to_torch, wide, says=("module has d_head=6", "d_model=8"))
    yield wrong_value(to_torch, turned, says="module has rotary positions")
    yield wrong_value(to_torch, MultiHeadAttention(8, 2, scale=1.0), says="module has scale=1.0")
    for block in (EncoderBlock, DecoderBlock):
        yield wrong_value(to_torch, block(8, 2, norm="rms"), says=("module.norm_attention must be", "RMSNorm"))
        yield wrong_value(to_torch, block(8, 2, activation="swiglu"), says=("module.feed_forward", "'swiglu'"))
        yield wrong_value(to_torch, block(8, 2, num_kv_heads=1), says="module.attention has num_kv_heads=1")
        yield wrong_value(to_torch, block(8, 2, rotary=Rotary(4)), says="module.attention has rotary positions")
        yield from integer_rows(partial(block, 8, 4), "d_head", 0, -1, none=False)
    yield wrong_value(to_torch, DecoderBlock(8, 2, cross_attention=False), says="module must have cross_attention")
    for bad in (0, -2):
        config = TransformerConfig(vocab_size=5, d_model=8, num_heads=2, d_head=bad)
        yield wrong_value(DecoderOnly, config, says=("d_head must be at least 1", str(bad)))

    for bad, kind in ((None, "NoneType"), (nn.Linear(2, 2), "torch.nn.modules.linear.Linear"), ("gpt2", "str")):
        yield wrong_kind(from_hf, bad, says=("model must be one of transformers' GPT2LMHeadModel", kind))

    yield from device_rows(minilm.MiniLM)
    hidden, real = torch.rand(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    yield from float_rows(partial(minilm.mean_pool, real=real), "hidden", 0)
    for shape in ((3, 4), (2, 2, 3, 4)):
        yield wrong_value(
            minilm.mean_pool, torch.rand(shape), real, says=("hidden must have shape (B, L, M)", str(shape))
        )
    for bad in (real.long(), real.float()):
        yield wrong_kind(minilm.mean_pool, hidden, bad, says=("real must be boolean", str(bad.dtype)))
    yield wrong_kind(minilm.mean_pool, hidden, [[True]], says=("real must be a torch.Tensor", "list"))
    for bad in (real[:1], real[:, :1], real[0]):
        yield wrong_value(
            minilm.mean_pool, hidden, bad, says=("real must have shape (B, L) = (2, 3)", str(tuple(bad.shape)))
        )
    yield wrong_value(minilm.mean_pool, hidden, real.to("meta"), says=("must be on one device", "meta"))
