"""The models in steps, with caches, against themselves at once."""

import pytest
import torch

from companion.cache import KVCache, RollingKVCache
from companion.models import DecoderOnly, Seq2SeqTransformer
from tests.companion.test_cache import splits
from tests.companion.test_models import EXACT, PAD, alive, config, every_kind, every_position, ids, padded


@every_kind
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_with_a_cache_at_every_split(positions: str, style: str, side: str | None, device: str):
    """And what was padding is still known when the text goes on, from ids or as it was told."""
    chosen = config(positions, style, pad_id=PAD)
    model = alive(DecoderOnly(chosen), device)
    table, real = padded([ids(n, device=device) for n in ((5, 5) if side is None else (5, 2))], side or "left")
    whole = model(table)
    for told in (False, True):
        for sizes in splits(5) if side is None and positions == "rotary" else ([1] * 5, [3, 2]):
            cache, parts, end = model.new_cache(5), [], 0
            for part in table.split(sizes, dim=1):
                end += part.shape[1]
                parts.append(model(part, real=real[:, :end] if told else None, cache=cache))
            torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real], **EXACT)
            assert cache.length == 5


@every_kind
def test_an_encoder_decoder_with_caches_at_every_split(positions: str, style: str, device: str):
    model = alive(Seq2SeqTransformer(config(positions, style, num_decoder_layers=2, pad_id=PAD)), device)
    source, source_real = padded([ids(4, device=device), ids(7, device=device)], "right")
    target, target_real = padded([ids(5, device=device), ids(3, device=device)], "left")
    whole = model(source, target)
    memory = model.encode(source)
    for sizes in splits(5) if style == "today" and positions == "rotary" else ([1] * 5, [3, 2]):
        caches = {"cache": model.new_cache(5), "memory_cache": model.new_cache(1)}
        steps = target.split(sizes, dim=1)
        parts = [model.decode(step, memory, source_real=source_real, **caches) for step in steps]
        torch.testing.assert_close(torch.cat(parts, 1)[target_real], whole[target_real], **EXACT)


def test_a_prompt_padded_as_told_goes_on_without_being_told_again():
    model = alive(DecoderOnly(config()))  # no pad_id: ids say nothing
    table, real = padded([ids(5), ids(2)], "left")
    cache = model.new_cache(8)
    model(table[:, :4], real=real[:, :4], cache=cache)
    got = model(table[:, 4:], cache=cache)
    torch.testing.assert_close(got, model(table, real=real)[:, 4:], **EXACT)
    assert torch.equal(cache.real, real)
    cache.crop(3)
    torch.testing.assert_close(model(table[:, 3:], cache=cache), model(table, real=real)[:, 3:], **EXACT)
    cache.reorder(torch.tensor([1, 1, 0]))
    more, both = ids(3, 2), torch.tensor([1, 1, 0])
    whole = model(torch.cat([table[both], more], 1), real=torch.cat([real[both], torch.ones(3, 2).bool()], 1))
    torch.testing.assert_close(model(more, cache=cache), whole[:, 5:], **EXACT)


def test_caches_that_would_not_serve_are_refused():
    model, text = alive(DecoderOnly(config())), ids(1, 3)
    for cache, words in (
        (KVCache(8, 2), "cache must have the model's num_layers=3, got 2"),
        (KVCache(8, 4), "cache must have the model's num_layers=3, got 4"),  # whose length would stay 0
        (RollingKVCache(8, 3), "cache must be a KVCache that keeps all"),
    ):
        with pytest.raises(ValueError, match=words):
            model(text, cache=cache)
    with pytest.raises(TypeError, match="cache must be a KVCache, got dict"):
        model(text, cache={})
    cache = model.new_cache(4)
    model(text, cache=cache)
    with pytest.raises(ValueError, match="key has 2 positions, and the cache holds 3 of max_length=4"):
        model(text[:, :2], cache=cache)
    with pytest.raises(ValueError, match="as before; got"):
        model(ids(2, 1), cache=cache)
    knowing = alive(DecoderOnly(config(pad_id=PAD)))
    cache = knowing.new_cache(8)
    knowing(text, cache=cache)
    with pytest.raises(ValueError, match="the cache holds a batch of 1, got one of 2"):
        knowing(ids(2, 1), cache=cache)
    both = alive(Seq2SeqTransformer(config()))
    cache, memory = both.new_cache(8), both.encode(text)
    with pytest.raises(ValueError, match="layer 0 holds what self-attention has seen"):
        both.decode(text, memory, cache=cache, memory_cache=cache)


@every_position
@torch.no_grad()
def test_in_float32_as_a_model_starts(positions: str, device: str):
    """The numbers that the design promises: a cache at every split, and padding on the left."""
    model = DecoderOnly(config(positions, pad_id=PAD)).to(device).eval()
    table, real = padded([ids(6, device=device), ids(2, device=device)], "left")
    whole = model(table)
    torch.testing.assert_close(whole[1, real[1]], model(table[1:, 4:])[0], rtol=0, atol=1e-6)
    for sizes in splits(6):
        cache = model.new_cache(6)
        parts = torch.cat([model(part, cache=cache) for part in table.split(sizes, dim=1)], 1)
        torch.testing.assert_close(parts[real], whole[real], rtol=0, atol=1e-6)


def test_a_step_that_failed_halfway_is_forgotten():
    """As when a cell is run again after an error: the lower layers have the tokens already."""
    model, text = alive(DecoderOnly(config())), ids(2, 5)
    cache, upper = model.new_cache(5), model.decoder.blocks[1]
    model(text[:, :3], cache=cache)
    whole, forward = model(text), upper.forward
    upper.forward = lambda *given, **options: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model(text[:, 3:], cache=cache)
    assert (cache.seen(0), cache.length) == (5, 3)
    upper.forward = forward
    torch.testing.assert_close(model(text[:, 3:], cache=cache), whole[:, 3:], **EXACT)


@pytest.mark.slow
@torch.no_grad()
def test_a_compiled_step_equals_an_eager_one(compiled):
    model, text = alive(DecoderOnly(config(num_layers=2))), ids(2, 7)
    fast, cache = compiled(model, fullgraph=True), model.new_cache(8)
    parts = [model(text[:, :3], cache=cache)]
    parts += [fast(part, cache=cache) for part in text[:, 3:].split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(text), rtol=0, atol=1e-9)
    assert cache.length == 7
