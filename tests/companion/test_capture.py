"""Captured weights are those that were used, and a model that is watched is the model that it was."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from companion import diagnostics, interpret
from companion.attention import merge_heads, scaled_dot_product_attention, split_heads
from companion.cache import RollingKVCache
from companion.capture import capture
from companion.generate import greedy
from companion.masks import causal, sliding_window
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.multihead import MultiHeadAttention
from companion.rotary import Rotary
from companion.typing import AttentionOutput

IDS = torch.tensor([[0, 1, 2, 3, 4], [5, 6, 7, 1, 2]])
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")


def config(**options) -> TransformerConfig:
    sizes = {"vocab_size": 9, "d_model": 8, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2, "pad_id": 0}
    return TransformerConfig(**sizes | options)


def state(model: nn.Module) -> tuple:
    """All that a capture could have left changed, but for the numbers."""
    return (
        {name: (module.training, *map(len, (module._forward_hooks, module._forward_pre_hooks)), sorted(vars(module)))
         for name, module in model.named_modules()},
        torch.get_rng_state().tolist(),
    )  # fmt: skip


def numbers(model: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.state_dict().items()}


def same_numbers(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert all(torch.equal(x, two[name]) for name, x in one.items())


def test_it_is_one_function_under_three_names():
    assert diagnostics.capture is interpret.capture is capture


# --- the weights are those that were used ---


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_the_weights_are_those_that_made_the_output(device: str, positions: str, kind: str):
    """By the value that each head gave: weights times values, merged and projected, is what the layer returned."""
    model = (DecoderOnly if kind == "decoder" else EncoderOnly)(config(positions=positions)).to(device).double().eval()
    outputs, inputs = {}, {}

    def note(name, module, arguments, output):
        inputs[name], outputs[name] = arguments[0], output

    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            module.register_forward_hook(partial(note, name))
    with capture(model) as record:
        model(IDS.to(device))
    assert list(record) == record.names == [f"{kind}.blocks.{i}.attention" for i in (0, 1)]
    for name, (weights,) in record.items():
        module = model.get_submodule(name)
        assert weights.shape == (2, 4, 5, 5)
        torch.testing.assert_close(weights.sum(-1)[1], torch.ones(4, 5, device=device).double())
        assert (weights[0, :, :, 0] == 0).all()  # padding
        if kind == "decoder":
            assert (weights.triu(1) == 0).all()
        value = split_heads(module.W_V(inputs[name]), 2).repeat_interleave(2, dim=1)
        torch.testing.assert_close(module.W_O(merge_heads(weights @ value)), outputs[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_module_alone_says_what_need_weights_says(device: str, dtype: torch.dtype):
    module = MultiHeadAttention(8, 4, num_kv_heads=2, rotary=Rotary(2)).to(device, dtype)
    x = torch.rand(2, 5, 8, device=device, dtype=dtype)
    options = {"mask": sliding_window(3), "bias": torch.rand(5, 5, device=device), "causal": True}
    for given, more in ((x, options), (x[0], {}), (x, {"mask": causal(), "positions": torch.arange(3, 8).to(device)})):
        with capture(module) as record:
            module(given, **more)
        want = module(given, **more, need_weights=True)[1]
        assert torch.equal(record["MultiHeadAttention"][0], want)


def test_cross_attention_by_position_and_by_name():
    module, x, context = MultiHeadAttention(8, 2), torch.rand(2, 3, 8), torch.rand(2, 5, 8)
    want = module(x, context, need_weights=True)[1]
    with capture(module) as record:
        module(x, context)
        module(x, context=context)
        module(x=x, context=context, need_weights=True)
    assert [torch.equal(weights, want) for weights in record["MultiHeadAttention"]] == [True] * 3


def test_an_encoder_decoder_says_which_is_which():
    model = Seq2SeqTransformer(config(num_layers=1, num_decoder_layers=2)).eval()
    with capture(model) as record:
        model(IDS, IDS[:, 1:4])
    assert {name: tuple(calls[0].shape) for name, calls in record.items()} == {
        "encoder.blocks.0.attention": (2, 4, 5, 5),
        "decoder.blocks.0.attention": (2, 4, 3, 3),
        "decoder.blocks.0.cross_attention": (2, 4, 3, 5),
        "decoder.blocks.1.attention": (2, 4, 3, 3),
        "decoder.blocks.1.cross_attention": (2, 4, 3, 5),
    }
    assert len(record.last("*.cross_attention")) == 2
    assert record.last("encoder.*")[0] is record["encoder.blocks.0.attention"][0]
    for weights in record.last("*.cross_attention"):
        assert (weights[0, ..., 0] == 0).all()  # the source's padding


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("grad", [False, True])
def test_decoding_with_a_cache_records_the_rows_of_the_whole(positions: str, grad: bool):
    model = DecoderOnly(config(positions=positions)).double().eval()
    with torch.set_grad_enabled(grad), capture(model) as whole:
        model(IDS)
    with torch.set_grad_enabled(grad), capture(model) as steps:
        cache = model.new_cache(5)
        for piece in IDS.split([2, 1, 2], dim=1):
            model(piece, cache=cache)
    assert cache.length == 5
    for name, (full,) in whole.items():
        assert [w.shape[-2:] for w in steps[name]] == [(2, 2), (1, 3), (2, 5)]
        rows = torch.cat([nn.functional.pad(w, (0, 5 - w.shape[-1])) for w in steps[name]], dim=-2)
        torch.testing.assert_close(rows, full, rtol=0, atol=1e-12)


def test_a_memory_that_is_kept_is_looked_at_and_not_made_anew():
    model = Seq2SeqTransformer(config()).double().eval()
    real = IDS != 0
    with torch.no_grad(), capture(model) as record:
        memory = model.encode(IDS)
        model.decode(IDS[:, 1:4], memory, source_real=real)
        cache, kept = model.new_cache(3), model.new_cache(9)
        for piece in IDS[:, 1:4].split(1, dim=1):
            model.decode(piece, memory, source_real=real, cache=cache, memory_cache=kept)
    for name in record.names:
        if "cross" in name:
            whole, *steps = record[name]
            torch.testing.assert_close(torch.cat(steps, dim=-2), whole, rtol=0, atol=1e-12)


def test_a_rolling_cache():
    module = MultiHeadAttention(8, 2, rotary=Rotary(4)).double()
    x = torch.rand(1, 9, 8).double()
    with torch.no_grad(), capture(module) as record:
        module(x, mask=sliding_window(3))
        cache = RollingKVCache(3)
        outputs = [module(x[:, i : i + 1], mask=sliding_window(3), cache=cache) for i in range(9)]
        plain = RollingKVCache(3)
    again = [module(x[:, i : i + 1], mask=sliding_window(3), cache=plain) for i in range(9)]
    full, *steps = record["MultiHeadAttention"]
    torch.testing.assert_close(torch.cat(outputs), torch.cat(again), rtol=0, atol=1e-12)
    for i, weights in enumerate(steps):
        torch.testing.assert_close(weights[:, :, 0], full[:, :, i, max(0, i - 2) : i + 1], rtol=0, atol=1e-12)


def test_greedy_writing_records_each_step():
    model = DecoderOnly(config(pad_id=None)).eval()
    want = greedy(model, IDS, 3)
    with capture(model) as record:
        assert torch.equal(greedy(model, IDS, 3), want)
    assert [w.shape[-2:] for w in record["decoder.blocks.1.attention"]] == [(5, 5), (1, 6), (1, 7)]


def test_dropout_is_not_in_the_weights_and_draws_as_it_would():
    model = DecoderOnly(config(dropout=0.5, pad_id=None)).train()
    torch.manual_seed(1)
    want, after = model(IDS), torch.get_rng_state()
    torch.manual_seed(1)
    with capture(model) as record:
        assert torch.equal(model(IDS), want)
    assert torch.equal(torch.get_rng_state(), after)
    for (weights,) in record.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 5))


# --- the model is what it was ---


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("backend", ["auto", "math", "reference"])
def test_outputs_gradients_and_all_else_are_bit_for_bit_the_same(device: str, training: bool, backend: str):
    """With lengths at which a fast kernel and the reference do differ."""
    model = Seq2SeqTransformer(config(backend=backend, dropout=0.1, pad_id=None)).to(device).train(training)
    model.encoder.eval()  # mixed modes are kept too
    ids = torch.randint(9, (2, 40), device=device)

    def answers(watched: nn.Module) -> list[Tensor]:
        torch.manual_seed(3)
        watched.zero_grad()
        logits = watched(ids, ids)
        logits.square().sum().backward()
        return [logits, *(p.grad.clone() for p in watched.parameters())]

    want, before, kept = answers(model), state(model), numbers(model)
    with capture(model) as record:
        found = answers(model)
    assert state(model) == before
    same_numbers(kept, numbers(model))
    for one, two in zip(want, found, strict=True):
        assert torch.equal(one, two)
    assert len(record) == 6
    assert not any(w.requires_grad for calls in record.values() for w in calls)


def test_after_an_error_all_is_restored():
    model = DecoderOnly(config()).train()
    before = state(model)
    with pytest.raises(ValueError, match="ids must be from 0"), capture(model):
        model(IDS + 100)
    with pytest.raises(ValueError, match="mask must have shape"), capture(model):
        model.decoder.blocks[0].attention(torch.ones(1, 3, 8), mask=torch.ones(2, 2).bool())
    assert state(model) == before
    assert model.training


def test_captures_nest():
    model = DecoderOnly(config()).eval()
    with capture(model) as outer:
        model(IDS)
        with capture(model, only="*.1.attention") as inner:
            model(IDS)
        model(IDS)
    assert {name: len(calls) for name, calls in outer.items()} == dict.fromkeys(outer.names, 3)
    assert {name: len(calls) for name, calls in inner.items()} == {"decoder.blocks.1.attention": 1}
    for calls in outer.values():
        assert torch.equal(calls[0], calls[1])
    with capture(model) as again:
        pass
    assert len(again) == 0
    assert list(again) == []


def test_another_model_is_not_recorded():
    one = DecoderOnly(config()).eval()
    two = copy.deepcopy(one)
    with capture(one) as record:
        two(IDS)
    assert not record


def test_a_copy_made_meanwhile_can_be_used():
    model = DecoderOnly(config()).eval()
    with capture(model):
        other = copy.deepcopy(model)
    assert torch.equal(other(IDS), model(IDS))


# --- options ---


def test_weights_can_be_differentiated_if_asked():
    module, x = MultiHeadAttention(8, 2).double(), torch.rand(1, 3, 8, requires_grad=True, dtype=torch.float64)

    def weights(x: Tensor) -> Tensor:
        with capture(module, detach=False) as record:
            module(x)
        return record["MultiHeadAttention"][0]

    assert torch.autograd.gradcheck(weights, x)


def test_where_weights_are_kept():
    module = MultiHeadAttention(8, 2)
    with capture(module, to="meta") as record:
        module(torch.rand(1, 3, 8))
    assert record["MultiHeadAttention"][0].device.type == "meta"


@pytest.mark.cuda
def test_weights_go_to_the_cpu(device: str):
    module = MultiHeadAttention(8, 2).to(device)
    with capture(module, to="cpu") as record:
        module(torch.rand(1, 3, 8, device=device))
    assert record["MultiHeadAttention"][0].device.type == "cpu"


def test_the_record():
    model = DecoderOnly(config()).eval()
    with capture(model) as record:
        assert repr(record) == "Captured(decoder.blocks.0.attention: 0, decoder.blocks.1.attention: 0)"
        with pytest.raises(ValueError, match="none yet"):
            record.last()
        model(IDS)
        model(IDS[:, :3])
    assert [w.shape[-1] for w in record.last()] == [3, 3]
    with pytest.raises(KeyError, match=r"called were decoder\.blocks\.0\.attention"):
        record["decoder"]
    assert "decoder" not in record
    record.clear()
    assert len(record) == 0


def test_the_record_feeds_rollout_and_head_scores():
    model = DecoderOnly(config(pad_id=None)).eval()
    with capture(model) as record:
        model(IDS)
    flow = interpret.rollout(record.last())
    torch.testing.assert_close(flow.sum(-1), torch.ones(2, 5))
    assert (flow.triu(1) == 0).all()
    assert interpret.head_scores(record.last(), "previous").shape == (2, 4)


@pytest.mark.slow
def test_a_compiled_model_is_refused_since_its_graph_passes_hooks_by():
    model = DecoderOnly(config())
    with pytest.raises(ValueError, match="model must not be compiled"):
        capture(torch.compile(model))
    model.compile()
    with pytest.raises(ValueError, match="model must not be compiled"):
        capture(model)


def test_the_reference_agrees():
    """Weights by the reference, from the module's own projections."""
    module, x = MultiHeadAttention(8, 2), torch.rand(1, 4, 8)
    query, key, value = (split_heads(p(x), 2) for p in (module.W_Q, module.W_K, module.W_V))
    want: AttentionOutput = scaled_dot_product_attention(query, key, value, causal())
    with capture(module) as record:
        module(x, causal=True)
    torch.testing.assert_close(record["MultiHeadAttention"][0], want.weights)
