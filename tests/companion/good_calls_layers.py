"""Good calls of masks, positions, norms, feed-forward networks and blocks: see ``test_typing_runtime.py``."""

import torch

from companion.blocks import DecoderBlock, EncoderBlock
from companion.cache import KVCache, RollingKVCache
from companion.feed_forward import FeedForward
from companion.masks import bigbird, causal, longformer, padding, prefix_lm
from companion.multihead import MultiHeadAttention
from companion.norms import RMSNorm, make_norm
from companion.positions import LearnedPositions, SinusoidalPositions, alibi_bias, alibi_slopes, position_ids
from companion.rotary import Rotary, half_split, interleaved

for rule in (
    prefix_lm([1, 2]),
    prefix_lm((0, 4)),
    prefix_lm(torch.tensor([1, 2], dtype=torch.int32)),
    longformer(2),
    longformer(2, []),
    longformer(2, torch.tensor([1, 3]), causal=True),
    longformer(1, torch.eye(2, 4).bool()),
    bigbird(2),
    bigbird(1, window=2, num_global=0, num_random=2, causal=True, seed=3),
):
    rule.dense(2, 3, 4, 4)
    rule.compact(2, 3, 2, 4, "cpu")
    rule.rule(2, 4, 4)
    rule.block_mask(2, 1, 4, 4)
    repr(rule)

real = torch.tensor([[False, True, True], [True, True, True]])
ids = position_ids(real)
alibi_slopes(3)
alibi_bias(3, 2, 4)
alibi_bias(3, 2, 4, "cpu")
alibi_bias(3, 0, 4, torch.device("cpu"))

for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    x = torch.rand(2, 3, 8).to(dtype)
    for module in (SinusoidalPositions(8, 100.0), LearnedPositions(9, 8), Rotary(8), Rotary(8, interleaved=True)):
        module.to(dtype)
        module(x)
        module(x[0])
        module(x[:, :0])
        module(x, torch.arange(3))
        module(x, torch.arange(3, dtype=torch.int32))
        module(x.expand(4, 2, 3, 8), torch.arange(3))
        repr(module)
    LearnedPositions(9, 8)(x, ids)
    SinusoidalPositions(8)(x, ids)
    heads = x.unsqueeze(1).expand(2, 5, 3, 8)
    Rotary(8)(heads, ids)  # every head of an entry alike
    Rotary(8).both(heads, heads[:, :2], ids)
    Rotary(8).both(heads, heads)
    Rotary(8).both(x[0], x[0], torch.arange(3))
    half_split(interleaved(x))
    half_split(x, 0)
    half_split(x[0, 0])
    for norm in (RMSNorm(8, 1e-3), make_norm("rms", 8), make_norm("layer", 8, 1e-3, bias=False)):
        norm.to(dtype)(x)
        norm(x[0, 0])
        repr(norm)
    for activation in ("relu", "gelu", "gelu_tanh", "swiglu"):
        network = FeedForward(8, 5, activation, bias=False, dropout=0.5).to(dtype)
        network(x)
        network(x[0, 0])
        network.reset_parameters()
    FeedForward(8, None, "swiglu").to(dtype)(x)
    for norm_first in (False, True):
        encoder = EncoderBlock(
            8,
            4,
            6,
            num_kv_heads=2,
            activation="swiglu",
            norm="rms",
            norm_first=norm_first,
            eps=1e-3,
            bias=False,
            dropout=0.5,
            rotary=Rotary(2),
            scale=0.5,
            layer=1,
            backend="math",
        ).to(dtype)
        encoder(x)
        encoder(x[0])
        encoder(x.expand(3, 2, 3, 8))
        encoder(x, mask=padding(real), bias=alibi_bias(4, 3, 3).to(dtype), causal=True, positions=ids)
        with torch.no_grad():
            cache = KVCache(8, 2)
            encoder(x, causal=True, cache=cache)
            encoder(x[:, :1], causal=True, cache=cache, positions=torch.tensor([[3], [3]]))
        decoder = DecoderBlock(8, 2, norm_first=norm_first, rotary=Rotary(4)).to(dtype)
        memory = torch.rand(2, 5, 8).to(dtype)
        decoder(x, memory)
        decoder(x[0], memory[0], causal=False)
        decoder(x, memory, mask=torch.ones(3, 3, dtype=torch.bool), memory_mask=padding([2, 5]), positions=ids)
        decoder(x, memory, mask=causal(), bias=torch.zeros(3, 3).to(dtype))
        with torch.no_grad():
            decoder(x, memory, cache=RollingKVCache(2, max_step=4), memory_cache=KVCache(5))
        DecoderBlock(8, 2, cross_attention=False, norm_first=norm_first, scale=1.0).to(dtype)(x)
    mha = MultiHeadAttention(8, 2, num_kv_heads=1, rotary=Rotary(4), layer=0).to(dtype)
    mha(x, positions=ids, need_weights=True)
    mha(x, positions=torch.arange(3))
