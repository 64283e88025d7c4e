"""Hugging Face's models and ours compute the same with the same weights: small ones, built here, of random weights."""

import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from companion import MultiHeadAttention
from companion.convert import from_hf
from companion.convert_hf import _rotary_base
from companion.models import DecoderOnly, EncoderOnly
from companion.rotary import Rotary, interleaved
from tests.companion.optional import need

need("transformers")

import transformers  # noqa: E402
from transformers import (  # noqa: E402
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
)

pytestmark = pytest.mark.xdist_group("transformers")  # one worker imports it

V, L = 23, 7
PADDINGS = {"none": [[1] * L] * 3, "right": [[1] * L, [1] * 4 + [0] * 3, [1] + [0] * 6]}
PADDINGS["left"] = [row[::-1] for row in PADDINGS["right"]]

GPT2 = {"vocab_size": V, "n_positions": 12, "n_embd": 16, "n_layer": 3, "n_head": 4}
BERT = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
BERT |= {"max_position_embeddings": 12}
LLAMA = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}


def build(model: Any, config: Any, dtype: torch.dtype = torch.float32) -> Any:
    """No zero biases, no norms of one: whatever is exchanged or forgotten shows."""
    made = model._from_config(config, attn_implementation="eager")
    for name, parameter in made.named_parameters():
        scale = re.search(r"(ln_\w+|norm|LayerNorm)\.weight", name)
        nn.init.normal_(parameter, mean=1.0 if scale else 0.0, std=0.3)
    return made.to(dtype).eval()


def gpt2(model: Any = GPT2LMHeadModel, **options: Any) -> Any:
    return build(model, GPT2Config(**(GPT2 | options), bos_token_id=0, eos_token_id=0))


def bert(model: Any = BertModel, **options: Any) -> Any:
    return build(model, BertConfig(**(BERT | options)))


def llama(**options: Any) -> Any:
    return build(LlamaForCausalLM, LlamaConfig(**(LLAMA | options)))


MODELS = {
    "gpt2": lambda: gpt2(),
    "gpt2, other options": lambda: gpt2(
        n_inner=20, activation_function="relu", layer_norm_epsilon=1e-2, reorder_and_upcast_attn=True
    ),
    "gpt2, exact gelu, own head": lambda: gpt2(activation_function="gelu", tie_word_embeddings=False),
    "gpt2 without head": lambda: gpt2(GPT2Model, activation_function="gelu_pytorch_tanh"),
    "bert": lambda: bert(),
    "bert without pooler": lambda: build(BertForMaskedLM, BertConfig(**BERT)).bert,
    "bert, other options": lambda: bert(hidden_act="relu", layer_norm_eps=1e-2, type_vocab_size=3),
    "bert, masked lm": lambda: bert(BertForMaskedLM),
    "bert, masked lm, relu, own head": lambda: bert(BertForMaskedLM, hidden_act="relu", tie_word_embeddings=False),
    "llama": lambda: llama(),
    "llama, grouped": lambda: llama(num_key_value_heads=2, rms_norm_eps=1e-2),
    "llama, one kv head, wide heads": lambda: llama(num_key_value_heads=1, head_dim=6, tie_word_embeddings=True),
    "llama, biases, other base": lambda: llama(
        attention_bias=True,
        mlp_bias=True,
        hidden_act="swish",
        rope_parameters={"rope_type": "default", "rope_theta": 50.0},
    ),
}


class Answer(NamedTuple):
    output: Tensor
    attentions: tuple[Tensor, ...]


