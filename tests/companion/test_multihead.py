"""The module against ``nn.MultiheadAttention`` with its weights, and against loops over heads."""

import math
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import MultiHeadAttention, attend, causal, padding, sliding_window
from tests.companion.helpers import carry_attention

WIDTH, HEADS = 12, 3


def twins(device: str = "cpu", bias: bool = True) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Ours and PyTorch's, with the same numbers in them, no bias of which is zero."""
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True, device=device)
    ours = MultiHeadAttention(WIDTH, HEADS, bias=bias).to(device)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(-0.5, 0.5)
        carry_attention(ours, theirs)
    return ours, theirs


CALLS = ("self", "causal", "padding", "both", "per head", "cross", "cross, padding")


def inputs(call: str, device: str) -> tuple[tuple[Tensor, ...], dict, dict]:
    """Positional arguments, ours, and theirs, where True means *ignore*."""
    x, memory = torch.randn(2, 5, WIDTH, device=device), torch.randn(2, 7, WIDTH, device=device)
    real = torch.arange(5, device=device) < torch.tensor([[3], [5]], device=device)
    triangle = torch.ones(5, 5, dtype=torch.bool, device=device).tril()
    coin = torch.rand(2, HEADS, 5, 5, device=device) < 0.5
    coin[..., 0] = True
    remembered = torch.arange(7, device=device) < torch.tensor([[7], [2]], device=device)
    return {
        "self": ((x,), {}, {}),
        "causal": ((x,), {"causal": True}, {"attn_mask": ~triangle}),
        "padding": ((x,), {"mask": padding([3, 5])}, {"key_padding_mask": ~real}),
        "both": (
            (x,),
            {"mask": real[:, None, None], "causal": True},
            {"key_padding_mask": ~real, "attn_mask": ~triangle},
        ),
        "per head": ((x,), {"mask": coin}, {"attn_mask": ~coin.flatten(0, 1)}),
        "cross": ((x, memory), {}, {}),
        "cross, padding": ((x, memory), {"mask": padding(remembered)}, {"key_padding_mask": ~remembered}),
    }[call]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_equals_pytorchs(call: str, training: bool, gradients: bool, device: str):
    """Without gradients, in evaluation, PyTorch takes a fast path of its own."""
    ours, theirs = (module.train(training) for module in twins(device, bias=call != "causal"))
    given, our_options, their_options = inputs(call, device)
    with torch.set_grad_enabled(gradients):
        memory = given[-1]
        want, want_weights = theirs(given[0], memory, memory, **their_options, average_attn_weights=False)
        output, weights = ours(*given, **our_options, need_weights=True)
        torch.testing.assert_close(output, want, rtol=0, atol=1e-6)
        torch.testing.assert_close(weights, want_weights, rtol=0, atol=1e-6)
        torch.testing.assert_close(ours(*given, **our_options), want, rtol=0, atol=1e-6)


