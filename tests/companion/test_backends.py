"""Every backend gives the reference's numbers, for every kind of mask and layout of memory."""

import math
import warnings
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from companion import (
    attend,
    available,
    backends,
    causal,
    padding,
    scaled_dot_product_attention,
    sliding_window,
    why_not,
)
from companion.kernels import sdpa
from tests.companion.helpers import BACKENDS_ON_CPU, KINDS, LAYOUTS, PLACES, Case, case, repeat, uniform

BOUNDS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
LENGTHS = ((5, 5), (4, 6), (2, 7), (1, 6), (6, 3), (1, 1))
KERNELS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}

on_every_backend = pytest.mark.parametrize("place", PLACES, indirect=True, ids=lambda place: "-".join(place))


def cases(kind: str, dtype: torch.dtype, device: str) -> list[tuple[str, Case]]:
    """All lengths; all groups and empty rows in one layout, all layouts in one grouping."""
    found = []
    for length, keys in LENGTHS:
        variants = [(groups, "contiguous", empty) for groups in (4, 2, 1) for empty in (False, True)]
        variants += [(2, layout, False) for layout in LAYOUTS[1:]]
        for groups, layout, empty in variants:
            made = case(kind, length, keys, groups, layout=layout, empty=empty, dtype=dtype, device=device)
            if made is not None:
                found.append((f"{kind}, L={length}, S={keys}, G={groups}, {layout}, empty={empty}", made))
    return found


def exact(made: Case) -> Tensor:
    """The reference in float64, on the table that the loops made."""
    query, key, value = (x.double() for x in made[:3])
    return scaled_dot_product_attention(
        query, key, value, made.allowed, bias=None if made.bias is None else made.bias.double()
    ).output


def pytorch(made: Case, backend: str) -> Tensor:
    """PyTorch's own kernel in the same dtype, where it is well defined: no empty row (they see all), heads repeated."""
    mask = made.allowed | made.empty.unsqueeze(-1)
    if made.bias is not None:
        mask = made.bias.masked_fill(made.empty.unsqueeze(-1), 0.0).masked_fill(~mask, -math.inf)
    key, value = (repeat(x, made.query.shape[1]).contiguous() for x in (made.key, made.value))
    with sdpa_kernel(KERNELS[backend]) if backend in KERNELS else nullcontext():
        return F.scaled_dot_product_attention(made.query.contiguous(), key, value, mask)


@on_every_backend
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_backend_equals_the_reference(place: tuple[str, str], dtype: torch.dtype, kind: str):
    """Errors are the largest over all elements of all cases of a kind, ours and PyTorch's alike, over rows that are
    not empty; those are exactly zero in each case."""
    device, backend = place
    ours = theirs = 0.0
    served = 0
    for label, made in cases(kind, dtype, device):
        if device == "cuda" and why_not(backend, *made[:3], **made.options):
            continue
        served += 1
        output = attend(*made[:3], **made.options, backend=backend)
        assert output.dtype == dtype, label
        assert output.device.type == device, label
        assert (output[made.empty] == 0).all(), label
        want, full = exact(made), ~made.empty
        error = (output.double() - want)[full].abs().max().item() if full.any() else 0.0
        assert error <= BOUNDS[dtype], f"{label}: {error:.2e}"
        if full.any():
            ours = max(ours, error)
            theirs = max(theirs, (pytorch(made, backend).double() - want)[full].abs().max().item())
    if not served:
        pytest.skip(f"{backend} serves none of these on {device}")
    assert ours <= 2 * theirs, f"{ours:.2e}, PyTorch {theirs:.2e}"


