"""PyTorch's layers and ours compute the same with the same weights, both ways."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import MultiHeadAttention
from companion.blocks import DecoderBlock, EncoderBlock
from companion.config import TransformerConfig
from companion.convert import from_torch, to_torch
from companion.models import EncoderOnly

M, H, B, L, S = 16, 4, 3, 5, 7
BOUNDS = {torch.float32: 1e-6, torch.float64: 1e-12}
# True for padding, as PyTorch has it.
PADDED = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [True] * 2 + [False] * 3])
MEMORY_PADDED = torch.tensor([[False] * 7, [False] * 2 + [True] * 5, [True] * 3 + [False] * 4])
FUTURE = torch.ones(L, L, dtype=torch.bool).triu(1)


def shaken(module: Any, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
    """No zero biases, no norms of one: whatever is exchanged or forgotten shows."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.to(device, dtype)


def close(ours: Tensor, theirs: Tensor, rows: Tensor | None = None) -> None:
    if rows is not None:
        ours, theirs = ours[rows], theirs[rows]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=BOUNDS[theirs.dtype])


def inputs(device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.randn(B, L, M, device=device, dtype=dtype), torch.randn(B, S, M, device=device, dtype=dtype)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_attention(device: str, dtype: torch.dtype, batch_first: bool, bias: bool):
    theirs = shaken(nn.MultiheadAttention(M, H, bias=bias, batch_first=batch_first, kdim=M), device, dtype)
    ours = from_torch(theirs)
    x, memory = inputs(device, dtype)
    padded, hidden = MEMORY_PADDED.to(device), torch.rand(L, S, device=device) < 0.3
    hidden[:, 1], hidden[:, 5] = False, False  # so that no row is empty
    extra = torch.randn(L, S, device=device, dtype=dtype)
    turn: Callable[[Tensor], Tensor] = lambda t: t if batch_first else t.transpose(0, 1)  # noqa: E731
    calls: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"attn_mask": hidden}, {"mask": ~hidden}),
        ({"key_padding_mask": padded}, {"mask": ~padded[:, None, None, :]}),
        (
            {"attn_mask": hidden, "key_padding_mask": padded},
            {"mask": ~hidden & ~padded[:, None, None, :]},
        ),
        ({"attn_mask": extra}, {"bias": extra}),
    ]
    rows = torch.ones(B, L, dtype=torch.bool, device=device)
    for mode in (True, False):
        theirs.train(mode)
        ours.train(mode)
        for his, mine in calls:
            rows[2] = "attn_mask" not in his or "key_padding_mask" not in his  # key 5 is the only one sure to be seen
            expected, weights = theirs(turn(x), turn(memory), turn(memory), average_attn_weights=False, **his)
            output, shares = ours(x, memory, need_weights=True, **mine)
            assert shares.shape == (B, H, L, S)
            close(output, turn(expected), rows)
            close(shares, weights)
            close(ours(x, memory, **mine), turn(expected))
        close(ours(x), turn(theirs(turn(x), turn(x), turn(x))[0]))


ACTIVATIONS: dict[str, list[Any]] = {
    "relu": ["relu", F.relu, torch.relu, nn.ReLU()],
    "gelu": ["gelu", F.gelu, nn.GELU()],
    "gelu_tanh": [partial(F.gelu, approximate="tanh")],
}
FORMS = pytest.mark.parametrize(
    ("norm_first", "activation", "bias"),
    [
        (False, "relu", True),
        (True, "gelu", True),
        (False, "gelu", False),
        (True, "relu", False),
        (True, "gelu_tanh", True),
    ],
)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@FORMS
def test_encoder_layer(device: str, dtype: torch.dtype, norm_first: bool, activation: str, bias: bool, training: bool):
    kind = ACTIVATIONS[activation][0]
    options = {"activation": kind, "norm_first": norm_first, "bias": bias, "layer_norm_eps": 1e-3, "dropout": 0.0}
    theirs = shaken(nn.TransformerEncoderLayer(M, H, 24, batch_first=True, **options), device, dtype).train(training)
    ours = from_torch(theirs)
    assert ours.training == training
    x, _ = inputs(device, dtype)
    real = ~PADDED.to(device)
    future = FUTURE.to(device)
    with torch.set_grad_enabled(training):  # without gradients, eval takes PyTorch's fast path
        close(ours(x), theirs(x))
        close(ours(x, mask=real[:, None, None, :]), theirs(x, src_key_padding_mask=~real), real)
        close(ours(x, causal=True), theirs(x, src_mask=future))
        both = theirs(x, src_mask=future, src_key_padding_mask=~real)
        close(ours(x, causal=True, mask=real[:, None, None, :]), both, real)
        back = to_torch(ours)
        close(back(x, src_key_padding_mask=~real), theirs(x, src_key_padding_mask=~real), real)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@FORMS
