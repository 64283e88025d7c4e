"""Hugging Face's models under the same glass: small ones, built here, of random weights."""

import inspect
import re
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from companion.capture import capture
from companion.convert import from_hf
from companion.interpret import ablate_heads, head_scores, rollout, token_attributions
from tests.companion.optional import need

need("transformers")

from transformers import (  # noqa: E402
    BartConfig,
    BartModel,
    BertConfig,
    BertForMaskedLM,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5Model,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402

pytestmark = pytest.mark.xdist_group("transformers")  # one worker imports it

V, L = 23, 7
SIZES = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
REAL = torch.tensor([[1] * L, [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])


def build(kind: Any, config: Any, attention: str) -> Any:
    made = kind._from_config(config, attn_implementation=attention)
    for name, parameter in made.named_parameters():
        scale = re.search(r"(ln_\w+|[Nn]orm|LayerNorm|layer_norm)\.weight", name)
        nn.init.normal_(parameter, mean=1.0 if scale else 0.0, std=0.3)
    return made.eval()


def gpt2(attention: str = "sdpa", **options: Any) -> Any:
    sizes = {"vocab_size": V, "n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 4}
    return build(GPT2LMHeadModel, GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, **options), attention)


def bert(attention: str = "sdpa", **options: Any) -> Any:
    return build(BertForMaskedLM, BertConfig(**SIZES, max_position_embeddings=12, **options), attention)


def llama(attention: str = "sdpa", **options: Any) -> Any:
    return build(LlamaForCausalLM, LlamaConfig(**SIZES, num_key_value_heads=2, **options), attention)


def bart(attention: str = "sdpa") -> Any:
    sizes = {"vocab_size": V, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "max_position_embeddings": 12}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    return build(BartModel, BartConfig(**sizes, **ids), attention)


def t5(attention: str = "sdpa") -> Any:
    sizes = {"vocab_size": V, "d_model": 16, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 4}
    return build(T5Model, T5Config(**sizes, pad_token_id=0, decoder_start_token_id=0), attention)


MODELS = {"gpt2": gpt2, "bert": bert, "llama": llama}
BOTH = {"bart": bart, "t5": t5}


def close(one: Tensor, two: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(one, two, rtol=0, atol=atol)


def same(record: Any, attentions: tuple[Tensor, ...], rows: Tensor) -> None:
    """On rows of real queries: what a query of padding does means nothing, and kernels differ on it."""
    assert len(record) == len(attentions)
    for (weights,), want in zip(record.values(), attentions, strict=True):
        assert weights.shape == want.shape
        close(weights.transpose(1, 2)[rows], want.transpose(1, 2)[rows])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("padded", [False, True])
def test_weights_are_what_output_attentions_says(device: str, name: str, attention: str, padded: bool):
    model = MODELS[name](attention).to(device)
    ids = torch.randint(V, (3, L), device=device)
    real = (REAL if padded else torch.ones_like(REAL)).to(device)
    with torch.no_grad():
        plain = model(ids, attention_mask=real).logits
        with capture(model) as record:
            watched = model(ids, attention_mask=real).logits
        assert torch.equal(watched, plain)  # bit for bit
        assert model.config._attn_implementation == attention
        model.set_attn_implementation("eager")
        want = model(ids, attention_mask=real, output_attentions=True).attentions
    same(record, want, real.bool())
    assert record.last()[0].shape == (3, 4, L, L)


def test_names_say_which_layer():
    ids = torch.randint(V, (1, 4))
    for model, want in (
        (gpt2(), ["transformer.h.0.attn", "transformer.h.1.attn"]),
        (bert(), ["bert.encoder.layer.0.attention.self", "bert.encoder.layer.1.attention.self"]),
        (llama(), ["model.layers.0.self_attn", "model.layers.1.self_attn"]),
    ):
        with capture(model) as record, torch.no_grad():
            model(ids)
        assert list(record) == want


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_an_encoder_decoder(name: str, attention: str):
    """T5 has a bias of its own on the scores, and no scale."""
    model = BOTH[name](attention)
    source, target = torch.randint(3, V, (3, L)), torch.randint(3, V, (3, 4))
    arguments = {"input_ids": source, "attention_mask": REAL, "decoder_input_ids": target}
    with torch.no_grad():
        plain = model(**arguments).last_hidden_state
        with capture(model) as record:
            assert torch.equal(model(**arguments).last_hidden_state, plain)
        model.set_attn_implementation("eager")
        want = model(**arguments, output_attentions=True)
    enc, own, cross = "*encoder*SelfAttention", "decoder*SelfAttention", "*EncDecAttention"
    if name == "bart":
        enc, own, cross = "encoder.*", "decoder*self_attn", "*encoder_attn"
    everywhere = torch.ones(3, 4, dtype=torch.bool)
    for pattern, attentions, rows in (
        (enc, want.encoder_attentions, REAL.bool()),
        (own, want.decoder_attentions, everywhere),
        (cross, want.cross_attentions, everywhere),
    ):
        found = record.last(pattern)
        assert len(found) == len(attentions)
        for weights, his in zip(found, attentions, strict=True):
            close(weights.transpose(1, 2)[rows], his.transpose(1, 2)[rows])


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_decoding_with_the_library_s_cache(name: str):
    model, ids = MODELS[name](), torch.randint(V, (2, L))
    with torch.no_grad():
        with capture(model) as whole:
            model(ids)
        with capture(model) as steps:
            given = inspect.signature(model.forward).parameters
            cache = {"cache" if "cache" in given else "past_key_values": DynamicCache()}  # by version
            for piece in ids.split([4, 1, 2], dim=1):
                model(piece, **cache, use_cache=True)
    for layer, (full,) in whole.items():
        rows = torch.cat([nn.functional.pad(w, (0, L - w.shape[-1])) for w in steps[layer]], dim=-2)
        close(rows, full, 1e-6)


def test_dropout_is_not_in_the_weights_and_draws_as_it_would():
    for attention in ("sdpa", "eager"):
        model = gpt2(attention, attn_pdrop=0.5).train()
        ids = torch.randint(V, (2, L))
        torch.manual_seed(5)
        want, after = model(ids).logits, torch.get_rng_state()
        torch.manual_seed(5)
        with capture(model) as record:
            assert torch.equal(model(ids).logits, want)
        assert torch.equal(torch.get_rng_state(), after)
        for (weights,) in record.values():
            close(weights.sum(-1), torch.ones(2, 4, L), 1e-6)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_library_is_left_as_it_was(attention: str):
    model, other, ids = llama(attention), llama(attention), torch.randint(V, (1, L))
    before, table = dict(model.state_dict()), dict(ALL_ATTENTION_FUNCTIONS)
    hooks = [len(m._forward_hooks) for m in model.modules()]
    with torch.no_grad():
        want = other(ids).logits
        with capture(model) as record:
            assert torch.equal(other(ids).logits, want)
            assert not record
        with pytest.raises(IndexError), capture(model):
            model(ids + V)
    assert dict(ALL_ATTENTION_FUNCTIONS) == table
    assert not ALL_ATTENTION_FUNCTIONS._local_mapping
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
    assert all(x is not None and torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_an_attention_that_somebody_has_put_in_the_table_comes_back():
    def mine(*arguments: Any, **options: Any) -> Any:
        return sdpa(*arguments, **options)

    model, ids = gpt2(), torch.randint(V, (1, L))
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]
    ALL_ATTENTION_FUNCTIONS["sdpa"] = mine
    try:
        with capture(model) as outer, capture(model, only="*.1.attn") as inner, torch.no_grad():
            model(ids)
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] is mine
        assert (len(outer), len(inner)) == (2, 1)
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is sdpa


def test_ours_and_theirs_record_the_same():
    theirs, ids = gpt2(), torch.randint(V, (2, L))
    ours = from_hf(theirs)
    with torch.no_grad(), capture(theirs) as one, capture(ours) as two:
        theirs(ids)
        ours(ids)
    for his, mine in zip(one.last(), two.last(), strict=True):
        close(his, mine)
    close(rollout(one.last()), rollout(two.last()))
    close(head_scores(one.last(), "first"), head_scores(two.last(), "first"))


def test_what_cannot_be_recorded_is_said():
    with pytest.raises(ValueError, match=r"transformer\.h\.0\.attn has reorder_and_upcast_attn=True"):
        capture(gpt2("eager", reorder_and_upcast_attn=True))
    with pytest.raises(ValueError, match=r"'flex_attention'; call model\.set_attn_implementation"):
        capture(llama("flex_attention"))
    assert capture(gpt2("sdpa", reorder_and_upcast_attn=True))


# --- heads taken out ---

OUTPUT = {"gpt2": "transformer.h.1.attn.c_proj", "bert": "bert.encoder.layer.1.attention.output.dense"}
OUTPUT |= {"llama": "model.layers.1.self_attn.o_proj"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_head_that_is_out_is_as_if_the_projection_did_not_listen(name: str, attention: str):
    model, ids, heads = MODELS[name](attention), torch.randint(V, (2, L)), [0, 3]
    with torch.no_grad():
        before = model(ids).logits
        weight = model.get_submodule(OUTPUT[name]).weight
        rows = weight if name == "gpt2" else weight.t()  # GPT-2 stores it (H·D, M)
        kept = rows.clone()
        for head in heads:
            rows[head * 4 : head * 4 + 4] = 0
        want = model(ids).logits
        rows.copy_(kept)
        with ablate_heads(model, {1: heads}):
            close(model(ids).logits, want)
        assert torch.equal(model(ids).logits, before)
        assert (want - before).abs().max() > 1e-3
        with ablate_heads(model, {1: [0, 1, 2, 3]}, by="mean") as same:
            assert same is model
            assert not torch.equal(model(ids).logits, before)


def test_the_mean_is_the_head_s_own():
    model, ids, seen = llama(), torch.randint(V, (2, L)), []
    model.model.layers[0].self_attn.o_proj.register_forward_pre_hook(lambda m, arguments: seen.append(arguments[0]))
    with torch.no_grad():
        for manager in (nullcontext(), ablate_heads(model, {0: [2]}, by="mean")):
            with manager:
                model(ids)
    close(seen[1][..., 8:12], seen[0][..., 8:12].mean((0, 1)).expand(2, L, 4), 1e-6)
    seen[1][..., 8:12] = seen[0][..., 8:12]
    assert torch.equal(*seen)


def test_heads_and_layers_that_are_not_there():
    with pytest.raises(ValueError, match="must be 0 to 3, got 4"):
        ablate_heads(llama(), {0: [4]})
    with pytest.raises(ValueError, match=r"number could mean several: encoder\.layers\.0\.self_attn"):
        ablate_heads(bart(), {0: [0]})
    with ablate_heads(bart(), {"encoder.layers.0.self_attn": [3]}):
        pass
    with pytest.raises(ValueError, match=r"heads of layer decoder\.layers\.0\.self_attn must be 0 to 1, got 3"):
        ablate_heads(bart(), {"decoder.layers.0.self_attn": [3]})


# --- integrated gradients ---


@pytest.mark.parametrize("name", MODELS)
def test_the_account_of_a_model_adds_up(name: str):
    model, ids = MODELS[name]().double(), torch.randint(1, V, (2, L))
    real = torch.ones_like(ids)
    real[1, 5:] = 0

    def score(ids: Tensor = ids) -> Tensor:
        return model(ids, attention_mask=real).logits[:, 3, 5]

    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    found = token_attributions(model, score, baseline=2, steps=100)
    with torch.no_grad():
        want = score() - score(torch.full_like(ids, 2))
    torch.testing.assert_close(found.difference, want, rtol=0, atol=1e-10)
    assert found.error.abs().max() < 1e-4 * want.abs().max()
    assert (found.tokens[1, 5:] == 0).all()
    assert (found.tokens[:, 4:] == 0).all() == (name != "bert")
    assert tied == (name != "llama")
    assert all(p.grad is None for p in model.parameters())