def test_gradients_equal_pytorchs(device: str):
    ours, theirs = twins(device)
    x = torch.randn(2, 5, WIDTH, device=device)
    ours(x).square().sum().backward()
    theirs(x, x, x)[0].square().sum().backward()
    for name, want in zip("QKV", theirs.in_proj_weight.grad.chunk(3), strict=True):
        torch.testing.assert_close(getattr(ours, f"W_{name}").weight.grad, want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.W_O.weight.grad, theirs.out_proj.weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("d_head", [None, 5])
def test_grouped_heads_equal_loops(groups: int, d_head: int | None, device: str):
    mha = MultiHeadAttention(8, 4, num_kv_heads=groups, d_head=d_head).to(device)
    width = d_head or 2
    assert mha.W_K.weight.shape == mha.W_V.weight.shape == (groups * width, 8)
    x, memory = torch.randn(2, 3, 8, device=device), torch.randn(2, 6, 8, device=device)
    output, weights = mha(x, memory, causal=True, need_weights=True)
    heads = []
    hidden = torch.ones(3, 6, dtype=torch.bool, device=device).tril(3).logical_not()
    for h in range(4):
        g = h // (4 // groups)
        mine, shared = slice(h * width, (h + 1) * width), slice(g * width, (g + 1) * width)
        q = F.linear(x, mha.W_Q.weight[mine], mha.W_Q.bias[mine])
        k = F.linear(memory, mha.W_K.weight[shared], mha.W_K.bias[shared])
        v = F.linear(memory, mha.W_V.weight[shared], mha.W_V.bias[shared])
        scores = (q @ k.transpose(1, 2) / math.sqrt(width)).masked_fill(hidden, -math.inf)
        torch.testing.assert_close(weights[:, h], scores.softmax(-1))
        heads.append(scores.softmax(-1) @ v)
    torch.testing.assert_close(output, mha.W_O(torch.cat(heads, -1)))


@pytest.mark.parametrize(
    "options", [{}, {"mask": causal()}, {"mask": padding([0, 3])}, {"bias": torch.randn(4, 3, 3)[None]}]
)
def test_asking_for_weights_changes_no_number(options: dict):
    mha = MultiHeadAttention(8, 4, num_kv_heads=2)
    x = torch.randn(2, 3, 8)
    output, weights = mha(x, **options, need_weights=True)
    torch.testing.assert_close(mha(x, **options), output, rtol=0, atol=1e-6)
    for backend in ("reference", "math", "flash"):
        mha.backend = backend
        torch.testing.assert_close(mha(x, **options), output, rtol=0, atol=1e-6)
    assert weights.shape == (2, 4, 3, 3)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("lengths", [(3, 5), (1, 1), (0, 5), (3, 0)], ids=str)
def test_any_leading_dims_and_lengths(lead: tuple[int, ...], lengths: tuple[int, int], device: str):
    mha = MultiHeadAttention(8, 4, num_kv_heads=2).to(device)
    nn.init.uniform_(mha.W_O.bias)
    x = torch.randn(*lead, lengths[0], 8, device=device, requires_grad=True)
    memory = torch.randn(*lead, lengths[1], 8, device=device, requires_grad=True)
    output, weights = mha(x, memory, need_weights=True)
    assert output.shape == x.shape
    assert weights.shape == (*lead, 4, *lengths)
    torch.testing.assert_close(mha(x, memory), output)
    if lengths[1] == 0:
        assert torch.equal(output, mha.W_O.bias.expand_as(output))
    output.sum().backward()
    assert x.grad is not None
    assert memory.grad is not None


@pytest.mark.parametrize("scale", [None, 1.0, -0.5, 0.0])
@pytest.mark.parametrize("need_weights", [False, True])
def test_the_scale_is_that_of_the_scores(scale: float | None, need_weights: bool):
    """A head without a scale is one whose queries are the square root of D longer."""
    mha = MultiHeadAttention(12, 3, scale=scale)
    other = MultiHeadAttention(12, 3)
    other.load_state_dict(mha.state_dict())
    factor = 1.0 if scale is None else scale * math.sqrt(4)
    with torch.no_grad():
        for parameter in other.W_Q.parameters():
            parameter *= factor
    x = torch.randn(2, 5, 12)
    one, two = (module(x, causal=True, need_weights=need_weights) for module in (mha, other))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-6)
    assert ("scale" in repr(mha)) == (scale is not None)


def test_positions_are_refused_where_nothing_would_look_at_them():
    with pytest.raises(ValueError, match="without rotary"):
        MultiHeadAttention(8, 2)(torch.zeros(1, 3, 8), positions=torch.arange(3))


def test_batch_entries_do_not_meet():
    mha = MultiHeadAttention(8, 2)
    x = torch.randn(2, 3, 4, 8)
    whole = mha(x, mask=sliding_window(2))
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(whole[i, j], mha(x[i, j], mask=sliding_window(2)))


def test_an_empty_row_gives_the_bias_of_the_last_projection():
    mha = MultiHeadAttention(8, 2)
    nn.init.uniform_(mha.W_O.bias)
    x = torch.randn(2, 3, 8, requires_grad=True)
    for need in (False, True):
        output = mha(x, mask=padding([0, 3]), need_weights=need)
        output = output[0] if need else output
        assert torch.equal(output[0], mha.W_O.bias.expand(3, 8))
        (gradient,) = torch.autograd.grad(output[0].sum(), x)
        assert (gradient == 0).all()


# --- dropout ---


def test_dropout_in_training_only_and_again_after_evaluation():
    mha = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(2, 6, 8)
    plain = MultiHeadAttention(8, 2)
    plain.load_state_dict(mha.state_dict())
    for _ in range(2):
        mha.train()
        assert not torch.equal(mha(x), mha(x))
        assert not torch.equal(mha(x, need_weights=True)[0], mha(x, need_weights=True)[0])
        mha.eval()
        torch.testing.assert_close(mha(x), plain(x))
        assert torch.equal(mha(x), mha(x))


