"""Bad input for caches, configs, models and all that writes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from companion import beam, cache, config, embedding, filters, generate, models
from tests.companion.bad_input import (
    YES,
    Row,
    device_rows,
    flag_rows,
    float_rows,
    integer_rows,
    number_rows,
    wrong_kind,
    wrong_value,
)

MODULES = (filters, beam, generate)
META = partial(torch.empty, device="meta")
IDS, NEW = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[1], [1]])
REAL = torch.ones(2, 3, dtype=torch.bool)
SMALL = config.TransformerConfig(vocab_size=7, d_model=8, num_heads=2, num_layers=1)
PADDED = config.TransformerConfig(vocab_size=7, d_model=8, num_heads=2, num_layers=1, pad_id=0)


def id_rows(function: Callable[..., Any], name: str) -> Iterator[Row]:
    """A table of ids."""
    for bad, kind in ((None, "NoneType"), ([[1]], "list"), ("text", "str"), (1, "int")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a torch.Tensor", kind))
    for dtype in (torch.float32, torch.bool, torch.complex64):
        yield wrong_kind(function, **{name: IDS.to(dtype)}, says=(f"{name} must be integers", str(dtype)))
    yield wrong_value(function, **{name: IDS[0]}, says=(f"{name} must have shape (B, L)", "(3,)"))
    yield wrong_value(function, **{name: IDS[None]}, says=(f"{name} must have shape (B, L)", "(1, 2, 3)"))
    yield wrong_value(function, **{name: IDS + 1}, says=(f"{name} must be from 0 to 6", "got 7"))
    yield wrong_value(function, **{name: IDS - 2}, says=(f"{name} must be from 0 to 6", "got -1"))


def real_rows(function: Callable[..., Any], name: str) -> Iterator[Row]:
    """A table that goes with ids ``(2, 3)``."""
    for bad, kind in (([[True]], "list"), (True, "bool"), (3, "int")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a torch.Tensor", kind))
    for dtype in (torch.float32, torch.int64):
        yield wrong_kind(function, **{name: REAL.to(dtype)}, says=(f"{name} must be boolean", str(dtype)))
    for bad in (REAL[0], REAL[:1], REAL[:, :2], REAL[:, :, None], REAL.T):
        yield wrong_value(
            function, **{name: bad}, says=(f"{name} must have shape (B, S) = (2, 3)", str(tuple(bad.shape)))
        )
    yield wrong_value(function, **{name: REAL.to("meta")}, says=(f"{name} must be on the device of the ids", "meta"))


def from_cache() -> Iterator[Row]:
    yield from integer_rows(cache.KVCache, "max_length", 0, -1)
    yield from integer_rows(partial(cache.KVCache, 4), "num_layers", 0, -1)
    yield from integer_rows(cache.RollingKVCache, "window", 0, -1)
    yield from integer_rows(partial(cache.RollingKVCache, 4), "num_layers", 0, -1)
    yield from integer_rows(partial(cache.RollingKVCache, 4), "max_step", 0, -1)
    key, value = torch.rand(2, 3, 4, 5), torch.rand(2, 3, 4, 6)
    for make in (partial(cache.KVCache, 9, 2), partial(cache.RollingKVCache, 3, 2)):
        held = make()
        held.update(0, key, value)
        yield from integer_rows(held.seen, "layer", -1)
        yield wrong_value(held.seen, 2, says=("layer must be less than num_layers=2", "got 2"))
        for given in (make(), held):
            yield from integer_rows(partial(given.update, key=key, value=value), "layer", -1)
            yield wrong_value(given.update, 2, key, value, says=("layer must be less than num_layers=2", "got 2"))
            yield from float_rows(partial(given.update, 0, value=value), "key", 0)
            yield from float_rows(partial(given.update, 0, key), "value", 0)
            yield wrong_value(given.update, 0, key[0], value, says=("key must be (B, G, n, D)", "(3, 4, 5)"))
            yield wrong_value(given.update, 0, key, value[None], says=("value must be (B, G, n, D)", "(1, 2, 3, 4, 6)"))
            yield wrong_value(given.update, 0, key[:, :, 1:], value, says=("key and value must agree", "(2, 3, 3, 5)"))
            yield wrong_kind(given.update, 0, key, value.half(), says=("must have one dtype", "torch.float16"))
            yield wrong_value(given.update, 0, key, META(2, 3, 4, 6), says=("must be on one device", "meta"))
            yield from integer_rows(partial(given.keep, make=lambda: (key, value)), "layer", -1)
            yield wrong_kind(given.keep, 0, (key, value), says=("make must be callable", "tuple"))
        yield wrong_kind(held.update, 0, key.double(), value.double(), says=("key and cache", "torch.float64"))
        yield wrong_value(held.update, 0, META(2, 3, 4, 5), META(2, 3, 4, 6), says=("key and cache", "meta"))
        yield wrong_value(held.update, 0, key[:1], value[:1], says=("key must be", "(2, 3, n, 5)", "(1, 3, 4, 5)"))
        yield wrong_value(held.update, 0, key, value[..., :2], says=("value must be", "(2, 3, n, 6)", "(2, 3, 4, 2)"))
        yield wrong_value(held.keep, 0, lambda: (key, value), says=("layer 0 holds what self-attention has seen",))
        held.update(1, key, value)
        yield from integer_rows(held.crop, "n", -1)
        yield wrong_value(held.crop, 5, says=("n must be at most the 4 positions held", "got 5"))
        yield wrong_kind(held.reorder, 3, says=("entries must be a tensor or a sequence of ints", "int"))
        yield wrong_kind(held.reorder, torch.ones(2), says=("entries must be integers (n,)", "torch.float32"))
        yield wrong_kind(held.reorder, YES, says=("entries must be integers (n,)", "torch.bool"))
        yield wrong_value(held.reorder, IDS, says=("entries must have shape (n,)", "(2, 3)"))
        yield wrong_value(held.reorder, [0, -1], says=("entries must not be negative", "[0, -1]"))
        yield wrong_value(held.reorder, [0, 2], says=("entries must be less than the batch, 2", "got 2"))
    full = cache.KVCache(5)
    full.update(0, key, value)
    yield wrong_value(full.update, 0, key, value, says=("key has 4 positions", "holds 4 of max_length=5"))
    long = cache.RollingKVCache(3)
    for _ in range(4):
        with torch.no_grad():
            long.update(0, key, value)
    yield wrong_value(long.crop, 3, says=("n is too far back",))


def from_config() -> Iterator[Row]:
    new = config.TransformerConfig
    yield from integer_rows(new, "vocab_size", 0, -1)
    new = partial(new, vocab_size=7)
    for name in ("d_model", "num_heads", "num_layers", "max_length"):
        yield from integer_rows(new, name, 0, -1)
    yield from integer_rows(new, "num_token_types", -1)
    yield from integer_rows(new, "num_decoder_layers", 0, none=False)
    yield from integer_rows(new, "pad_id", -1, none=False)
    yield wrong_value(new, pad_id=7, says=("pad_id must be less than vocab_size=7", "got 7"))
    for name in ("norm_first", "bias", "embedding_norm", "tie_embeddings"):
        yield from flag_rows(new, name)
    yield from number_rows(new, "scale", ())
    yield wrong_kind(new, embedding_scale=1, says=("embedding_scale must be True or False", "int"))
    yield wrong_kind(new, positions=None, says=("positions must be a str", "NoneType"))
    yield wrong_value(new, positions="absolute", says=("positions must be one of", "'absolute'"))


def from_embedding() -> Iterator[Row]:
    typed = embedding.TokenEmbedding(config.TransformerConfig(vocab_size=7, d_model=8, num_heads=2, num_token_types=7))
    yield wrong_kind(embedding.TokenEmbedding, {"vocab_size": 7}, says=("config must be a TransformerConfig", "dict"))
    yield from id_rows(typed, "ids")
    yield wrong_value(typed, META(2, 3, dtype=torch.long), says=("ids must be on the module's device", "meta"))
    yield wrong_kind(typed, IDS, IDS.float(), says=("positions must be integers", "torch.float32"))
    yield wrong_value(typed, IDS, IDS[:, :2], says=("positions must have shape", "(2, 2)"))
    rows = list(id_rows(partial(typed, IDS), "token_types"))
    yield from [each for each in rows if "NoneType" not in each.words]  # None: all of one type
    yield wrong_value(typed, IDS, None, IDS[:, :2], says=("token_types must have the shape of ids", "(2, 2)"))
    plain = embedding.TokenEmbedding(SMALL)
    yield wrong_value(plain, IDS, None, IDS, says=("token_types must be None", "num_token_types=0"))


def from_models() -> Iterator[Row]:
    for kind in (models.DecoderOnly, models.EncoderOnly, models.Seq2SeqTransformer):
        for bad, name in ((None, "NoneType"), (7, "int"), ({"vocab_size": 7}, "dict")):
            yield wrong_kind(kind, bad, says=("config must be a TransformerConfig", name))
    yield from flag_rows(partial(models.EncoderOnly, SMALL), "masked_lm")
    gpt, bert, both = models.DecoderOnly(SMALL), models.EncoderOnly(SMALL), models.Seq2SeqTransformer(SMALL)
    for model in (gpt, bert):
        yield from id_rows(model, "ids")
        yield from real_rows(partial(model, IDS), "real")
    yield from id_rows(partial(both, target=IDS), "source")
    yield from id_rows(partial(both, IDS), "target")
    yield from real_rows(partial(both, IDS, IDS), "source_real")
    yield from real_rows(partial(both, IDS, IDS), "target_real")
    yield from id_rows(both.encode, "source")
    yield from real_rows(partial(both.encode, IDS), "source_real")
    memory = both.encode(IDS)
    yield from id_rows(partial(both.decode, memory=memory), "target")
    yield from float_rows(partial(both.decode, IDS), "memory", 0)
    yield from real_rows(partial(both.decode, IDS, memory), "source_real")
    yield from real_rows(partial(both.decode, IDS, memory), "target_real")
    for bad, words in (
        (memory[:1], ("x and memory must have the same batch dims", "(1, 3, 8)")),
        (memory[0], ("x and memory must have the same batch dims", "(3, 8)")),
        (memory[..., :4], ("memory must be", "M=8", "(2, 3, 4)")),
    ):
        yield wrong_value(both.decode, IDS, bad, says=words)
    yield wrong_value(both, IDS, IDS[:1], says=("same batch dims", "(2, 3, 8)"))
    yield wrong_value(
        models.Seq2SeqTransformer(PADDED).decode, IDS, memory, says=("source_real must be given", "pad_id=0")
    )
    for call, name in (
        (partial(gpt, IDS), "cache"),
        (partial(both.decode, IDS, memory), "cache"),
        (partial(both.decode, IDS, memory), "memory_cache"),
    ):
        for bad, kind in (({}, "dict"), (True, "bool"), ([], "list")):
            yield wrong_kind(call, **{name: bad}, says=(f"{name} must be a KVCache", kind))
        yield wrong_value(
            call, **{name: cache.KVCache(8, 2)}, says=(f"{name} must have the model's num_layers=1", "got 2")
        )
        yield wrong_value(call, **{name: cache.RollingKVCache(8)}, says=(f"{name} must be a KVCache that keeps all",))
    for model in (gpt, both):
        yield from integer_rows(model.new_cache, "max_length", 0, -1)
    yield wrong_value(gpt, IDS, cache=gpt.new_cache(2), says=("key has 3 positions", "max_length=2"))
    yield wrong_value(bert, IDS, token_types=IDS, says=("token_types must be None", "num_token_types=0"))
    yield wrong_value(bert.logits, memory, says=("masked_lm=True",))
    heady = models.EncoderOnly(SMALL, masked_lm=True)
    yield from float_rows(heady.logits, "hidden", 0)
    yield wrong_value(heady.logits, memory[..., :4], says=("hidden must be", "M=8", "(2, 3, 4)"))


def from_filters() -> Iterator[Row]:
    for keep, name in ((filters.top_k, "k"), (filters.top_p, "p")):
        yield from float_rows(partial(keep, **{name: 1}), "logits", 1)
        yield wrong_value(keep, torch.rand(2, 0), 1, says=("logits must score at least one token", "(2, 0)"))
    yield from integer_rows(partial(filters.top_k, torch.rand(3)), "k", 0, -1)
    yield from number_rows(partial(filters.top_p, torch.rand(3)), "p", (-0.1, 1.1))


def from_generate() -> Iterator[Row]:
    gpt, both, padded = models.DecoderOnly(SMALL), models.Seq2SeqTransformer(SMALL), models.DecoderOnly(PADDED)
    short = models.DecoderOnly(
        config.TransformerConfig(vocab_size=7, d_model=8, num_heads=2, max_length=4, positions="learned")
    )
    for write in (generate.greedy, generate.sample, beam.beam_search):
        for bad, kind in ((None, "NoneType"), ("gpt", "str"), (models.EncoderOnly(SMALL), "EncoderOnly")):
            yield wrong_kind(write, bad, IDS, 2, says=("model must be a DecoderOnly or a Seq2SeqTransformer", kind))
        yield from id_rows(partial(write, gpt, max_new_tokens=2), "prompt")
        yield wrong_value(write, gpt, IDS[:, :0], 2, says=("prompt must have at least one token", "(2, 0)"))
        yield wrong_value(
            write, gpt, META(2, 3, dtype=torch.long), 2, says=("prompt must be on the model's device, cpu", "meta")
        )
        yield from integer_rows(partial(write, gpt, IDS), "max_new_tokens", 0, -1)
        call = partial(write, gpt, IDS, 2)
        yield from integer_rows(call, "end_id", -1, none=False)
        yield wrong_value(call, end_id=7, says=("end_id must be less than vocab_size=7", "got 7"))
        yield from real_rows(call, "real")
        yield wrong_value(
            call, real=torch.tensor([[True, True, False]] * 2), says=("prompt must be padded on the left", "pad_left")
        )
        yield wrong_value(write, padded, torch.tensor([[1, 0]]), 2, says=("prompt must be padded on the left",))
        yield from flag_rows(call, "use_cache")
        yield wrong_value(call, source=IDS, says=("source must be None for a DecoderOnly",))
        yield wrong_value(call, source_real=REAL, says=("source_real must be None for a DecoderOnly",))
        yield wrong_value(write, both, NEW, 2, says=("source must be given to a Seq2SeqTransformer",))
        reading = partial(write, both, NEW, 2)
        yield from [each for each in id_rows(reading, "source") if "NoneType" not in each.words]
        yield wrong_value(reading, source=IDS[:1], says=("source must have the batch of prompt, 2", "(1, 3)"))
        yield from real_rows(partial(reading, source=IDS), "source_real")
        yield wrong_value(
            write, short, IDS, 3, says=("max_new_tokens=3 after 3 tokens needs 5 positions", "max_length is 4")
        )
    draw = partial(generate.sample, gpt, IDS, 2)
    yield from number_rows(draw, "temperature", (0, -1.0))
    yield from integer_rows(draw, "top_k", 0, -1, none=False)
    yield from number_rows(draw, "top_p", (-0.1, 1.1))
    yield from integer_rows(draw, "seed", -1, none=False)
    yield wrong_value(draw, seed=2**64, says=("seed must be less than 2**64", str(2**64)))
    search = partial(beam.beam_search, gpt, IDS, 2)
    yield from integer_rows(search, "num_beams", 0, -1)
    yield from number_rows(search, "length_penalty", (-0.1, 10.5))
    for bad, kind in ((None, "NoneType"), ("12", "str"), (3, "int"), (IDS, "Tensor")):
        yield wrong_kind(generate.pad_left, bad, says=("rows must be a sequence of sequences of ids", kind))
    yield wrong_kind(generate.pad_left, [1, 2], says=("rows[0] must be a tensor or a sequence of ints", "int"))
    yield wrong_kind(generate.pad_left, [[1], "ab"], says=("rows[1] must be a tensor or a sequence of ints", "str"))
    yield wrong_kind(generate.pad_left, [[1], [2.5]], says=("rows[1] must be integers", "torch.float32"))
    yield wrong_kind(generate.pad_left, [YES], says=("rows[0] must be ids", "torch.bool"))
    yield wrong_value(generate.pad_left, [[1], []], says=("rows[1] must hold at least one id",))
    yield wrong_value(generate.pad_left, [[1], [-2]], says=("rows[1] must not be negative", "[-2]"))
    yield wrong_value(generate.pad_left, [IDS], says=("rows[0] must have shape (L,)", "(2, 3)"))
    yield from integer_rows(partial(generate.pad_left, [[1]]), "pad_id", -1)
    yield from device_rows(partial(generate.pad_left, [[1]]))


def rows() -> Iterator[Row]:
    for area in (from_cache, from_config, from_embedding, from_models, from_filters, from_generate):
        yield from area()
