"""Blocks against ``nn.TransformerEncoderLayer`` and ``nn.TransformerDecoderLayer`` with their weights, and by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from companion import causal, padding, sliding_window
from companion.blocks import DecoderBlock, EncoderBlock
from companion.cache import KVCache
from companion.masks import longformer
from companion.positions import Rotary, alibi_bias, position_ids
from tests.companion.helpers import carry_attention

WIDTH, HEADS, HIDDEN = 12, 3, 20
orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post-LN", "pre-LN"])
kinds = pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])


def twins(kind: type, *, device: str = "cpu", dtype: torch.dtype = torch.float32, dropout: float = 0.0, **options):
    """Ours and PyTorch's with the same numbers, none of them what they start with."""
    theirs_options = {name: x for name, x in options.items() if name in ("norm_first", "activation", "bias")}
    maker = nn.TransformerEncoderLayer if kind is EncoderBlock else nn.TransformerDecoderLayer
    theirs = maker(
        WIDTH,
        HEADS,
        HIDDEN,
        dropout=dropout,
        batch_first=True,
        layer_norm_eps=options.get("eps", 1e-5),
        **theirs_options,
    )
    ours = kind(WIDTH, HEADS, HIDDEN, dropout=dropout, **options)
    norms = {"norm_attention": "norm1", "norm_feed_forward": "norm2"}
    if kind is DecoderBlock:
        norms = {"norm_attention": "norm1", "norm_cross_attention": "norm2", "norm_feed_forward": "norm3"}
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(-0.5, 0.5)
        carry_attention(ours.attention, theirs.self_attn)
        if kind is DecoderBlock:
            carry_attention(ours.cross_attention, theirs.multihead_attn)
        pairs = {name: getattr(theirs, their_name) for name, their_name in norms.items()}
        for name, their in pairs.items():
            getattr(ours, name).load_state_dict(their.state_dict())
        ours.feed_forward.W_1.load_state_dict(theirs.linear1.state_dict())
        ours.feed_forward.W_2.load_state_dict(theirs.linear2.state_dict())
    return ours.to(device, dtype), theirs.to(device, dtype)


REAL = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
REMEMBERED = torch.tensor([[True] * 7, [True] * 2 + [False] * 5])
TRIANGLE = torch.ones(5, 5, dtype=torch.bool).tril()
CALLS = ("plain", "padding", "causal", "both")


def encoder_call(call: str, device: str) -> tuple[dict, dict]:
    real, hidden = REAL.to(device), ~TRIANGLE.to(device)
    return {
        "plain": ({}, {}),
        "padding": ({"mask": padding(REAL)}, {"src_key_padding_mask": ~real}),
        "causal": ({"causal": True}, {"src_mask": hidden}),
        "both": ({"mask": padding(REAL) & causal()}, {"src_mask": hidden, "src_key_padding_mask": ~real}),
    }[call]


def decoder_call(call: str, device: str) -> tuple[dict, dict]:
    real, remembered, hidden = REAL.to(device), REMEMBERED.to(device), ~TRIANGLE.to(device)
    return {
        "plain": ({"causal": False}, {}),
        "padding": ({"memory_mask": padding(REMEMBERED)}, {"memory_key_padding_mask": ~remembered, "tgt_mask": hidden}),
        "causal": ({}, {"tgt_mask": hidden}),
        "both": (
            {"mask": padding(REAL), "memory_mask": remembered[:, None, None]},
            {"tgt_mask": hidden, "tgt_key_padding_mask": ~real, "memory_key_padding_mask": ~remembered},
        ),
    }[call]


def given_to(kind: type, call: str, device: str, dtype: torch.dtype = torch.float32) -> tuple[tuple, dict, dict]:
    inputs = (torch.randn(2, 5, WIDTH, device=device, dtype=dtype),)
    if kind is DecoderBlock:
        inputs += (torch.randn(2, 7, WIDTH, device=device, dtype=dtype),)
    return inputs, *(encoder_call if kind is EncoderBlock else decoder_call)(call, device)


@kinds
@orders
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_bug_22_residual_and_norm_order(
    kind: type, norm_first: bool, activation: str, call: str, training: bool, gradients: bool, device: str
):
    """Equal to PyTorch's layers on real tokens. Its fast path (evaluation, no gradients) puts zeros on padded rows,
    which is bug 26; what ours puts there means nothing, but is finite."""
    ours, theirs = (m.train(training) for m in twins(kind, norm_first=norm_first, activation=activation, device=device))
    inputs, our_options, their_options = given_to(kind, call, device)
    with torch.set_grad_enabled(gradients):
        output, want = ours(*inputs, **our_options), theirs(*inputs, **their_options)
    rows = REAL.to(device) if call in ("both", "padding") and kind is EncoderBlock else slice(None)
    torch.testing.assert_close(output[rows], want[rows], rtol=0, atol=1e-6)
    assert output.isfinite().all()


