"""What capture, rollout, head scores, ablation and integrated gradients cannot take: see ``test_bad_input.py``."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from companion import ablation, capture, head_scores, integrated_gradients, models, multihead, rollout
from companion.config import TransformerConfig
from tests.companion.bad_input import (
    Row,
    flag_rows,
    float_rows,
    integer_rows,
    wrong_kind,
    wrong_value,
)

MODULES = (capture, rollout, head_scores, ablation, integrated_gradients)
CONFIG = TransformerConfig(vocab_size=7, d_model=8, num_heads=2, num_layers=2)
W = torch.full((2, 2, 3, 3), 1 / 3)
IDS = torch.tensor([[1, 2, 1], [3, 3, 4]])
REAL = torch.ones(2, 3, dtype=torch.bool)


def name_rows(function: Callable[..., Any], name: str, *known: str) -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (3, "int"), ([known[0]], "list")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a str", kind))
    for bad in ("", known[0].upper()):
        yield wrong_value(function, **{name: bad}, says=(f"{name} must be one of {', '.join(known)}", repr(bad)))


def model_rows(function: Callable[..., Any]) -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), ("gpt2", "str"), (torch.relu, "builtin_function")):
        yield wrong_kind(function, model=bad, says=("model must be a torch.nn.Module", kind))
    for bad, kind in ((nn.Linear(2, 2), "Linear"), (nn.MultiheadAttention(4, 2), "MultiheadAttention")):
        yield wrong_value(function, model=bad, says=("model must have MultiHeadAttention modules", kind, "from_torch"))


def from_capture() -> Iterator[Row]:
    gpt = models.DecoderOnly(CONFIG)
    yield from model_rows(capture.capture)
    call = partial(capture.capture, gpt)
    for bad, kind in ((None, "NoneType"), (0, "int"), (["*"], "list"), (re.compile("."), "Pattern")):
        yield wrong_kind(call, only=bad, says=("only must be a str", kind))
    for bad in ("", "encoder.*", "decoder"):
        yield wrong_value(call, only=bad, says=("only must fit", "decoder.blocks.0.attention", repr(bad)))
    yield wrong_value(call, to="gpu", says=("to must name a device", "'gpu'"))
    yield wrong_kind(call, to=3.5, says=("to must be a torch.device or a str", "float"))
    yield from flag_rows(call, "detach")
    record = capture.Captured(["a"])
    yield wrong_value(record.last, "a", says=("pattern must fit a layer that was called", "none yet", "'a'"))
    for bad, kind in ((None, "NoneType"), (0, "int")):
        yield wrong_kind(record.last, bad, says=("pattern must be a str", kind))


def layer_rows(function: Callable[..., Any], name: str) -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (3, "int"), ("mean", "str"), ({0: W}, "dict"), (iter([W]), "list_iterator")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a sequence of tensors", kind))
    yield wrong_value(function, **{name: []}, says=(f"{name} must hold at least one layer",))
    for bad, kind in ((None, "NoneType"), ([[1.0]], "list")):
        yield wrong_kind(function, **{name: [W, bad]}, says=(f"{name}[1] must be a torch.Tensor", kind))
    yield wrong_kind(function, **{name: [W.long()]}, says=(f"{name}[0] must be float16", "torch.int64"))
    yield wrong_value(function, **{name: [W[0, 0]]}, says=(f"{name}[0] must have at least 3 dims", "(3, 3)"))
    yield wrong_value(function, **{name: [W, W[..., :2]]}, says=(f"{name}[1] must be self-attention's", "(2, 2, 3, 2)"))
    yield wrong_value(function, **{name: [W[:, :0]]}, says=("at least one head", "(2, 0, 3, 3)"))
    yield wrong_value(function, **{name: [W, W.to("meta")]}, says=(f"{name} must be on one device", "meta"))


def from_rollout() -> Iterator[Row]:
    yield from layer_rows(rollout.rollout, "layers")
    yield wrong_kind(rollout.rollout, W, says=("layers must be a sequence of tensors", "one Tensor"))
    yield wrong_value(rollout.rollout, [W, W[..., :2, :2]], says=("layers must agree", "(2, 2, 2, 2)", "layers[1]"))
    yield wrong_value(rollout.rollout, [W, W[:1]], says=("layers must agree", "(1, 2, 3, 3)"))
    yield from name_rows(partial(rollout.rollout, [W]), "heads", "mean", "max", "min")


def from_head_scores() -> Iterator[Row]:
    score = head_scores.head_scores
    yield from layer_rows(score, "weights")
    yield wrong_value(score, W[0], says=("weights must be (B, H, L, L)", "(2, 3, 3)"))
    yield wrong_value(score, [W, W[:, :1]], says=("weights of all layers must have one shape", "(2, 1, 3, 3)"))
    yield wrong_value(score, W[..., :0, :0], says=("weights must hold at least one token", "(2, 2, 0, 0)"))
    kinds = ("previous", "first", "diagonal", "induction", "duplicate")
    rows = list(name_rows(partial(score, W), "kind", *kinds))
    yield from [each for each in rows if "NoneType" not in each.words]
    for kind in kinds[3:]:
        yield wrong_value(score, W, kind, says=("tokens must be given", kind))
        yield wrong_value(
            score, W, kind, tokens=torch.arange(6).view(2, 3), says=(kind, "has no token that occurs again")
        )
    yield wrong_value(score, W, "induction", tokens=torch.tensor([[1, 1, 2]] * 2), says="no token that occurs again")
    yield wrong_value(score, W, real=torch.zeros_like(REAL), says=("previous", "fewer than two real tokens"))
    yield wrong_value(score, W[..., :1, :1], says=("previous", "fewer than two real tokens"))
    for bad, kind in (([[1, 2, 1]], "list"), ("aba", "str"), (3, "int")):
        yield wrong_kind(score, W, tokens=bad, says=("tokens must be a torch.Tensor", kind))
        yield wrong_kind(score, W, real=bad, says=("real must be a torch.Tensor", kind))
    yield wrong_kind(score, W, tokens=IDS.float(), says=("tokens must be integers", "torch.float32"))
    yield wrong_kind(score, W, real=IDS, says=("real must be boolean", "torch.int64"))
    yield wrong_value(score, W, tokens=IDS[:1], says=("tokens must have shape (B, L) = (2, 3)", "(1, 3)"))
    yield wrong_value(score, W, real=REAL[0], says=("real must have shape (B, L) = (2, 3)", "(3,)"))
    yield wrong_value(score, W, tokens=IDS.to("meta"), says=("tokens must be on the device of the weights", "meta"))
    yield wrong_value(score, W, real=REAL.to("meta"), says=("real must be on the device of the weights", "meta"))


def from_ablation() -> Iterator[Row]:
    ablate = ablation.ablate_heads
    gpt = models.DecoderOnly(CONFIG)
    yield from model_rows(partial(ablate, heads={0: [0]}))
    call = partial(ablate, gpt)
    for bad, kind in ((None, "NoneType"), ([0, 1], "list"), (3, "int"), ("0", "str")):
        yield wrong_kind(call, heads=bad, says=("heads must be a mapping from layers", kind))
    for bad, kind in ((None, "NoneType"), (1, "int"), ("01", "str"), (torch.tensor([1]), "Tensor"), ({0: 1}, "dict")):
        yield wrong_kind(call, {0: bad}, says=("heads must hold a sequence of ints for layer decoder.blocks.0", kind))
    for bad, kind in ((1.0, "float"), (True, "bool"), ("0", "str"), (None, "NoneType")):
        yield wrong_kind(call, {0: [bad]}, says=("heads of layer decoder.blocks.0.attention must be an int", kind))
    yield wrong_value(call, {0: [-1]}, says=("heads of layer decoder.blocks.0.attention must be at least 0", "-1"))
    yield wrong_value(call, {1: [0, 2]}, says=("heads of layer decoder.blocks.1.attention must be 0 to 1", "got 2"))
    for bad, kind in ((1.0, "float"), (True, "bool"), (None, "NoneType"), ((0, 1), "tuple")):
        yield wrong_kind(call, {bad: [0]}, says=("heads must have layers as keys", kind))
    for bad in (-1, 2):
        yield wrong_value(call, {bad: [0]}, says=(f"heads has layer {bad}", "0 to 1"))
    yield wrong_value(call, {"decoder.blocks.2.attention": [0]}, says=("heads names a layer", "decoder.blocks.1"))
    both = models.Seq2SeqTransformer(CONFIG)
    yield wrong_value(ablate, both, {0: [0]}, says=("heads must name its layers", "decoder.blocks.0.cross_attention"))
    yield from name_rows(partial(call, {0: [0]}), "by", "zero", "mean")


def from_integrated_gradients() -> Iterator[Row]:
    integrate = integrated_gradients.integrated_gradients
    x = torch.rand(2, 3)
    for bad in (None, 3, "sum"):
        yield wrong_kind(integrate, bad, x, says=("function must be callable", type(bad).__name__))
    yield from float_rows(partial(integrate, torch.sum), "inputs", 0)
    call = partial(integrate, lambda x: x.sum(-1), x)
    for bad, kind in ((0, "int"), ([0.0], "list"), (0.0, "float")):
        yield wrong_kind(call, baseline=bad, says=("baseline must be a torch.Tensor", kind))
    yield wrong_kind(call, baseline=x.long(), says=("baseline must be float16", "torch.int64"))
    yield wrong_kind(call, baseline=x.double(), says=("baseline and inputs must have one dtype", "torch.float64"))
    yield wrong_value(call, baseline=x.to("meta"), says=("baseline and inputs must be on one device", "meta"))
    for bad in (x[:, :2], torch.rand(3, 3), torch.rand(1, 2, 3)):
        yield wrong_value(call, baseline=bad, says=("baseline must broadcast", "(2, 3)", str(tuple(bad.shape))))
    yield from integer_rows(call, "steps", 0, -1)
    yield from name_rows(call, "method", "gauss", "midpoint")
    for wrong, kind in ((lambda x: 3.0, "float"), (lambda x: None, "NoneType"), (lambda x: x.sum().long(), "int64")):
        yield wrong_kind(integrate, wrong, x, says=("function must return a floating-point tensor", kind))
    for wrong, shape in ((lambda x: x, (2, 3)), (lambda x: x.sum(0), (3,)), (lambda x: x.sum(-1)[:1], (1,))):
        yield wrong_value(integrate, wrong, x, says=("function must return one score an entry, (2,)", str(shape)))
    for wrong in (lambda x: x.detach().sum(), lambda x: torch.ones(2, requires_grad=True)):
        yield wrong_value(integrate, wrong, x, says="function must depend on its input")
    yield from from_token_attributions()


def from_token_attributions() -> Iterator[Row]:
    attribute, gpt = integrated_gradients.token_attributions, models.DecoderOnly(CONFIG).eval()

    def score() -> torch.Tensor:
        return gpt(IDS)[:, -1, 0]

    for bad, kind in ((None, "NoneType"), ("gpt2", "str")):
        yield wrong_kind(attribute, bad, score, says=("model must be a torch.nn.Module", kind))
    training = models.DecoderOnly(CONFIG)
    yield wrong_value(attribute, training, score, says=("model must be in eval mode", "model.eval()"))
    half = models.DecoderOnly(CONFIG).eval()
    half.decoder.blocks[0].dropout.train()
    yield wrong_value(attribute, half, score, says="model must be in eval mode")
    bare = multihead.MultiHeadAttention(8, 2).eval()
    yield wrong_value(attribute, bare, score, says=("get_input_embeddings()", "MultiHeadAttention", "embedding"))
    for bad, kind in ((None, "NoneType"), (torch.ones(2), "Tensor")):
        yield wrong_kind(attribute, gpt, bad, says=("score must be callable", kind))
    call = partial(attribute, gpt, score)
    yield wrong_kind(call, embedding=gpt.embedding.tokens.weight, says=("embedding must be a torch.nn.Module", "Param"))
    yield from integer_rows(call, "lookup", -1)
    yield wrong_value(call, lookup=1, says=("lookup must be less than the 1 uses", "got 1"))
    yield wrong_value(call, embedding=nn.Embedding(7, 8), says=("lookup must be less than the 0 uses", "got 0"))
    yield wrong_kind(call, baseline=True, says=("baseline must be an int", "bool"))
    yield wrong_kind(call, baseline="pad", says=("baseline must be a torch.Tensor", "str"))
    yield wrong_value(call, baseline=-1, says=("baseline must be at least 0", "-1"))
    yield wrong_value(call, baseline=7, says=("baseline must be an id from 0 to 6", "got 7"))
    yield wrong_value(call, baseline=torch.rand(3), says=("baseline must broadcast", "(2, 3, 8)", "(3,)"))
    yield from integer_rows(call, "steps", 0)
    yield from name_rows(call, "method", "gauss", "midpoint")


def rows() -> Iterator[Row]:
    for area in (from_capture, from_rollout, from_head_scores, from_ablation, from_integrated_gradients):
        yield from area()