@on_every_backend
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize(("length", "keys"), [(300, 1100), (600, 600), (600, 300)], ids=str)
def test_lengths_that_a_kernel_cuts_into_blocks(place: tuple[str, str], dtype: torch.dtype, length: int, keys: int):
    """Flash attention on a CPU takes 512 keys at a time."""
    device, backend = place
    g = torch.Generator().manual_seed(1)
    q, k, v = (
        uniform(1, heads, n, 16, generator=g, dtype=dtype).to(device)
        for heads, n in ((2, length), (1, keys), (1, keys))
    )
    position = torch.arange(length, device=device)[:, None] + keys - length
    key = torch.arange(keys, device=device)
    tables = {
        "none": ({}, torch.ones(length, keys, dtype=torch.bool, device=device)),
        "causal": ({"causal": True}, key <= position),
        "window": ({"mask": sliding_window(520)}, (key <= position) & (position - key < 520)),
        "padding": ({"mask": padding([keys - 200])}, (key < keys - 200).expand(length, keys)),
    }
    for label, (given, allowed) in tables.items():
        if why_not(backend, q, k, v, **given) is not None:
            assert device == "cuda"
            continue
        want = scaled_dot_product_attention(q.double(), k.double(), v.double(), allowed).output
        output = attend(q, k, v, **given, backend=backend)
        assert (output.double() - want).abs().max() <= BOUNDS[dtype], label
        if device == "cpu":
            spoilt = v.clone()
            spoilt[0, 0, keys - 1, 0] = math.nan
            sees = allowed[:, keys - 1]
            output = attend(q, k, spoilt, **given, backend=backend)
            assert output[:, :, sees].isnan().all(), label
            assert ((output.double() - want)[:, :, ~sees].abs() <= BOUNDS[dtype]).all(), label


@on_every_backend
def test_float64_is_exact(place: tuple[str, str]):
    device, backend = place
    for kind in KINDS:
        for label, made in cases(kind, torch.float64, device):
            if why_not(backend, *made[:3], **made.options) is None:
                output = attend(*made[:3], **made.options, backend=backend)
                torch.testing.assert_close(output, exact(made), rtol=0, atol=1e-12, msg=label)


def test_all_cpu_backends_are_tested_and_serve_all_of_it():
    """A backend that refused a call, or that no test knew of, would pass unseen."""
    assert [name for name in available("cpu") if name not in ("flex", "triton")] == list(BACKENDS_ON_CPU)
    for kind in KINDS:
        for label, made in cases(kind, torch.float32, "cpu"):
            for backend in BACKENDS_ON_CPU:
                assert why_not(backend, *made[:3], **made.options) is None, (label, backend)


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_cases_has_empty_rows_where_it_should(kind: str):
    with_empty = [label for label, made in cases(kind, torch.float32, "cpu") if made.empty.any()]
    assert bool(with_empty) == (kind not in ("none", "document"))