@kinds
@orders
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_equals_pytorchs_to_the_last_digits_with_gradients(kind: type, norm_first: bool, bias: bool, eps: float):
    ours, theirs = twins(kind, norm_first=norm_first, bias=bias, eps=eps, dtype=torch.float64)
    inputs, our_options, their_options = given_to(kind, "both", "cpu", torch.float64)
    inputs = [x.requires_grad_() for x in inputs]
    up = torch.randn(2, 5, WIDTH, dtype=torch.float64) * REAL[..., None]
    output, want = ours(*inputs, **our_options), theirs(*inputs, **their_options)
    torch.testing.assert_close(output[REAL], want[REAL], rtol=0, atol=1e-12)
    for got, expected in zip(
        torch.autograd.grad(output, inputs, up), torch.autograd.grad(want, inputs, up, retain_graph=True), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)
    ours(*inputs, **our_options).backward(up)
    want.backward(up)
    for got, expected in (
        (ours.feed_forward.W_1.weight, theirs.linear1.weight),
        (ours.attention.W_O.weight, theirs.self_attn.out_proj.weight),
        (ours.norm_attention.weight, theirs.norm1.weight),
    ):
        torch.testing.assert_close(got.grad, expected.grad, rtol=0, atol=1e-11)
    q, k, v = theirs.self_attn.in_proj_weight.grad.chunk(3)
    for layer, expected in zip("QKV", (q, k, v), strict=True):
        torch.testing.assert_close(getattr(ours.attention, f"W_{layer}").weight.grad, expected, rtol=0, atol=1e-11)
    assert all(p.grad is not None for p in ours.parameters())
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@orders
def test_a_stack_equals_pytorchs(norm_first: bool):
    """Three blocks; a last norm where they are pre-LN, and none where they are post-LN (bug 22's second half)."""
    layers = [twins(EncoderBlock, norm_first=norm_first) for _ in range(3)]
    last = nn.LayerNorm(WIDTH) if norm_first else None
    theirs = nn.TransformerEncoder(layers[0][1], 3, norm=last, enable_nested_tensor=False)
    theirs.layers = nn.ModuleList(their for _, their in layers)
    x = torch.randn(2, 5, WIDTH)
    want, y = theirs(x), x
    for ours, _ in layers:
        y = ours(y)
    torch.testing.assert_close(last(y) if last else y, want, rtol=0, atol=3e-6)
    if not norm_first:  # a norm after a post-LN block would do nothing but repeat its own: the rows are normal already
        plain = EncoderBlock(WIDTH, HEADS)
        y = plain(x)
        torch.testing.assert_close(y.mean(-1), torch.zeros(2, 5), rtol=0, atol=1e-6)
        torch.testing.assert_close(y.var(-1, unbiased=False), torch.ones(2, 5), rtol=0, atol=1e-3)


# --- the residual, by hand ---


def silent(block: nn.Module) -> nn.Module:
    """Whose attention and feed-forward network answer nothing."""
    with torch.no_grad():
        for layer in (block.attention.W_O, block.feed_forward.W_2, *([c.W_O] if (c := _cross(block)) else [])):
            layer.weight.zero_()
            layer.bias.zero_()
    return block


def _cross(block: nn.Module) -> nn.Module | None:
    return getattr(block, "cross_attention", None)


@kinds
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_the_residual_stream_runs_through_untouched(kind: type, norm: str):
    """Where nothing is added a pre-LN block is the identity, and a post-LN block norms only."""
    x = torch.randn(2, 3, 8) * 5 + 1
    memory = (torch.randn(2, 4, 8),) if kind is DecoderBlock else ()
    assert torch.equal(silent(kind(8, 2, norm=norm, norm_first=True))(x, *memory), x)
    post = silent(kind(8, 2, norm=norm, norm_first=False))
    want = x
    for _ in range(2 if kind is EncoderBlock else 3):
        want = post.norm_attention(want)
    torch.testing.assert_close(post(x, *memory), want)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
