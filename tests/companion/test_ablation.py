"""A head that is out is out, the others and the model itself are what they were."""

import copy

import pytest
import torch
from torch import Tensor, nn

from companion.capture import capture
from companion.generate import greedy
from companion.interpret import ablate_heads
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.multihead import MultiHeadAttention

IDS = torch.tensor([[0, 1, 2, 3, 4], [5, 6, 7, 1, 2]])


def config(**options) -> TransformerConfig:
    return TransformerConfig(**{"vocab_size": 9, "d_model": 8, "num_heads": 4, "num_layers": 2, "pad_id": 0} | options)


def without_columns(model: nn.Module, name: str, heads: list[int]) -> nn.Module:
    """A copy, in which ``W_O`` does not listen to some heads: the same function, by other means."""
    other = copy.deepcopy(model)
    module = other.get_submodule(name)
    with torch.no_grad():
        for head in heads:
            module.W_O.weight[:, head * module.d_head : (head + 1) * module.d_head] = 0
    return other


@pytest.mark.parametrize("kind", [DecoderOnly, EncoderOnly])
@pytest.mark.parametrize("heads", [[0], [3, 1], [0, 1, 2, 3], []])
def test_zero_is_what_zero_columns_of_the_projection_give(device: str, kind: type, heads: list[int]):
    model = kind(config(num_kv_heads=2)).to(device).double().eval()
    ids = IDS.to(device)
    before = model(ids)
    part = "decoder" if kind is DecoderOnly else "encoder"
    want = without_columns(model, f"{part}.blocks.1.attention", heads)(ids)
    for layer in (1, f"{part}.blocks.1.attention"):
        with ablate_heads(model, {layer: heads}) as given:
            assert given is model
            torch.testing.assert_close(model(ids), want, rtol=0, atol=1e-12)
    assert torch.equal(model(ids), before)
    assert (want - before).abs().max() > 1e-4 or not heads


def test_several_layers_and_a_cross_attention():
    model = Seq2SeqTransformer(config()).double().eval()
    chosen = {"encoder.blocks.0.attention": [1], "decoder.blocks.1.cross_attention": [0, 2]}
    other = model
    for name, heads in chosen.items():
        other = without_columns(other, name, heads)
    with ablate_heads(model, chosen):
        torch.testing.assert_close(model(IDS, IDS[:, 1:]), other(IDS, IDS[:, 1:]), rtol=0, atol=1e-12)


def test_the_mean_is_the_head_s_own():
    """By the captured input of W_O: a head's part of it is everywhere its mean, the others are what they were."""
    module, x, seen = MultiHeadAttention(8, 2).double(), torch.rand(2, 3, 8).double(), []
    module.W_O.register_forward_pre_hook(lambda m, arguments: seen.append(arguments[0]))
    module(x)
    with ablate_heads(module, {0: [1]}, by="mean"):
        module.W_O.register_forward_pre_hook(lambda m, arguments: seen.append(arguments[0]))
        module(x)
    assert torch.equal(seen[2][..., :4], seen[0][..., :4])
    torch.testing.assert_close(seen[2][..., 4:], seen[0][..., 4:].mean((0, 1)).expand(2, 3, 4), rtol=0, atol=1e-15)


def test_the_mean_of_a_head_that_says_one_thing_changes_nothing():
    """All queries alike, all keys alike: each head's output is the same everywhere, and so is its mean."""
    module, x = MultiHeadAttention(8, 2), torch.ones(2, 3, 8)
    with torch.no_grad():
        want = module(x)
        with ablate_heads(module, {0: [0, 1]}, by="mean"):
            torch.testing.assert_close(module(x), want)
        with ablate_heads(module, {0: [0, 1]}):
            torch.testing.assert_close(module(x), module.W_O.bias.expand(2, 3, 8))


def test_a_head_full_of_nan_is_taken_out_too():
    """A product with zero would leave NaN."""
    module = MultiHeadAttention(8, 2)
    with torch.no_grad():
        module.W_V.weight[4:] = torch.nan
    with ablate_heads(module, {0: [1]}):
        assert module(torch.rand(1, 3, 8)).isfinite().all()


def test_restored_after_an_error_and_nested():
    model = DecoderOnly(config()).double().eval()
    before = model(IDS)
    with pytest.raises(RuntimeError, match="stop"), ablate_heads(model, {0: [0]}):
        raise RuntimeError("stop")
    assert torch.equal(model(IDS), before)
    assert not any(module._forward_pre_hooks for module in model.modules())
    with ablate_heads(model, {0: [0]}):
        one = model(IDS)
        with ablate_heads(model, {0: [1], 1: [2]}):
            three = model(IDS)
        assert torch.equal(model(IDS), one)
    with ablate_heads(model, {0: [0, 1], 1: [2]}):
        assert torch.equal(model(IDS), three)
    assert torch.equal(model(IDS), before)


def test_weights_modes_and_the_random_generator_are_untouched():
    model = DecoderOnly(config(dropout=0.3)).train()
    kept, start = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    with ablate_heads(model, {0: [0]}, by="mean"):
        pass
    assert torch.equal(torch.get_rng_state(), start)
    assert model.training
    for name, x in model.state_dict().items():
        assert torch.equal(x, kept[name])


def test_gradients_pass_by_the_head_that_is_out():
    module = MultiHeadAttention(8, 2)
    with ablate_heads(module, {0: [1]}):
        module(torch.rand(1, 3, 8)).sum().backward()
    assert (module.W_V.weight.grad[4:] == 0).all()
    assert module.W_V.weight.grad[:4].abs().max() > 0


def test_capture_sees_the_first_layer_as_it_was_and_the_second_changed():
    model = DecoderOnly(config()).eval()
    with capture(model) as whole:
        model(IDS)
    for order in (0, 1):
        managers = [lambda: ablate_heads(model, {0: [0, 1, 2, 3]}), lambda: capture(model)]
        if order:
            managers.reverse()
        with managers[0]() as first, managers[1]() as second:
            model(IDS)
        record = first if order else second
        assert torch.equal(record.last()[0], whole.last()[0])
        assert not torch.equal(record.last()[1], whole.last()[1])


def test_decoding_with_a_cache_goes_without_the_head_as_well():
    model = DecoderOnly(config(pad_id=None)).double().eval()
    with ablate_heads(model, {0: [0], 1: [1, 2]}):
        assert torch.equal(greedy(model, IDS, 4), greedy(model, IDS, 4, use_cache=False))


def test_unbatched():
    module, x = MultiHeadAttention(8, 2, d_head=3), torch.rand(3, 8)
    gone: list[Tensor] = []
    with ablate_heads(module, {"MultiHeadAttention": range(1)}):
        module.W_O.register_forward_pre_hook(lambda m, arguments: gone.append(arguments[0]))
        module(x)
    assert (gone[0][:, :3] == 0).all()
    assert (gone[0][:, 3:] != 0).all()