@on_every_backend
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_float32_bias_keeps_its_digits_beside_half_precision(place: tuple[str, str], dtype: torch.dtype):
    """Differences of 0.1 at -100 are lost when the bias is rounded to half precision: an error of .05."""
    device, backend = place
    q, k, v = (torch.rand(1, 2, 32, 16, device=device).to(dtype) for _ in range(3))
    bias = torch.rand(32, 32, device=device) - 100
    if (reason := why_not(backend, q, k, v, bias=bias)) is not None:
        pytest.skip(reason)
    want = scaled_dot_product_attention(q.double(), k.double(), v.double(), bias=bias.double()).output
    assert (attend(q, k, v, bias=bias, backend=backend).double() - want).abs().max() < BOUNDS[dtype]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_where_a_bias_must_be_rounded_the_row_is_shifted_first(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    """The way CUDA goes, run here: a table on a device that says it is cuda."""
    from companion.call import Call

    q, k, v = (torch.rand(1, 2, 32, 16).to(dtype) for _ in range(3))
    bias = torch.rand(32, 32) - 100_000  # not even in float16's range
    bias[0, 1:] = -math.inf
    bias[1] = -math.inf
    call = Call.of(q, k, v, bias=bias)
    monkeypatch.setattr(Call, "device", torch.device("cuda"))
    plan = sdpa._plan(call)
    assert plan.mask is not None
    assert plan.mask.dtype == dtype
    output = plan.finish(F.scaled_dot_product_attention(plan.query, k, v, plan.mask))
    want = scaled_dot_product_attention(q.double(), k.double(), v.double(), bias=bias.double()).output
    assert (output.double() - want).abs().max() < BOUNDS[dtype]


@on_every_backend
@pytest.mark.parametrize("far", [-1e9, 1e5])
def test_a_bias_beyond_float16_is_a_shift_like_any_other(place: tuple[str, str], far: float):
    device, backend = place
    q, k, v = (torch.rand(1, 1, 3, 8, device=device).half() for _ in range(3))
    bias = torch.full((3, 3), far, device=device)
    want = v.float().mean(-2, keepdim=True).expand(1, 1, 3, 8)
    if why_not(backend, q, k, v, bias=bias) is None:
        output = attend(torch.zeros_like(q), k, v, bias=bias, backend=backend)
        torch.testing.assert_close(output.float(), want, rtol=0, atol=1e-3)


@on_every_backend
def test_a_mask_or_bias_in_any_layout_means_the_same(place: tuple[str, str]):
    device, backend = place
    q, k, v = (torch.rand(2, heads, 5, 8, device=device) for heads in (4, 2, 2))
    coin = torch.rand(2, 4, 5, 10, device=device) < 0.6
    layouts = {
        "transposed": coin[0, 0, :, :5].t(),
        "strided": coin[0, 0, :, ::2],
        "permuted": (torch.rand(5, 4, 2, 5, device=device) < 0.6).permute(2, 1, 0, 3),
        "stride 0": coin[0, 0, 0, 0].expand(2, 4, 5, 5),
    }
    for label, mask in layouts.items():
        for given in ({"mask": mask}, {"bias": mask.float()}):
            if why_not(backend, q, k, v, **given) is None:
                same = attend(q, k, v, **{name: x.contiguous() for name, x in given.items()}, backend=backend)
                torch.testing.assert_close(attend(q, k, v, **given, backend=backend), same, msg=label)
                exact = scaled_dot_product_attention(*(x.double() for x in (q, k, v)), **given).output
                assert (same.double() - exact).abs().max() < 2e-6


@on_every_backend
@pytest.mark.parametrize("scale", [-0.5, 0.0, 2.0])
@pytest.mark.parametrize("kind", ["none", "causal flag", "padding", "bias and causal"])
def test_a_scale_may_be_negative_or_zero(place: tuple[str, str], scale: float, kind: str):
    """PyTorch 2.13's fused kernel on a CPU gives NaN for these beside ``is_causal``."""
    device, backend = place
    made = case(kind, 5, 5, 2, device=device, dtype=torch.float32)
    assert made is not None
    if (reason := why_not(backend, *made[:3], **made.options)) is not None:
        pytest.skip(reason)
    inputs = [x.clone().requires_grad_() for x in made[:3]]
    output = attend(*inputs, **made.options, scale=scale, backend=backend)
    output.square().sum().backward()
    exactly = [x.detach().double().requires_grad_() for x in inputs]
    bias = None if made.bias is None else made.bias.double()
    want = scaled_dot_product_attention(*exactly, made.allowed, bias=bias, scale=scale).output
    want.square().sum().backward()
    assert (output.double() - want).abs().max() <= 2e-6
    for one, two in zip(inputs, exactly, strict=True):
        torch.testing.assert_close(one.grad.double(), two.grad, rtol=1e-5, atol=1e-5)


def test_one_feature_in_a_transposed_tensor():
    """Contiguous by its shape, and yet its last stride is not 1, which the fused kernels refuse."""
    x = torch.rand(1, 1, 1, 5).transpose(-1, -2)
    for backend in ("auto", *BACKENDS_ON_CPU):
        torch.testing.assert_close(attend(x, x, x, backend=backend), exact_of(x))


def exact_of(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x).output


# --- gradients ---

GRADIENT_KINDS = (
    "none",
    "causal flag",
    "padding",
    "sliding window",
    "dense (B, H, L, S)",
    "bias and mask",
    "bias and causal",
    "mask and causal",
)


@pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])
@pytest.mark.parametrize("kind", GRADIENT_KINDS)
@pytest.mark.parametrize(("length", "keys"), [(2, 2), (2, 3), (1, 4), (3, 2)], ids=str)
def test_gradients_are_right(backend: str, kind: str, length: int, keys: int):
    for groups, empty in ((2, False), (1, True)):
        made = case(kind, length, keys, groups, heads=2, width=2, empty=empty)
        if made is None:
            continue
        inputs = [x.clone().requires_grad_() for x in made[:3]]
        options = dict(made.options)
        if made.bias is not None and backend != "flash":
            inputs.append(made.bias.clone().requires_grad_())

        def run(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, options=options) -> Tensor:
            options = options | ({} if bias is None else {"bias": bias})
            return attend(q, k, v, **options, backend=backend)

        assert torch.autograd.gradcheck(run, inputs)


