"""Faults of decoding that other people's attention has had: see ``test_public_bugs.py``."""

import pytest
import torch
from torch import Tensor

from companion import MultiHeadAttention, padding
from companion.cache import KVCache
from companion.generate import greedy, pad_left
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.positions import Rotary

EXACT = {"rtol": 0, "atol": 1e-11}  # in float64
VOCABULARY = 11


def config(positions: str, **options: int | bool | None) -> TransformerConfig:
    chosen = {"vocab_size": VOCABULARY, "d_model": 16, "num_layers": 3, "embedding_scale": True}
    return TransformerConfig(**(chosen | options), positions=positions)


@torch.no_grad()
def test_bug_14_rope_cache_keyed_without_the_offset():
    """Token by token = all at once, at any split, in calls whose lengths repeat and whose starts do not."""
    mha, x = MultiHeadAttention(16, 2, rotary=Rotary(8)).double(), torch.randn(2, 8, 16).double()
    whole = mha(x, causal=True)
    for sizes in ([1] * 8, [2, 2, 2, 2], [3, 1, 3, 1], [5, 3]):
        cache = KVCache(8)
        parts = [mha(part, causal=True, cache=cache) for part in x.split(sizes, dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), whole, **EXACT)
    # The faulty variant: angles found by the length of the call alone.
    cache = KVCache(8)
    wrong = [mha(part, causal=True, cache=cache, positions=torch.arange(2)) for part in x.split(2, dim=1)]
    assert (torch.cat(wrong, 1) - whole)[:, 2:].abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi"])
def test_bug_15_decode_positions_all_zero_or_upper_layers_one_ahead(positions: str):
    """Three layers: token by token = all at once; each layer counts for itself."""
    model = DecoderOnly(config(positions)).double().eval()
    ids = torch.randint(VOCABULARY, (2, 7))
    whole = model(ids)
    for sizes in ([1] * 7, [4, 1, 1, 1], [2, 3, 2]):
        cache = model.new_cache(7)
        parts = []
        for part in ids.split(sizes, dim=1):
            before = cache.length
            parts.append(model(part, cache=cache))
            assert [cache.seen(layer) for layer in range(3)] == [before + part.shape[1]] * 3
        torch.testing.assert_close(torch.cat(parts, 1), whole, **EXACT)
    if positions in ("sinusoidal", "learned"):  # the faulty variant: each token embedded as the first
        zero = torch.cat([model.embedding(ids[:, t : t + 1]) for t in range(7)], 1)
        assert (zero - model.embedding(ids))[:, 1:].abs().max() > 1e-3
    if positions == "rotary":  # and one in which upper layers count what this step's lower ones have added
        cache, x = model.new_cache(7), model.embedding(ids)
        steps = []
        for part in x.split(1, dim=1):
            start = cache.length
            for layer, block in enumerate(model.decoder.blocks):
                part = block(part, cache=cache, positions=torch.tensor([start + (layer > 0) * (start > 0)]))
            steps.append(part)
        wrong = model.embedding.logits(model.decoder.norm(torch.cat(steps, 1)))
        assert (wrong - whole)[:, 1:].abs().max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal", "alibi"])
def test_bug_17_left_padding_without_position_ids(positions: str):
    """Batched and padded on the left = alone; for an encoder too."""
    texts = [torch.randint(1, VOCABULARY, (length,)) for length in (6, 2, 4)]
    ids, real = pad_left(texts)
    for kind in (DecoderOnly, EncoderOnly):
        model = kind(config(positions)).double().eval()
        batched = model(ids, real=real)
        for i, text in enumerate(texts):
            torch.testing.assert_close(batched[i, real[i]], model(text[None])[0], **EXACT)
        if positions != "learned":
            continue
        # The faulty variant: the mask is right, and positions count the padding.
        x = model.embedding(ids, torch.arange(6))
        stack = model.decoder if kind is DecoderOnly else model.encoder
        wrong, right = (
            stack(each, mask=padding(real)) for each in (x, model.embedding(ids, real.cumsum(1) - 1 + ~real))
        )
        assert (wrong - right)[1, real[1]].abs().max() > 1e-3
    gpt = DecoderOnly(config(positions)).double().eval()
    written = greedy(gpt, ids, 5, real=real)
    for i, text in enumerate(texts):
        assert torch.equal(written[i, 6 - len(text) :], greedy(gpt, text[None], 5)[0])


@torch.no_grad()
def test_bug_19_cross_attention_takes_the_decoders_padding_mask_in_a_model():
    """Source longer than target, padding in the source alone, decoded with caches and without."""
    model = Seq2SeqTransformer(config("sinusoidal", pad_id=0)).double().eval()
    source = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0]])
    target = torch.tensor([[1, 2, 3], [1, 4, 5]])
    alone = model(source[1:, :2], target[1:])
    whole = model(source, target)
    torch.testing.assert_close(whole[1:], alone, **EXACT)
    memory, caches = model.encode(source), {"cache": model.new_cache(3), "memory_cache": model.new_cache(1)}
    parts = [model.decode(part, memory, source_real=source != 0, **caches) for part in target.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, **EXACT)
    # The faulty variants: no mask for the memory, or the target's, which only a source of its length would hide.
    wrong = model.decode(target, memory, source_real=torch.ones_like(source, dtype=torch.bool))
    assert (wrong - whole)[1].abs().max() > 1e-4
    with pytest.raises(ValueError, match=r"source_real must have shape \(B, S\) = \(2, 5\)"):
        model.decode(target, memory, source_real=target != 0)
    padded: Tensor = torch.tensor([[1, 2, 3], [1, 4, 0]])
    torch.testing.assert_close(model(source, padded)[1, :2], whole[1, :2], **EXACT)