def theirs_say(model: Any, ids: Tensor, real: Tensor, **options: Any) -> Answer:
    positions = (real.long().cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        out = model(ids, attention_mask=real.long(), position_ids=positions, output_attentions=True, **options)
    if isinstance(model, GPT2Model):  # stops before the scores, which GPT-2 takes by its tied embedding
        return Answer(out.last_hidden_state @ model.wte.weight.T, out.attentions)
    return Answer(out.logits if "logits" in out else out.last_hidden_state, out.attentions)


def ours_say(model: Any, ids: Tensor, real: Tensor, **options: Any) -> Answer:
    """What our model answers, and the weights of each of its layers, which are asked once more by the way."""
    found = []

    def ask(module: MultiHeadAttention, arguments: Any, options: Any, output: Tensor) -> None:
        again, weights = module.forward(*arguments, **options | {"need_weights": True})
        torch.testing.assert_close(again, output, rtol=0, atol=1e-5)
        found.append(weights)

    modules = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    hooks = [module.register_forward_hook(ask, with_kwargs=True) for module in modules]
    with torch.no_grad():
        out = model(ids, real=real, **options)
        if isinstance(model, EncoderOnly) and model.head is not None:
            out = model.logits(out)
    for hook in hooks:
        hook.remove()
    return Answer(out, tuple(found))


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def same(ours: Answer, theirs: Answer, real: Tensor) -> None:
    """On rows of real tokens: what padding makes of itself means nothing."""
    close(ours.output[real], theirs.output[real])
    assert len(ours.attentions) == len(theirs.attentions) == 3
    for mine, his in zip(ours.attentions, theirs.attentions, strict=True):
        assert mine.shape == his.shape == (3, 4, L, L)
        close(mine.transpose(1, 2)[real], his.transpose(1, 2)[real])


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_attentions(device: str, name: str):
    model = MODELS[name]().to(device)
    ours = from_hf(model)
    assert isinstance(ours, EncoderOnly if "bert" in name else DecoderOnly)
    assert not ours.training
    ids = torch.randint(V, (3, L), device=device)
    for rows in PADDINGS.values():
        real = torch.tensor(rows, device=device).bool()
        same(ours_say(ours, ids, real), theirs_say(model, ids, real), real)


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_no_token_is_masked_unasked(family: str):
    """Not even one that the library's config calls padding: text may hold it, as GPT-2's text holds its end token."""
    model = {"gpt2": gpt2, "bert": bert, "llama": llama}[family](pad_token_id=3)
    ids = torch.randint(V, (3, L))
    ids[:, 2] = 3
    with torch.no_grad():
        close(from_hf(model)(ids), model(ids, attention_mask=torch.ones_like(ids))[0])


def test_token_types():
    model = bert(type_vocab_size=3)
    ids, types = torch.randint(V, (3, L)), torch.randint(3, (3, L))
    real = torch.tensor(PADDINGS["right"]).bool()
    same(
        ours_say(from_hf(model), ids, real, token_types=types), theirs_say(model, ids, real, token_type_ids=types), real
    )


def test_a_cache_goes_on_with_the_library_s_numbers():
    for model in (gpt2(), llama(num_key_value_heads=2)):
        ours = from_hf(model)
        ids, real = torch.randint(V, (3, L)), torch.tensor(PADDINGS["left"]).bool()
        expected = theirs_say(model, ids, real).output
        cache = ours.new_cache(L)
        with torch.no_grad():
            parts = [ours(ids[:, a:b], real=real[:, :b], cache=cache) for a, b in ((0, 4), (4, 5), (5, L))]
        close(torch.cat(parts, dim=1)[real], expected[real])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_copy_in_the_same_dtype_and_mode(dtype: torch.dtype):
    model = gpt2().to(dtype).train()
    before = torch.get_rng_state()
    ours = from_hf(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert ours.training
    assert {parameter.dtype for parameter in ours.parameters()} == {dtype}
    if dtype is torch.float64:
        ids, real = torch.randint(V, (3, L)), torch.ones(3, L, dtype=torch.bool)
        difference = ours_say(ours.eval(), ids, real).output - theirs_say(model.eval(), ids, real).output
        assert difference.abs().max() < 1e-12
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert all((parameter != 0).any() for parameter in model.parameters())


PLACES = [
    (gpt2, "embd_pdrop", {"attn_pdrop", "resid_pdrop"}),
    (gpt2, "attn_pdrop", {"embd_pdrop", "resid_pdrop"}),
    (gpt2, "resid_pdrop", {"embd_pdrop", "attn_pdrop"}),
    (bert, "hidden_dropout_prob", {"attention_probs_dropout_prob"}),
    (bert, "attention_probs_dropout_prob", {"hidden_dropout_prob"}),
    (llama, "attention_dropout", set()),
]


@pytest.mark.parametrize(("family", "place", "others"), PLACES, ids=lambda part: part if isinstance(part, str) else "")
def test_every_dropout_falls_in_the_same_place(family: Any, place: str, others: set[str]):
    """Where everything is dropped, nothing is left to chance."""
    model = family(**{place: 1.0}, **dict.fromkeys(others, 0.0)).train()
    ids, real = torch.randint(V, (3, L)), torch.ones(3, L, dtype=torch.bool)
    ours = from_hf(model)
    blocks = ours.encoder.blocks if family is bert else ours.decoder.blocks
    assert all(block.feed_forward.dropout.p == 0 for block in blocks)  # the library has none between the projections
    expected = theirs_say(model, ids, real).output
    with torch.no_grad():
        close(ours(ids), expected)
    assert (theirs_say(model.eval(), ids, real).output - expected).abs().max() > 0.1


@pytest.mark.parametrize(("tie", "heads"), [(True, 0), (False, 1)])
def test_a_tied_head_stays_tied(tie: bool, heads: int):
    for model in (gpt2(tie_word_embeddings=tie), llama(tie_word_embeddings=tie)):
        ours = from_hf(model)
        assert ours.config.tie_embeddings is tie
        assert sum(name.startswith("head") for name, _ in ours.named_parameters()) == heads
        assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in model.parameters())


def test_bug_16_half_split_against_interleaved():
    """Llama's weights turn features c and c + D/2 together; reordered, they give the same to 2c and 2c + 1."""
    model = llama(num_key_value_heads=2, head_dim=8)
    ours = from_hf(model)
    ids, real = torch.randint(V, (3, L)), torch.tensor(PADDINGS["left"]).bool()
    expected = theirs_say(model, ids, real)
    for block in ours.decoder.blocks:
        assert block.attention.rotary.interleaved is False
        block.attention.rotary = Rotary(8, interleaved=True)
    wrong = ours_say(ours, ids, real)
    assert (wrong.output - expected.output)[real].abs().max() > 0.1
    with torch.no_grad():
        for block in ours.decoder.blocks:
            for projection in (block.attention.W_Q, block.attention.W_K):
                heads = projection.weight.view(-1, 8, 16)
                projection.weight.copy_(interleaved(heads, dim=1).view_as(projection.weight))
    same(ours_say(ours, ids, real), expected, real)


def scaled(kind: str, **options: Any) -> Any:
    return llama(rope_parameters={"rope_type": kind, "rope_theta": 10_000.0, "factor": 2.0, **options})


def changed(model: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(model.config, name, value)
    return model


def with_an_adapter() -> Any:
    model = llama()
    model.model.layers[1].self_attn.q_proj.lora_A = nn.Linear(16, 2, bias=False)
    return model


def pruned() -> Any:
    model = bert()
    attention = model.encoder.layer[0].attention
    attention.self.query = nn.Linear(16, 12)
    return model


class Mine(LlamaForCausalLM):
    """May compute anything."""


REFUSED = {
    "activation_function='silu'": lambda: gpt2(activation_function="silu"),
    "activation_function='quick_gelu'": lambda: gpt2(activation_function="quick_gelu"),
    "hidden_act='gelu_new'; ours serves silu, swish": lambda: llama(hidden_act="gelu_new"),
    "hidden_act='tanh'": lambda: bert(hidden_act="tanh"),
    "add_cross_attention=True": lambda: gpt2(add_cross_attention=True),
    "scale_attn_weights=False": lambda: gpt2(scale_attn_weights=False),
    "scale_attn_by_inverse_layer_idx=True": lambda: gpt2(scale_attn_by_inverse_layer_idx=True),
    "tie_word_embeddings=False and no head": lambda: gpt2(GPT2Model, tie_word_embeddings=False),
    "is_decoder=True": lambda: bert(is_decoder=True),
    "position_embedding_type='relative_key'": lambda: bert(position_embedding_type="relative_key"),
    "pruned_heads={0: [1]}": lambda: changed(bert(), pruned_heads={0: [1]}),
    "do not fit its config": pruned,
    "is_causal=False": lambda: changed(llama(), is_causal=False),
    "attention_bias=True and mlp_bias=False": lambda: llama(attention_bias=True),
    "rope_type='linear'": lambda: scaled("linear"),
    "rope_type='dynamic'": lambda: scaled("dynamic"),
    "rope_type='llama3'": lambda: scaled(
        "llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
    ),
    "partial_rotary_factor": lambda: scaled("default", partial_rotary_factor=0.5),
    "layers.1.self_attn.q_proj.lora_A.weight": with_an_adapter,
    "one floating-point dtype, got torch.bfloat16, torch.float32": lambda: half_of(llama()),
    "no parameter h.2.attn.c_attn.weight": lambda: changed(gpt2(n_layer=2), n_layer=3),
    "has not: layers.2": lambda: changed(llama(), num_hidden_layers=2),
}


def half_of(model: Any) -> Any:
    model.lm_head.to(torch.bfloat16)
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", REFUSED)
def test_what_ours_has_not_is_refused_by_name(words: str):
    model = REFUSED[words]()
    with pytest.raises(ValueError, match=r"^model (has|must have)") as caught:
        from_hf(model)
    assert words in str(caught.value)


def test_rotary_options_as_transformers_4_has_them():
    plain = SimpleNamespace(rope_theta=500.0, rope_scaling=None)
    assert _rotary_base(plain) == 500
    for scaling in ({"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0}):
        with pytest.raises(ValueError, match="model has rotary positions scaled by rope_type='linear'"):
            _rotary_base(SimpleNamespace(rope_theta=500.0, rope_scaling=scaling))


def test_another_model_is_refused():
    others = {
        "MissingHead": nn.Linear(2, 2),
        "modeling_bert.BertForSequenceClassification": transformers.BertForSequenceClassification(BertConfig(**BERT)),
        "modeling_llama.LlamaModel": llama().model,
        "Mine": build(Mine, LlamaConfig(**LLAMA)),
    }
    for name, model in others.items():
        with pytest.raises(TypeError, match="model must be one of transformers' GPT2LMHeadModel, GPT2Model") as caught:
            from_hf(model)
        assert name in str(caught.value) or name == "MissingHead"