def test_decoder_layer(device: str, dtype: torch.dtype, norm_first: bool, activation: str, bias: bool, training: bool):
    kind = ACTIVATIONS[activation][0]
    options = {"activation": kind, "norm_first": norm_first, "bias": bias, "layer_norm_eps": 1e-3, "dropout": 0.0}
    theirs = shaken(nn.TransformerDecoderLayer(M, H, 24, batch_first=True, **options), device, dtype).train(training)
    ours = from_torch(theirs)
    x, memory = inputs(device, dtype)
    real, memory_real = ~PADDED.to(device), ~MEMORY_PADDED.to(device)
    future = FUTURE.to(device)
    with torch.set_grad_enabled(training):
        close(ours(x, memory, causal=False), theirs(x, memory))
        close(ours(x, memory), theirs(x, memory, tgt_mask=future))
        padded = {"tgt_key_padding_mask": ~real, "memory_key_padding_mask": ~memory_real}
        mine = {"mask": real[:, None, None, :], "memory_mask": memory_real[:, None, None, :]}
        expected = theirs(x, memory, tgt_mask=future, **padded)
        close(ours(x, memory, **mine), expected, real)
        close(to_torch(ours)(x, memory, tgt_mask=future, **padded), expected, real)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_known_in_every_form(name: str):
    for form in [*ACTIVATIONS[name], *([nn.GELU("tanh")] if name == "gelu_tanh" else [])]:
        layer = copy.deepcopy(nn.TransformerEncoderLayer(8, 2, 8, activation=form))  # as nn.TransformerEncoder does
        assert from_torch(layer).feed_forward.activation == name


def test_the_fast_path_of_pytorch_takes_one_gelu_for_the_other():
    """Why ``to_torch`` writes the tanh form as a function: a module would be replaced by the exact GELU in eval."""
    theirs = shaken(nn.TransformerEncoderLayer(M, H, 24, activation=nn.GELU("tanh"), batch_first=True)).eval()
    x = torch.randn(B, L, M) * 3
    with torch.no_grad():
        fast = theirs(x)
    slow = theirs(x).detach()
    ours = from_torch(theirs)
    close(ours(x).detach(), slow)
    assert (fast - slow).abs().max() > 1e-5
    with torch.no_grad():
        close(to_torch(ours)(x), slow)


def made(kind: str) -> Any:
    if kind == "attention":
        return MultiHeadAttention(M, H, dropout=0.25)
    block = EncoderBlock if kind == "encoder" else DecoderBlock
    return block(M, H, 24, activation="gelu_tanh", norm_first=True, eps=1e-4, dropout=0.25)


@pytest.mark.parametrize("kind", ["attention", "encoder", "decoder"])
def test_there_and_back(kind: str):
    ours = shaken(made(kind), dtype=torch.float64).eval()
    before = torch.get_rng_state()
    theirs = to_torch(ours)
    again = from_torch(theirs)
    assert torch.equal(torch.get_rng_state(), before)
    assert repr(again) == repr(ours)  # sizes, rates and epsilons
    assert not theirs.training
    assert not again.training
    assert again.state_dict().keys() == ours.state_dict().keys()
    for name, parameter in again.state_dict().items():
        assert torch.equal(parameter, ours.state_dict()[name])
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    assert all(parameter.abs().min() > 0 for parameter in [*ours.parameters(), *theirs.parameters()])