@on_every_backend
@pytest.mark.parametrize("dtype", [torch.float64, *BOUNDS], ids=str)
@pytest.mark.parametrize(
    "kind",
    ["causal flag", "padding", "dense (L, S)", "dense (B, H, L, S)", "bias", "bias and mask", "padding & causal()"],
)
def test_an_empty_row_gives_and_takes_no_gradient(place: tuple[str, str], dtype: torch.dtype, kind: str):
    """Keys and values get what they would get were the empty queries not there: what their output is multiplied by in
    the loss, which is large here, changes nothing."""
    device, backend = place
    made = case(kind, 5 if kind == "causal flag" else 3, 3, 2, empty=True, dtype=dtype, device=device)
    assert made is not None
    if (reason := why_not(backend, *made[:3], **made.options)) is not None:
        pytest.skip(reason)
    grads = []
    for factor in (0.0, 1e3):
        q, k, v = (x.clone().requires_grad_() for x in made[:3])
        output = attend(q, k, v, **made.options, backend=backend)
        assert (output[made.empty] == 0).all()
        (output * torch.where(made.empty, factor, 1.0).unsqueeze(-1).to(dtype)).sum().backward()
        grads.append([x.grad for x in (q, k, v)])
        assert (q.grad[made.empty] == 0).all()
        assert all(x.isfinite().all() for x in grads[-1])
    for one, two in zip(*grads, strict=True):
        assert torch.equal(one, two)


@on_every_backend
def test_an_empty_row_stays_empty_whatever_its_bias_says(place: tuple[str, str]):
    device, backend = place
    allowed = torch.tensor([[True, True], [False, False]], device=device)
    for bad in (math.nan, math.inf, -math.inf):
        q, k, v = (torch.rand(1, 1, 2, 8, device=device, requires_grad=True) for _ in range(3))
        bias = torch.tensor([[0.0, 1.0], [bad, bad]], device=device)
        if why_not(backend, q, k, v, allowed, bias=bias) is not None:
            continue
        output = attend(q, k, v, allowed, bias=bias, backend=backend)
        output.sum().backward()
        assert (output[..., 1, :] == 0).all()
        for x in (q, k, v):
            assert x.grad.isfinite().all(), bad


