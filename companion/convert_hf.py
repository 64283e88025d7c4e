"""Hugging Face's GPT-2, BERT and Llama as our models, with their weights.

Each kind of model is a table of names, ours beside theirs, and a reading of its config. Every parameter must be used
and every option that changes what a model computes must be known; otherwise the model is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from companion.config import TransformerConfig
from companion.models import DecoderOnly, EncoderOnly
from companion.parameters import Parameters

__all__ = ["from_hf"]

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh"}
ACTIVATIONS |= {"gelu_pytorch_tanh": "gelu_tanh", "gelu_python_tanh": "gelu_tanh"}

# Ours, and theirs; {i} is the layer.
BERT = {
    "embedding.tokens": "embeddings.word_embeddings",
    "embedding.positions.table": "embeddings.position_embeddings",
    "embedding.types": "embeddings.token_type_embeddings",
    "embedding.norm": "embeddings.LayerNorm",
}
BERT_BLOCK = {
    "attention.W_Q": "attention.self.query",
    "attention.W_K": "attention.self.key",
    "attention.W_V": "attention.self.value",
    "attention.W_O": "attention.output.dense",
    "norm_attention": "attention.output.LayerNorm",
    "feed_forward.W_1": "intermediate.dense",
    "feed_forward.W_2": "output.dense",
    "norm_feed_forward": "output.LayerNorm",
}
BERT_HEAD = {"head.dense": "cls.predictions.transform.dense", "head.norm": "cls.predictions.transform.LayerNorm"}
GPT2 = {"embedding.tokens": "wte", "embedding.positions.table": "wpe", "decoder.norm": "ln_f"}
GPT2_BLOCK = {
    "norm_attention": "ln_1",
    "attention.W_O": "attn.c_proj",
    "norm_feed_forward": "ln_2",
    "feed_forward.W_1": "mlp.c_fc",
    "feed_forward.W_2": "mlp.c_proj",
}
LLAMA = {"embedding.tokens": "embed_tokens", "decoder.norm": "norm"}
LLAMA_BLOCK = {
    "norm_attention": "input_layernorm",
    "attention.W_Q": "self_attn.q_proj",
    "attention.W_K": "self_attn.k_proj",
    "attention.W_V": "self_attn.v_proj",
    "attention.W_O": "self_attn.o_proj",
    "norm_feed_forward": "post_attention_layernorm",
    "feed_forward.W_1": "mlp.gate_proj",
    "feed_forward.W_3": "mlp.up_proj",
    "feed_forward.W_2": "mlp.down_proj",
}


def from_hf(model: Any) -> DecoderOnly | EncoderOnly:
    """Make our model from one of ``transformers``, with its weights.

    ============================================  ==================================================================
    ``GPT2LMHeadModel``, ``GPT2Model``            ``DecoderOnly``; a bare ``GPT2Model`` gets the output projection
                                                  that GPT-2 ties to its embedding
    ``LlamaForCausalLM``                          ``DecoderOnly``
    ``BertModel``                                 ``EncoderOnly``; the pooler, a layer over the first token, is left out
    ``BertForMaskedLM``                           ``EncoderOnly`` with its head
    ============================================  ==================================================================

    Ours masks no token unasked, as the library's does not: pass ``real``, the library's ``attention_mask.bool()``. It
    counts positions from the first real token; to have the same of the library where text is padded on the left, pass
    it ``position_ids``. It returns no attentions by itself: ask its ``MultiHeadAttention`` modules.

    Args:
        model: the model; no subclass, which may compute something else.

    Returns:
        Our model: a copy, in the same dtype, on the same device, in the same mode, with the same dropout rates in the
        same places.

    Raises:
        TypeError: another kind of model.
        ValueError: an option that ours has not (an activation, scaled rotary positions, cross-attention, …), or
            parameters that such a model does not have.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> theirs = GPT2LMHeadModel(GPT2Config(vocab_size=10, n_positions=8, n_embd=4, n_layer=1, n_head=2)).eval()
        >>> ids = torch.tensor([[1, 2, 3]])
        >>> bool((from_hf(theirs)(ids) - theirs(ids).logits).abs().max() < 1e-5)
        True

    Source: Radford et al., 2019 (GPT-2); Devlin et al., 2018 (arXiv:1810.04805); Touvron et al., 2023
    (arXiv:2302.13971).
    """
    # By name, so that a model of another kind does not import transformers.
    name = f"{type(model).__module__}.{type(model).__qualname__}"
    if name not in READERS:
        known = ", ".join(reader.rpartition(".")[2] for reader in READERS)
        raise TypeError(f"model must be one of transformers' {known} itself, got {name}")
    read, prefix = READERS[name]
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    tied = model.config.tie_word_embeddings if output is None else output.weight is embedding.weight
    theirs = Parameters({key.removeprefix(prefix): value for key, value in model.state_dict().items()})
    return read(model.config, theirs, tied).train(model.training)


def bert(config: Any, theirs: Parameters, tied: bool = True) -> EncoderOnly:
    """BERT, from a config's attributes and its parameters."""
    _refuse(config, is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    masked_lm = "cls.predictions.decoder.weight" in theirs
    made = TransformerConfig(
        vocab_size=config.vocab_size,
        d_model=config.hidden_size,
        num_heads=config.num_attention_heads,
        num_layers=config.num_hidden_layers,
        d_ff=config.intermediate_size,
        max_length=config.max_position_embeddings,
        positions="learned",
        activation=_activation(config, "hidden_act", ACTIVATIONS),
        norm_first=False,
        eps=config.layer_norm_eps,
        dropout=config.hidden_dropout_prob,
        embedding_norm=True,
        num_token_types=config.type_vocab_size,
        tie_embeddings=tied,
    )
    theirs.carry(BERT)
    for i in range(made.num_layers):
        theirs.carry(BERT_BLOCK, f"encoder.blocks.{i}.", f"encoder.layer.{i}.")
    theirs.drop("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids", "cls.predictions.bias")
    if masked_lm:  # the bias stands there under two names; the decoder's is the one in use
        theirs.carry(BERT_HEAD)
        theirs.ours["head.bias"] = theirs.take("cls.predictions.decoder.bias")
        _carry_head(theirs, "head.output.weight", "cls.predictions.decoder.weight", tied)
    with torch.random.fork_rng(devices=[]):  # initial weights are thrown away: spend no random numbers on them
        model = theirs.fill(EncoderOnly(made, masked_lm=masked_lm))
    rate = config.hidden_dropout_prob
    _set_dropout(model, model.encoder.blocks, rate, config.attention_probs_dropout_prob, rate)
    return model


def _gpt2(config: Any, theirs: Parameters, tied: bool) -> DecoderOnly:
    _refuse(config, is_causal=True, add_cross_attention=False)
    _refuse(config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    headless = "lm_head.weight" not in theirs
    if headless and not tied:
        raise ValueError("model has tie_word_embeddings=False and no head: give the GPT2LMHeadModel around it")
    made = TransformerConfig(
        vocab_size=config.vocab_size,
        d_model=config.n_embd,
        num_heads=config.n_head,
        num_layers=config.n_layer,
        d_ff=config.n_inner,
        max_length=config.n_positions,
        positions="learned",
        activation=_activation(config, "activation_function", ACTIVATIONS),
        eps=config.layer_norm_epsilon,
        dropout=config.resid_pdrop,
        tie_embeddings=tied,
    )
    theirs.carry(GPT2)
    for i in range(made.num_layers):
        ours = f"decoder.blocks.{i}."
        # Theirs are (in, out), and query, key and value are one.
        weights = theirs.take(f"h.{i}.attn.c_attn.weight").chunk(3, dim=1)
        biases = theirs.take(f"h.{i}.attn.c_attn.bias").chunk(3)
        for name, weight, bias in zip("QKV", weights, biases, strict=True):
            theirs.ours[f"{ours}attention.W_{name}.weight"] = weight.T
            theirs.ours[f"{ours}attention.W_{name}.bias"] = bias
        theirs.carry(GPT2_BLOCK, ours, f"h.{i}.")
        for name in ("attention.W_O", "feed_forward.W_1", "feed_forward.W_2"):
            theirs.ours[f"{ours}{name}.weight"] = theirs.ours[f"{ours}{name}.weight"].T
    if not headless:
        _carry_head(theirs, "head.weight", "lm_head.weight", tied)
    with torch.random.fork_rng(devices=[]):
        model = theirs.fill(DecoderOnly(made))
    _set_dropout(model, model.decoder.blocks, config.embd_pdrop, config.attn_pdrop, config.resid_pdrop)
    return model


def _llama(config: Any, theirs: Parameters, tied: bool) -> DecoderOnly:
    _refuse(config, is_causal=True)
    if config.attention_bias != config.mlp_bias:
        raise ValueError(
            f"model has attention_bias={config.attention_bias} and mlp_bias={config.mlp_bias}; ours has one for both"
        )
    made = TransformerConfig(
        vocab_size=config.vocab_size,
        d_model=config.hidden_size,
        num_heads=config.num_attention_heads,
        num_layers=config.num_hidden_layers,
        d_ff=config.intermediate_size,
        num_kv_heads=config.num_key_value_heads,
        d_head=config.head_dim,
        max_length=config.max_position_embeddings,
        positions="rotary",
        rotary_base=_rotary_base(config),
        activation=_activation(config, "hidden_act", {"silu": "swiglu", "swish": "swiglu"}),
        norm="rms",
        eps=config.rms_norm_eps,
        bias=config.attention_bias,
        tie_embeddings=tied,
    )
    theirs.carry(LLAMA)
    for i in range(made.num_layers):
        theirs.carry(LLAMA_BLOCK, f"decoder.blocks.{i}.", f"layers.{i}.")
    _carry_head(theirs, "head.weight", "lm_head.weight", tied)
    with torch.random.fork_rng(devices=[]):
        model = theirs.fill(DecoderOnly(made))
    _set_dropout(model, model.decoder.blocks, 0.0, config.attention_dropout or 0.0, 0.0)
    return model


READERS: dict[str, tuple[Callable[[Any, Parameters, bool], DecoderOnly | EncoderOnly], str]] = {
    "transformers.models.gpt2.modeling_gpt2.GPT2LMHeadModel": (_gpt2, "transformer."),
    "transformers.models.gpt2.modeling_gpt2.GPT2Model": (_gpt2, ""),
    "transformers.models.bert.modeling_bert.BertModel": (bert, ""),
    "transformers.models.bert.modeling_bert.BertForMaskedLM": (bert, "bert."),
    "transformers.models.llama.modeling_llama.LlamaForCausalLM": (_llama, "model."),
}


def _rotary_base(config: Any) -> float:
    """Of plain rotary positions; transformers 5 has one table for them, 4 has two fields."""
    options = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = options.get("rope_type", options.get("type", "default"))
    if kind != "default":
        raise ValueError(f"model has rotary positions scaled by rope_type={kind!r}; ours turn by 'default' ones")
    if options.get("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError("model has a partial_rotary_factor; ours turn all features of a head")
    return float(options.get("rope_theta", getattr(config, "rope_theta", 10_000.0)))


def _activation(config: Any, field: str, names: Mapping[str, str]) -> str:
    found = getattr(config, field)
    if found not in names:
        raise ValueError(f"model has {field}={found!r}; ours serves {', '.join(names)}")
    return names[found]


def _refuse(config: Any, **wanted: Any) -> None:
    """Refuse options that ours has not. A version of the library without the option has its default."""
    for name, value in wanted.items():
        found = getattr(config, name, value)
        if found != value:
            raise ValueError(f"model has {name}={found!r}; ours serves {name}={value!r} only")
    if getattr(config, "pruned_heads", None):
        raise ValueError(f"model has pruned_heads={config.pruned_heads}; our layers have all their heads")


def _carry_head(theirs: Parameters, ours: str, name: str, tied: bool) -> None:
    if tied:
        theirs.drop(name)
    else:
        theirs.ours[ours] = theirs.take(name)


def _set_dropout(model: Any, blocks: Any, embedding: float, attention: float, residual: float) -> None:
    """The library's rates, where it has them; between the feed-forward projections it has none."""
    model.embedding.dropout.p = float(embedding)
    for block in blocks:
        block.attention.dropout = float(attention)
        block.dropout.p = float(residual)
        block.feed_forward.dropout.p = 0.0