@pytest.mark.parametrize("place", ["self_attn", "multihead_attn", "dropout", "outer"])
@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_every_dropout_falls_in_the_same_place(kind: Any, place: str):
    """Where everything is dropped, nothing is left to chance."""
    theirs = shaken(kind(M, H, 24, dropout=0.0, batch_first=True))
    if not hasattr(theirs, place) and place != "outer":
        pytest.skip("an encoder layer has no cross-attention")
    if place.endswith("attn"):
        getattr(theirs, place).dropout = 1.0
    else:
        for name in ["dropout1", "dropout2", "dropout3"] if place == "outer" else ["dropout"]:
            if hasattr(theirs, name):
                getattr(theirs, name).p = 1.0
    ours = from_torch(theirs)
    x, memory = inputs("cpu", torch.float32)
    mine, his = ((x,), {}), ((x,), {})
    if kind is nn.TransformerDecoderLayer:
        mine, his = ((x, memory), {"causal": False}), ((x, memory), {})
    expected = theirs(*his[0], **his[1])
    close(ours(*mine[0], **mine[1]), expected)
    close(to_torch(ours)(*his[0], **his[1]), expected)
    assert not torch.allclose(theirs.eval()(*his[0], **his[1]), expected)


def stack(norm_first: bool, layers: int = 3) -> tuple[nn.TransformerEncoder, EncoderOnly]:
    """PyTorch's encoder, and ours with its weights."""
    layer = nn.TransformerEncoderLayer(M, H, 24, dropout=0.0, norm_first=norm_first, batch_first=True)
    theirs = shaken(
        nn.TransformerEncoder(layer, layers, nn.LayerNorm(M) if norm_first else None, enable_nested_tensor=False)
    )
    config = TransformerConfig(
        vocab_size=9, d_model=M, num_heads=H, num_layers=layers, d_ff=24, activation="relu", norm_first=norm_first
    )
    ours = EncoderOnly(config)
    for block, source in zip(ours.encoder.blocks, theirs.layers, strict=True):
        block.load_state_dict(from_torch(source).state_dict())
    if theirs.norm is not None:
        ours.encoder.norm.load_state_dict(theirs.norm.state_dict())
    return theirs, ours


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_bug_22_residual_taken_after_the_norm(norm_first: bool):
    theirs = shaken(nn.TransformerEncoderLayer(M, H, 24, dropout=0.0, norm_first=norm_first, batch_first=True))
    ours = from_torch(theirs)
    x = torch.randn(B, L, M)
    expected = theirs(x)
    close(ours(x), expected)
    y = x
    for f, norm in ((ours.attention, ours.norm_attention), (ours.feed_forward, ours.norm_feed_forward)):
        # What was reported: the norm's output, or its input's, is what is carried on.
        normed = norm(y)
        y = normed + f(normed) if norm_first else y + norm(f(y))
    assert (y - expected).abs().max() > 0.1


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_bug_22_final_norm_doubled(norm_first: bool):
    """One norm behind a pre-LN stack; none behind a post-LN stack, whose last block ends in its own."""
    theirs, ours = stack(norm_first)
    x = torch.randn(B, L, M)
    expected = theirs(x)
    torch.testing.assert_close(ours.encoder(x), expected, rtol=0, atol=2e-6)  # three layers deep
    assert (ours.encoder.norm is not None) == norm_first
    again = ours.encoder.norm if norm_first else shaken(nn.LayerNorm(M))
    assert (again(expected) - expected).abs().max() > 0.1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_bug_26_the_fast_path_zeroes_padded_rows_in_eval():
    theirs = shaken(nn.TransformerEncoder(nn.TransformerEncoderLayer(M, H, 24, batch_first=True), 1)).eval()
    ours = from_torch(theirs.layers[0])
    padded = torch.arange(L) >= torch.tensor([[5], [3], [1]])
    x, real = torch.randn(B, L, M), ~padded
    slow = theirs(x, src_key_padding_mask=padded).detach()
    with torch.no_grad():
        fast = theirs(x, src_key_padding_mask=padded)
        output = ours(x, mask=real[:, None, None, :])
    assert (fast[padded] == 0).all()
    assert (slow[padded] != 0).any(-1).all()
    assert (output[padded] != 0).any(-1).all()
    for expected in (fast, slow):
        close(output, expected, real)
    assert "sets padded rows to zero" in " ".join((from_torch.__doc__ or "").split())