@pytest.mark.parametrize("cross", [False, True])
@orders
def test_a_block_is_its_parts(norm: str, activation: str, cross: bool, norm_first: bool):
    """The formulae of the docstring, written out."""
    options = {"norm": norm, "activation": activation, "num_kv_heads": 1, "bias": False, "norm_first": norm_first}
    block = DecoderBlock(8, 4, 16, cross_attention=cross, **options)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    steps = [(block.norm_attention, lambda y: block.attention(y, causal=True))]
    if cross:
        steps.append((block.norm_cross_attention, lambda y: block.cross_attention(y, memory)))
    steps.append((block.norm_feed_forward, block.feed_forward))
    want = x
    for normed, f in steps:
        want = want + f(normed(want)) if norm_first else normed(want + f(want))
    torch.testing.assert_close(block(x, memory if cross else None), want)
    assert not any("bias" in name for name, _ in block.named_parameters())


def test_a_gpt_block_is_a_causal_encoder_block():
    encoder = EncoderBlock(8, 2, norm_first=True)
    gpt = DecoderBlock(8, 2, norm_first=True, cross_attention=False)
    gpt.load_state_dict(encoder.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(gpt(x), encoder(x, causal=True))
    assert torch.equal(gpt(x, causal=False), encoder(x))


# --- what may be seen ---


@orders
def test_the_future_does_not_leak(norm_first: bool):
    """In value and in gradient."""
    block = DecoderBlock(8, 2, norm_first=norm_first)
    x, memory = torch.randn(2, 6, 8, requires_grad=True), torch.randn(2, 3, 8)
    for t in range(5):
        changed = x.detach().clone()
        changed[:, t + 1 :] += 5
        before, after = block(x, memory), block(changed, memory)
        torch.testing.assert_close(after[:, : t + 1], before[:, : t + 1], rtol=0, atol=1e-6)
        assert not torch.allclose(after[:, t + 1 :], before[:, t + 1 :])
        (gradient,) = torch.autograd.grad(before[:, t].sum() + before[:, t].square().sum(), x)
        assert (gradient[:, t + 1 :] == 0).all()
        assert (gradient[:, : t + 1] != 0).any(-1).all()


@kinds
@orders
@pytest.mark.parametrize("rubbish", [7.0, 1e4, float("nan")])
def test_bug_18_padding_does_not_leak(kind: type, norm_first: bool, rubbish: float):
    """Whatever is in the padding, on the right or on the left, real rows stay as they are."""
    block = kind(8, 2, norm_first=norm_first)
    memory = (torch.randn(2, 4, 8),) if kind is DecoderBlock else ()
    options = {"causal": False} if kind is DecoderBlock else {}
    for real in (REAL, REAL.flip(1)):
        x = torch.randn(2, 5, 8)
        changed = x.masked_fill(~real[..., None], rubbish)
        before, after = (block(y, *memory, mask=padding(real), **options) for y in (x, changed))
        torch.testing.assert_close(after[real], before[real], rtol=0, atol=1e-6)
        alone = block(x[:1][:, real[0]], *(m[:1] for m in memory), **options)
        torch.testing.assert_close(before[:1][:, real[0]], alone, rtol=0, atol=1e-6)


@orders
def test_bug_19_cross_attention_takes_the_memorys_padding_mask_only(norm_first: bool):
    block = DecoderBlock(8, 2, norm_first=norm_first)
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    changed = memory.masked_fill(~REMEMBERED[..., None], 50.0)
    before, after = (block(x, m, memory_mask=padding(REMEMBERED)) for m in (memory, changed))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    assert not torch.allclose(block(x, changed), before)
    # The decoder's mask says nothing about the memory: a square one, of its own length, fits and hides nothing there.
    short = memory[:, :5]
    masked = block(x, short, mask=padding([1, 1]), causal=False)
    moved = block(x, short + torch.randn(2, 5, 8) * (torch.arange(5) > 0)[:, None], mask=padding([1, 1]), causal=False)
    assert not torch.allclose(masked, moved)
    with pytest.raises(ValueError, match=r"padding was given \(2, 5\), used with \(B, S\) = \(2, 7\)"):
        block(x, memory, memory_mask=padding(REAL))


@kinds
def test_an_entry_that_is_all_padding_stays_finite(kind: type):
    block = kind(8, 2, norm_first=True)
    memory = (torch.randn(2, 4, 8),) if kind is DecoderBlock else ()
    options = {"memory_mask": padding([0, 4])} if kind is DecoderBlock else {}
    x = torch.randn(2, 5, 8, requires_grad=True)
    output = block(x, *memory, mask=padding([0, 5]), **options)
    output.sum().backward()
    assert output.isfinite().all()
    assert x.grad.isfinite().all()


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.booleans(), st.sampled_from(["layer", "rms"]), st.integers(0, 2**31))
def test_an_encoder_block_knows_no_order(order: list[int], norm_first: bool, norm: str, seed: int):
    """Tokens in another order: the same answers in that order; positions, or a triangle, would break it."""
    torch.manual_seed(seed)
    block = EncoderBlock(8, 2, norm=norm, norm_first=norm_first).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    real = torch.rand(2, 6) < 0.7
    torch.testing.assert_close(block(x)[:, order], block(x[:, order]), rtol=0, atol=1e-10)
    masked, moved = block(x, mask=padding(real)), block(x[:, order], mask=padding(real[:, order]))
    torch.testing.assert_close(masked[:, order], moved, rtol=0, atol=1e-10)
    if order != sorted(order):
        assert not torch.allclose(block(x, causal=True)[:, order], block(x[:, order], causal=True), atol=1e-6)