@pytest.mark.parametrize("backend", ["auto", "math", "reference"])
def test_the_gradient_of_a_shared_bias_is_summed_over_what_shares_it(backend: str):
    q, k, v = (torch.rand(2, 4, 3, 8, dtype=torch.float64) for _ in range(3))
    full = torch.zeros(2, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    shared = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    for bias in (full, shared):
        attend(q, k, v, bias=bias, causal=True, backend=backend).square().sum().backward()
    torch.testing.assert_close(shared.grad, full.grad.sum((0, 1)))
    assert (shared.grad.triu(1) == 0).all()
    assert shared.grad.abs().max() > 1e-3


# --- nothing, and things that are not numbers ---


@on_every_backend
@pytest.mark.parametrize(
    "sizes",
    [(1, 2, 2, 3, 0, 4, 4), (1, 2, 1, 0, 3, 4, 4), (0, 2, 2, 3, 3, 4, 4), (1, 2, 2, 3, 3, 4, 0), (0, 4, 2, 0, 0, 4, 4)],
    ids=["S=0", "L=0", "B=0", "E=0", "all"],
)
@pytest.mark.parametrize("options", ["none", "causal", "mask", "Mask", "bias"])
def test_empty_inputs(place: tuple[str, str], sizes: tuple[int, ...], options: str):
    device, backend = place
    B, H, G, L, S, D, E = sizes
    q, k, v = (torch.rand(*s, device=device, requires_grad=True) for s in ((B, H, L, D), (B, G, S, D), (B, G, S, E)))
    given = {
        "none": {},
        "causal": {"causal": True},
        "mask": {"mask": torch.ones(L, S, dtype=torch.bool, device=device)},
        "Mask": {"mask": causal() | causal(1)},
        "bias": {"bias": torch.zeros(H, L, S, device=device)[None]},
    }[options]
    if backend == "flash" and E != D and device == "cpu":
        with pytest.raises(ValueError, match="values as wide as the keys"):
            attend(q, k, v, **given, backend=backend)
        return
    output = attend(q, k, v, **given, backend=backend)
    assert output.shape == (B, H, L, E)
    assert (output == 0).all()
    output.sum().backward()
    for x in (q, k, v):
        assert x.grad is not None
        assert (x.grad == 0).all()


def test_no_queries_with_five_dims_and_a_mask():
    """A mask of 5 dims is folded by expanding it, which failed for S = 0."""
    q, kv = torch.rand(2, 3, 2, 3, 4), torch.rand(2, 3, 2, 0, 4)
    mask = torch.ones(2, 1, 1, 1, 0, dtype=torch.bool)
    assert torch.equal(attend(q, kv, kv, mask), torch.zeros(2, 3, 2, 3, 4))


POISON_KINDS = (
    "causal flag",
    "causal()",
    "padding",
    "padding table",
    "sliding window",
    "document",
    "dense (L, S)",
    "dense (B, 1, 1, S)",
    "dense (B, H, L, S)",
    "bias and mask",
    "mask and causal",
    "padding & causal()",
)


def poisoned(made: Case, where: str, bad: float, batch: int, group: int, position: int) -> tuple[Case, Tensor]:
    """Spoil one number of a key or value; return who may see it, by the loops' table, ``(B, H, L)``."""
    spoilt = getattr(made, where).clone()
    spoilt[batch, group, position, 1] = bad
    share = made.query.shape[1] // spoilt.shape[1]
    sees = torch.zeros_like(made.empty)
    for head in range(group * share, (group + 1) * share):
        sees[batch, head] = made.allowed[batch, head, :, position]
    return made._replace(**{where: spoilt}), sees


@pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])
@pytest.mark.parametrize("kind", POISON_KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_hidden_nan_or_inf_reaches_no_query_and_a_seen_one_makes_nan(backend: str, kind: str, dtype: torch.dtype):
    hidden = seen = 0
    for length, keys, groups in ((4, 4, 2), (3, 6, 1), (2, 6, 4), (6, 3, 2)):
        made = case(kind, length, keys, groups, dtype=dtype)
        if made is None:
            continue
        clean = attend(*made[:3], **made.options, backend=backend)
        for where in ("key", "value"):
            for bad in (math.nan, math.inf, -math.inf):
                for position in (0, keys - 1):
                    spoilt, sees = poisoned(made, where, bad, 0, groups - 1, position)
                    output = attend(*spoilt[:3], **made.options, backend=backend)
                    label = f"{where} {position} is {bad}, L={length}, S={keys}"
                    assert output[sees].isnan().all(), label
                    torch.testing.assert_close(output[~sees], clean[~sees], rtol=0, atol=BOUNDS[dtype], msg=label)
                    hidden, seen = hidden + int((~sees).sum()), seen + int(sees.sum())
    assert hidden > 0
    assert seen > 0


@pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])
def test_a_hidden_nan_reaches_no_gradient(backend: str):
    made = case("padding & causal()", 4, 4, 2, dtype=torch.float64)
    assert made is not None
    grads = []
    for bad in (0.5, math.nan):
        q, k, v = (x.clone() for x in made[:3])
        k[0, :, 3], v[0, :, 3] = bad, bad  # behind the length of entry 0: nobody sees it
        inputs = [x.requires_grad_() for x in (q, k, v)]
        attend(*inputs, **made.options, backend=backend).square().sum().backward()
        grads.append([x.grad for x in inputs])
    for clean, spoilt in zip(*grads, strict=True):
        torch.testing.assert_close(spoilt, clean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_query_spoils_itself_alone_and_an_empty_one_stays_zero(backend: str, bad: float):
    q, k, v = (torch.rand(1, 1, 3, 4) for _ in range(3))
    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    clean = attend(q, k, v, mask, backend=backend)
    q[0, 0, 0, 0] = q[0, 0, 2, 3] = bad
    output = attend(q, k, v, mask, backend=backend)
    assert output[0, 0, 0].isnan().all()
    torch.testing.assert_close(output[0, 0, 1], clean[0, 0, 1], rtol=0, atol=1e-6)
    assert (output[0, 0, 2] == 0).all()


@pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])
def test_large_finite_values_are_no_poison(backend: str):
    """Their sum overflows, which is how the guard looks for NaN: a false alarm must change nothing."""
    value = torch.full((1, 1, 4, 2), 3e38)
    zeros = torch.zeros(1, 1, 4, 2)
    output = attend(zeros, zeros, value / 4, causal=True, backend=backend)
    torch.testing.assert_close(output, value / 4)
    half = torch.full((1, 1, 4, 2), 6e4, dtype=torch.float16)
    torch.testing.assert_close(attend(zeros.half(), zeros.half(), half, backend=backend), half)


@pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])
def test_infinities_of_both_signs_do_not_cancel_in_the_guard(backend: str):
    zeros = torch.zeros(1, 1, 3, 2)
    value = torch.ones(1, 1, 3, 2)
    value[0, 0, 2] = torch.tensor([math.inf, -math.inf])
    output = attend(zeros, zeros, value, causal=True, backend=backend)
    assert output[0, 0, 2].isnan().all()
    assert torch.equal(output[0, 0, :2], torch.ones(2, 2))


@on_every_backend
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_bias_spoils_the_rows_that_may_see_it(place: tuple[str, str], bad: float):
    device, backend = place
    q, k, v = (torch.rand(1, 1, 3, 8, device=device) for _ in range(3))
    bias = torch.zeros(3, 3, device=device)
    bias[1, 0] = bias[0, 2] = bad  # the second is behind the causal mask
    if why_not(backend, q, k, v, bias=bias, causal=True) is not None:
        return
    output = attend(q, k, v, bias=bias, causal=True, backend=backend)
    assert output[0, 0, 1].isnan().all()
    torch.testing.assert_close(output[0, 0, 0], v[0, 0, 0])
    assert output[0, 0, 2].isfinite().all()


# --- dropout ---


@on_every_backend
def test_dropout_drops_weights_and_keeps_the_mean(place: tuple[str, str]):
    """With one key a head each output is 0 or v / (1 - p); the mean of many is v."""
    device, backend = place
    q = k = torch.zeros(1, 1, 1, 8, device=device)
    q = q.expand(1, 1, 4000, 8)
    v = torch.ones(1, 1, 1, 8, device=device)
    if (reason := why_not(backend, q, k, v, dropout_p=0.25)) is not None:
        assert "dropout" in reason
        with pytest.raises(ValueError, match="dropout"):
            attend(q, k, v, dropout_p=0.25, backend=backend)
        return
    output = attend(q, k, v, dropout_p=0.25, backend=backend)[..., 0]
    assert sorted(output.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    assert output.mean().item() == pytest.approx(1.0, abs=0.05)
    assert (attend(q, k, v, dropout_p=1.0, backend=backend) == 0).all()
    assert torch.equal(attend(q, k, v, dropout_p=0.0, backend=backend), v.expand(1, 1, 4000, 8))


# --- the registry ---


def test_why_not_says_why():
    q = torch.rand(1, 2, 3, 4)
    bias = torch.zeros(3, 3, requires_grad=True)
    assert why_not("reference", q, q, q) is None
    assert why_not("auto") is None
    assert why_not("auto", q, q, q, causal=True) is None
    assert "NVIDIA" in why_not("efficient")
    assert "NVIDIA" in why_not("cudnn", q, q, q)
    assert "values as wide" in why_not("flash", q, q, q[..., :2])
    assert "gradient" in why_not("flash", q, q, q, bias=bias)
    assert why_not("flash", q, q, q, bias=bias.detach()) is None
    assert "CUDA and the CPU" in why_not("flash", device="meta")
    assert "CUDA only" in why_not("efficient", device="meta")
    if not torch.cuda.is_available():
        assert "finds none" in why_not("flash", device="cuda")
    with pytest.raises(ValueError, match=r"'cudnn' cannot serve this call: cudnn runs on NVIDIA GPUs only, not on cpu"):
        attend(q, q, q, backend="cudnn")


def test_on_cuda_pytorch_is_asked_about_what_it_would_get(monkeypatch: pytest.MonkeyPatch):
    """Run here with its answer made up: a decoding step needs no mask, a NaN-proof table has its full shape."""
    from companion.call import Call

    asked = []

    def answer(parameters, debug: bool) -> bool:
        asked.append(parameters)
        if debug:
            warnings.warn("Too wide. (Triggered internally at somewhere.cpp:1)", stacklevel=1)
            warnings.warn("Too long.", stacklevel=1)
        return False

    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", answer)
    kv = torch.rand(1, 2, 7, 8)
    for length, given, mask, is_causal in (
        (1, {"causal": True}, None, False),
        (7, {"mask": causal()}, None, True),
        (5, {"causal": True}, None, True),
        (3, {"causal": True}, (1, 4, 3, 7), False),
        (7, {"mask": causal(), "bias": torch.zeros(7, 7)}, (1, 4, 7, 7), False),
    ):
        asked.clear()
        call = Call.of(torch.rand(1, 4, length, 8), kv, kv, **given)
        assert sdpa._cuda_refuses("flash", call) == "Too wide. Too long."
        assert asked[0].is_causal == is_causal
        assert (None if asked[0].attn_mask is None else tuple(asked[0].attn_mask.shape)) == mask
    assert sdpa._cuda_refuses("flash", Call.of(torch.rand(1, 4, 0, 8), kv, kv)) is None
    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", lambda parameters, debug: not debug)
    assert sdpa._cuda_refuses("flash", call) is None
    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", lambda parameters, debug: False)
    assert "does not say why" in sdpa._cuda_refuses("flash", call)


def test_a_registered_backend_is_called_with_a_checked_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backends, "_REGISTRY", dict(backends._REGISTRY))
    calls = []

    def run(call):
        calls.append(call)
        return call.value[:, :1].expand(-1, call.num_heads, -1, -1)[:, :, : call.lengths[0]] * 2

    backends.register("twice", run, lambda device, call: "no bias, please" if call and call.bias is not None else None)
    assert "twice" in available()
    x = torch.ones(3, 4)
    assert torch.equal(attend(x, x, x, causal=True, backend="twice"), 2 * x)
    assert calls[0].query.shape == (1, 1, 3, 4)
    assert calls[0].causal
    with pytest.raises(ValueError, match="'twice' cannot serve this call: no bias, please"):
        attend(x, x, x, bias=torch.zeros(3, 3), backend="twice")