def test_weights_are_those_before_dropout():
    mha = MultiHeadAttention(8, 2, dropout=0.5)
    _, weights = mha(torch.randn(1, 6, 8), need_weights=True)
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 6))


# --- as a module ---


def test_state_goes_round():
    mha = MultiHeadAttention(8, 4, num_kv_heads=2)
    other = MultiHeadAttention(8, 4, num_kv_heads=2)
    x = torch.randn(1, 3, 8)
    assert not torch.equal(mha(x), other(x))
    names = {f"W_{letter}.{kind}" for letter in "QKVO" for kind in ("weight", "bias")}
    assert set(mha.state_dict()) == names
    other.load_state_dict(mha.state_dict())
    assert torch.equal(mha(x), other(x))
    assert torch.equal(pickle.loads(pickle.dumps(mha))(x), mha(x))
    assert not any("bias" in name for name in MultiHeadAttention(8, 4, bias=False).state_dict())


def test_it_starts_as_pytorchs_does():
    """Xavier's bound, for three projections held in one matrix (M to 3M) and for one by itself (M to M); no bias."""
    mha, theirs = MultiHeadAttention(64, 4), nn.MultiheadAttention(64, 4)
    assert theirs.in_proj_weight.abs().max() <= math.sqrt(6 / (64 + 192))
    bounds = [math.sqrt(6 / (64 + 192))] * 3 + [math.sqrt(6 / (64 + 64))]
    for layer, bound in zip((mha.W_Q, mha.W_K, mha.W_V, mha.W_O), bounds, strict=True):
        assert layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert (layer.bias == 0).all()


def test_its_shape_is_printed():
    assert "num_heads=4, num_kv_heads=2, d_head=2" in repr(MultiHeadAttention(8, 4, num_kv_heads=2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes(dtype: torch.dtype, device: str):
    mha = MultiHeadAttention(8, 2).to(device, dtype)
    x = torch.randn(1, 3, 8, device=device, dtype=dtype)
    output, weights = mha(x, need_weights=True)
    assert output.dtype == weights.dtype == dtype
    exact = MultiHeadAttention(8, 2).double().to(device)
    exact.load_state_dict(mha.state_dict())
    torch.testing.assert_close(mha(x).double(), exact(x.double()), rtol=0, atol=5e-2)


def test_autocast(device: str):
    mha = MultiHeadAttention(8, 2).to(device)
    x = torch.randn(1, 3, 8, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        output, weights = mha(x.bfloat16(), need_weights=True)
        assert output.dtype == torch.bfloat16
        torch.testing.assert_close(mha(x).float(), mha(x, need_weights=True)[0].float(), rtol=0, atol=2e-2)
    torch.testing.assert_close(weights.float(), mha(x, need_weights=True)[1], rtol=0, atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("need_weights", [False, True])
def test_compiled_equals_eager(compiled, need_weights: bool):
    mha = MultiHeadAttention(8, 4, num_kv_heads=2)
    fast = compiled(mha, fullgraph=True)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    mask = torch.rand(2, 1, 3, 5) < 0.6
    mask[0, :, 0] = False
    for module in (mha, fast):
        module.zero_grad()
    eager, quick = (module(x, memory, mask=mask, causal=True, need_weights=need_weights) for module in (mha, fast))
    torch.testing.assert_close(quick, eager, rtol=0, atol=1e-6)
    one, two = (output[0] if need_weights else output for output in (eager, quick))
    gradients = [torch.autograd.grad(output.square().sum(), list(mha.parameters())) for output in (one, two)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_attend_in_the_place_of_pytorchs_function_compiles(compiled):
    """A block of somebody else's, which calls ``F.scaled_dot_product_attention``, given ours."""

    class Block(nn.Module):
        def __init__(self, attention) -> None:
            super().__init__()
            self.attention = attention
            self.inner = nn.Linear(8, 24)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.inner(x).unflatten(-1, (3, 2, 4)).unbind(-3)  # (B, L, H, D) each
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return self.attention(q, k, v).transpose(1, 2).flatten(-2)

    theirs, ours = Block(F.scaled_dot_product_attention), Block(attend)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 8)
    fast = compiled(ours, fullgraph=True)
    torch.testing.assert_close(fast(x), theirs(x), rtol=0, atol=1e-6)
