"""Good calls of capture, rollout, head scores, ablation and integrated gradients: see ``test_typing_runtime.py``."""

import torch

from companion import diagnostics
from companion.interpret import (
    ablate_heads,
    capture,
    head_scores,
    integrated_gradients,
    rollout,
    token_attributions,
)
from companion.models import DecoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.multihead import MultiHeadAttention

config = TransformerConfig(vocab_size=11, d_model=8, num_heads=2, num_layers=2, positions="rotary", pad_id=0)
gpt, seq2seq = DecoderOnly(config).eval(), Seq2SeqTransformer(config).eval()
ids = torch.tensor([[1, 2, 1, 2], [3, 4, 3, 0]])

with capture(gpt) as record:
    gpt(ids)
    cache = gpt.new_cache(4)
    gpt(ids[:, :2], cache=cache)
    gpt(ids[:, 2:], cache=cache)
repr(record)
record.last("*.1.attention")
with diagnostics.capture(seq2seq, only="*.cross_attention", to="cpu", detach=False) as record:
    seq2seq(ids, ids[:, :3])
record.clear()
with capture(MultiHeadAttention(8, 2)), capture(gpt, to=torch.device("cpu")) as record:
    gpt(ids)

for dtype in (torch.float16, torch.float64):
    layers = [torch.rand(2, 3, 4, 4).to(dtype).softmax(-1) for _ in range(2)]
    for heads in ("mean", "max", "min"):
        rollout(layers, heads=heads)
        rollout(tuple(x[0] for x in layers), heads=heads)
    rollout(torch.stack(layers))
    for tokens in (None, ids, ids.int()):
        head_scores(layers, tokens=tokens, real=ids != 0)
        head_scores(layers[0], "first", tokens=tokens)
    head_scores(torch.stack(layers))
    head_scores(tuple(layers), "induction", tokens=ids)

with ablate_heads(gpt, {0: [1], "decoder.blocks.1.attention": range(2)}):
    gpt(ids)
with ablate_heads(seq2seq, {"encoder.blocks.0.attention": (0,)}, by="mean"):
    seq2seq(ids, ids)

x = torch.rand(2, 3)
integrated_gradients(lambda x: x.square().sum(-1), x)
integrated_gradients(lambda x: x.square().sum(), x.double(), torch.ones(3).double(), steps=2, method="midpoint")
token_attributions(gpt, lambda: gpt(ids)[:, 1, 5], baseline=0, steps=3).tokens.sum()
token_attributions(gpt, lambda: gpt(ids)[:, 1, 5], baseline=torch.zeros(8), embedding=gpt.embedding.tokens)
token_attributions(seq2seq, lambda: seq2seq(ids, ids)[:, 1, 5], lookup=1, method="midpoint")