def test_auto_makes_no_table_where_a_flag_will_do(monkeypatch: pytest.MonkeyPatch):
    """Causal calls reach the kernel without a mask, at every relation of lengths but the thin one."""
    seen = []
    monkeypatch.setattr(
        sdpa.F, "scaled_dot_product_attention", lambda q, k, v, mask, *rest, **named: seen.append(mask) or q
    )
    for length, keys in ((5, 5), (1, 9), (3, 5), (7, 4)):
        q, kv = torch.rand(1, 1, length, 4), torch.rand(1, 1, keys, 4)
        attend(q, kv, kv, causal=True)
        attend(q, kv, kv, causal())
    assert seen == [None] * 8


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_leading_dims_come_back(rank: int):
    lead = (3, 2, 2)[3 - (rank - 2) :] if rank > 2 else ()
    q, k = torch.rand(*lead, 3, 4), torch.rand(*lead, 5, 4)
    for backend in ("auto", *BACKENDS_ON_CPU):
        output = attend(q, k, k, causal=True, backend=backend)
        assert output.shape == (*lead, 3, 4)
        one = attend(q[(0,) * len(lead)], k[(0,) * len(lead)], k[(0,) * len(lead)], causal=True, backend="reference")
        torch.testing.assert_close(output[(0,) * len(lead)], one)


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (2, 1, 1, 1, 5), (1, 2, 1, 3, 5), (1, 1, 2, 1, 5), (2, 2, 2, 3, 5)])
def test_a_mask_of_five_dims_means_what_its_dense_form_means(shape: tuple[int, ...]):
    q, k = torch.rand(2, 2, 2, 3, 4), torch.rand(2, 2, 2, 5, 4)
    mask = torch.rand(shape) < 0.5
    full = mask.expand(2, 2, 2, 3, 5)
    for b in range(2):
        for m in range(2):
            one = attend(q[b, m], k[b, m], k[b, m], full[b, m][None].expand(1, 2, 3, 5)[0])
            torch.testing.assert_close(attend(q, k, k, mask)[b, m], one)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_attention_can_be_mapped():
    """``torch.func.vmap`` cannot read a number, which the guard against NaN wants to."""
    q = torch.rand(3, 2, 4)
    mapped = torch.func.vmap(lambda x: attend(x, x, x, causal=True))(q)
    torch.testing.assert_close(mapped, attend(q, q, q, causal=True))


# --- compiled ---


@pytest.mark.slow
def test_compiled_equals_eager_and_keeps_nan_out(compiled):
    def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return (
            attend(q, k, v),
            attend(q, k, v, mask),
            attend(q, k, v, causal()),
            attend(q, k, v, mask, bias=q[..., :1] * k[:, :1, :, 0].unsqueeze(-2), causal=True),
        )

    fast = compiled(run, fullgraph=True, dynamic=True)
    for length, keys, spoil in ((3, 5, False), (3, 5, True), (6, 6, True)):
        q, k, v = (torch.rand(2, heads, n, 8) for heads, n in ((4, length), (2, keys), (2, keys)))
        mask = torch.rand(2, 1, length, keys) < 0.6
        mask[0, :, 0] = False
        if spoil:
            k[0, :, 4], v[1, :, 2] = math.nan, math.inf
        eager, quick = run(q, k, v, mask), fast(q, k, v, mask)
        for one, two in zip(eager, quick, strict=True):
            torch.testing.assert_close(two, one, rtol=0, atol=2e-6, equal_nan=True)
        assert spoil == eager[2].isnan().any()
        assert eager[1].isfinite().any()