def test_with_rotary_it_knows_the_distance_alone():
    block = EncoderBlock(8, 2, rotary=Rotary(4), norm_first=True).double()
    x, places = torch.randn(2, 6, 8, dtype=torch.float64), torch.arange(6)
    torch.testing.assert_close(block(x, positions=places + 300), block(x), rtol=0, atol=1e-10)
    assert not torch.allclose(block(x.flip(1)).flip(1), block(x))
    real = torch.tensor([[False, False, True, True, True, True], [True] * 6])
    padded = block(x, mask=padding(real), positions=position_ids(real))
    torch.testing.assert_close(padded[:1, 2:], block(x[:1, 2:]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mask", [sliding_window(2), longformer(1, [0], causal=True)], ids=repr)
def test_masks_and_biases_go_through(mask):
    block = EncoderBlock(8, 2, norm_first=True)
    x = torch.randn(2, 6, 8)
    table = mask.dense(1, 1, 6, 6)
    bias = alibi_bias(2, 6, 6)
    want = block(x, mask=table, bias=bias)
    torch.testing.assert_close(block(x, mask=mask, bias=bias), want)
    assert not torch.allclose(block(x, mask=mask), want)
    y = x + block.attention(block.norm_attention(x), mask=table, bias=bias)
    torch.testing.assert_close(y + block.feed_forward(block.norm_feed_forward(y)), want)


@kinds
def test_backends_agree(kind: type):
    blocks = [kind(8, 2, backend=name, num_kv_heads=1) for name in ("auto", "reference", "math", "flash")]
    inputs, options, _ = given_to(kind, "both", "cpu")
    inputs = [x[..., :8] for x in inputs]
    for block in blocks[1:]:
        block.load_state_dict(blocks[0].state_dict())
        torch.testing.assert_close(block(*inputs, **options), blocks[0](*inputs, **options), rtol=0, atol=2e-6)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("lengths", [(3, 5), (1, 1), (0, 5), (3, 0)], ids=str)
@orders
def test_any_leading_dims_and_lengths(lead: tuple[int, ...], lengths: tuple[int, int], norm_first: bool, device: str):
    block = DecoderBlock(8, 2, norm_first=norm_first).to(device)
    x, memory = (torch.randn(*lead, n, 8, device=device, requires_grad=True) for n in lengths)
    output = block(x, memory)
    assert output.shape == x.shape
    assert output.isfinite().all()
    output.sum().backward()
    assert x.grad.isfinite().all()
    if len(lead) == 2:
        torch.testing.assert_close(output[1, 2], block(x[1, 2], memory[1, 2]), rtol=0, atol=1e-6)


# --- caches ---


@orders
def test_token_by_token_equals_all_at_once(norm_first: bool):
    block = DecoderBlock(8, 2, norm_first=norm_first, rotary=Rotary(4), num_kv_heads=1).eval()
    x, memory = torch.randn(2, 6, 8), torch.randn(2, 4, 8)
    with torch.no_grad():
        whole = block(x, memory, memory_mask=padding([2, 4]))
        for split in range(7):
            cache, kept = KVCache(6), KVCache(4)
            options = {"cache": cache, "memory_cache": kept, "memory_mask": padding([2, 4])}
            first = block(x[:, :split], memory, **options)
            rest = [block(x[:, t : t + 1], memory, **options) for t in range(split, 6)]
            torch.testing.assert_close(torch.cat([first, *rest], 1), whole, rtol=0, atol=1e-6)


# --- dropout ---


@kinds
@orders
def test_dropout_in_training_only_and_again_after_evaluation(kind: type, norm_first: bool):
    block, plain = kind(8, 2, dropout=0.5, norm_first=norm_first), kind(8, 2, norm_first=norm_first)
    plain.load_state_dict(block.state_dict())
    inputs = [x[..., :8] for x in given_to(kind, "plain", "cpu")[0]]
    for _ in range(2):
        block.train()
        assert not torch.equal(block(*inputs), block(*inputs))
        block.eval()
        assert torch.equal(block(*inputs), block(*inputs))
        assert torch.equal(block(*inputs), plain(*inputs))


@kinds
def test_dropout_never_touches_the_residual(kind: type):
    """With all dropped, a pre-LN block hands on what it got."""
    block = kind(8, 2, dropout=1.0, norm_first=True)
    inputs = [x[..., :8] for x in given_to(kind, "plain", "cpu")[0]]
    assert torch.equal(block(*inputs), inputs[0])


@orders
def test_dropout_falls_where_pytorchs_does(norm_first: bool):
    """In attention weights, between the projections, and on what is added: the mean of what ours gives in training is
    that of PyTorch's, feature by feature, and so is the spread."""
    ours, theirs = twins(EncoderBlock, norm_first=norm_first, dropout=0.3)
    x = torch.randn(1, 2, WIDTH).expand(20_000, 2, WIDTH)
    with torch.no_grad():
        one, two = ours(x), theirs(x)
    for statistic in (lambda y: y.mean(0), lambda y: y.std(0), lambda y: (y - y.mean(0)).abs().mean(0)):
        torch.testing.assert_close(statistic(one), statistic(two), rtol=0.03, atol=0.03)


# --- gradients, dtypes, compiling ---


@kinds
@orders
@pytest.mark.parametrize(("norm", "activation"), [("layer", "gelu"), ("rms", "swiglu")])
def test_gradients(kind: type, norm_first: bool, norm: str, activation: str):
    block = kind(4, 2, 5, norm=norm, activation=activation, norm_first=norm_first, rotary=Rotary(2)).double()
    inputs = [torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)]
    if kind is DecoderBlock:
        inputs.append(torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True))
    names = [name for name, _ in block.named_parameters()]

    def run(*values: Tensor) -> Tensor:
        given, parameters = values[: len(inputs)], values[len(inputs) :]
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(block, state, given, {"mask": padding([2])})

    assert torch.autograd.gradcheck(run, (*inputs, *block.parameters()), fast_mode=True)


@kinds
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(kind: type, dtype: torch.dtype, device: str):
    """Near float64, and no farther from it than twice what PyTorch's layer is."""
    ours, theirs = twins(kind, norm_first=True, device=device, dtype=dtype)
    inputs, our_options, their_options = given_to(kind, "both", device, dtype)
    output, want = ours(*inputs, **our_options), theirs(*inputs, **their_options)
    assert output.dtype == dtype
    exact = ours.double()(*(x.double() for x in inputs), **our_options)
    rows = REAL.to(device)
    error, allowance = ((y.double() - exact)[rows].abs().max().item() for y in (output, want))
    assert error <= 2 * allowance
    assert error < 40 * torch.finfo(dtype).eps


@kinds
def test_autocast(kind: type, device: str):
    block = kind(WIDTH, HEADS, norm_first=True, norm="rms").to(device)
    inputs, options, _ = given_to(kind, "both", device)
    with torch.autocast(device, dtype=torch.bfloat16):
        output = block(*inputs, **options)
    torch.testing.assert_close(output.float(), block(*inputs, **options), rtol=0, atol=6e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (EncoderBlock, {"norm_first": True, "norm": "rms", "activation": "swiglu", "rotary": "yes", "num_kv_heads": 1}),
        (DecoderBlock, {"norm_first": False, "activation": "gelu"}),
    ],
    ids=["Llama", "2017"],
)
def test_bug_23_compiled_equals_eager(compiled, kind: type, options: dict):
    block = kind(8, 2, **(options | {"rotary": Rotary(4)} if "rotary" in options else options))
    fast = compiled(block, fullgraph=True)
    inputs = [x[..., :8] for x in given_to(kind, "plain", "cpu")[0]]
    call = {"mask": padding([3, 5]), "causal": True}
    eager, quick = block(*inputs, **call), fast(*inputs, **call)
    torch.testing.assert_close(quick, eager, rtol=0, atol=1e-6)
    gradients = [torch.autograd.grad(y.square().sum(), list(block.parameters())) for y in (eager, quick)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def test_state_goes_round():
    block, other = (DecoderBlock(8, 2, norm_first=True, rotary=Rotary(4)) for _ in range(2))
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 2, 8)
    assert not torch.equal(block(x, memory), other(x, memory))
    other.load_state_dict(block.state_dict())
    assert torch.equal(block(x, memory), other(x, memory))
    assert {name.split(".")[0] for name in block.state_dict()} == {
        "attention",
        "cross_attention",
        "feed_forward",
        "norm_attention",
        "norm_cross_attention",
        "norm_feed_forward",
    }
