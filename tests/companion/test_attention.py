"""The reference against plain loops, against PyTorch, and against what can be worked out by hand."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from companion import (
    causal,
    merge_heads,
    repeat_kv,
    scaled_dot_product_attention,
    softmax_jacobian,
    split_heads,
    stable_softmax,
)
from tests.companion.helpers import KINDS, case, naive_attention, repeat

quick = settings(max_examples=40, deadline=None)
floats = st.floats(-50, 50, allow_nan=False)


# --- the whole ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "keys"), [(3, 3), (2, 4), (4, 2), (1, 3)], ids=str)
def test_reference_equals_loops_over_plain_numbers(kind: str, length: int, keys: int):
    for groups, empty, scale in ((4, False, None), (2, True, 0.3), (1, False, -1.5)):
        made = case(kind, length, keys, groups, width=3, empty=empty)
        if made is None:
            continue
        out = scaled_dot_product_attention(*made[:3], made.allowed, bias=made.bias, scale=scale)
        for b, h in itertools.product(range(2), range(4)):
            group = h // (4 // groups)
            bias = torch.zeros(length, keys) if made.bias is None else made.bias[0, h]
            output, weights = naive_attention(
                made.query[b, h].tolist(),
                made.key[b, group].tolist(),
                made.value[b, group].tolist(),
                made.allowed[b, h].tolist(),
                bias.tolist(),
                1 / math.sqrt(3) if scale is None else scale,
            )
            torch.testing.assert_close(out.output[b, h], torch.tensor(output, dtype=torch.float64), rtol=0, atol=1e-13)
            torch.testing.assert_close(
                out.weights[b, h], torch.tensor(weights, dtype=torch.float64), rtol=0, atol=1e-13
            )


@pytest.mark.parametrize("kind", KINDS)
def test_reference_in_float64_equals_pytorch(kind: str, device: str):
    for length, keys, groups in ((7, 7, 4), (3, 9, 2), (1, 5, 1), (6, 4, 2)):
        made = case(kind, length, keys, groups, device=device)
        if made is None:
            continue
        full = made.empty.unsqueeze(-1)  # where PyTorch is not defined
        mask = made.allowed | full
        if made.bias is not None:
            mask = made.bias.masked_fill(~mask, -math.inf)
        want = F.scaled_dot_product_attention(made.query, repeat(made.key, 4), repeat(made.value, 4), mask)
        out = scaled_dot_product_attention(*made[:3], made.allowed, bias=made.bias)
        torch.testing.assert_close(out.output, want.masked_fill(full, 0.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_dtypes_of_the_three_results(dtype: torch.dtype, device: str):
    q, k, v = (torch.rand(2, 3, 4, 8, device=device).to(dtype) for _ in range(3))
    out = scaled_dot_product_attention(q, k, v)
    assert (out.output.dtype, out.weights.dtype) == (dtype, dtype)
    assert out.logsumexp.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert {x.device.type for x in out} == {device}


def test_the_three_results_belong_together():
    """Scores, worked out here, give the log-sum-exp, and with it the weights and the output."""
    made = case("dense (B, H, L, S)", 3, 5, 2, empty=True)
    assert made is not None
    out = scaled_dot_product_attention(*made[:3], **made.options)
    scores = torch.einsum("bhld,bhsd->bhls", made.query, repeat(made.key, 4)) / math.sqrt(8)
    scores = scores.masked_fill(~made.allowed, -math.inf)
    torch.testing.assert_close(out.logsumexp, torch.logsumexp(scores, -1))
    assert (out.logsumexp[made.empty] == -math.inf).all()
    torch.testing.assert_close(out.weights.sum(-1), (~made.empty).double())
    torch.testing.assert_close(out.weights[~made.empty], (scores - out.logsumexp.unsqueeze(-1)).exp()[~made.empty])
    torch.testing.assert_close(out.output, out.weights @ repeat(made.value, 4))


def test_a_missing_length_gives_zeros_with_gradients_connected(device: str):
    for lengths in ((0, 3), (3, 0), (0, 0)):
        q = torch.rand(2, lengths[0], 4, device=device, requires_grad=True)
        k, v = (torch.rand(2, lengths[1], 4, device=device, requires_grad=True) for _ in range(2))
        out = scaled_dot_product_attention(q, k, v, causal())
        assert out.output.shape == (2, lengths[0], 4)
        assert out.weights.shape == (2, *lengths)
        assert (out.output == 0).all()
        assert (out.logsumexp == -math.inf).all()
        (out.output.sum() + out.weights.sum()).backward()
        assert all(x.grad is not None and (x.grad == 0).all() for x in (q, k, v))


def test_dropout_is_not_in_the_weights():
    q, v = torch.zeros(200, 4), torch.ones(4, 1)
    out = scaled_dot_product_attention(q, torch.zeros(4, 4), v, dropout_p=0.5)
    assert (out.weights == 0.25).all()
    assert set(out.output.flatten().tolist()) == {0.0, 0.5, 1.0, 1.5, 2.0}  # weights are 0 or .5
    assert (scaled_dot_product_attention(q, torch.zeros(4, 4), v, dropout_p=1.0).output == 0).all()


def test_weights_and_logsumexp_of_a_query_that_sees_nan_are_nan():
    q = k = torch.zeros(3, 2)
    v = torch.ones(3, 1)
    v[2] = math.nan
    out = scaled_dot_product_attention(q, k, v, causal())
    for x in (out.output, out.weights, out.logsumexp):
        assert x[2].isnan().all()
        assert x[:2].isfinite().all()


@pytest.mark.parametrize("kind", ["none", "padding & causal()", "dense (B, H, L, S)", "bias and mask"])
def test_gradients_of_all_results_and_their_gradients(kind: str):
    for length, keys, groups, empty in ((2, 3, 1, False), (3, 2, 2, True), (2, 2, 2, True)):
        made = case(kind, length, keys, groups, heads=2, batch=1, width=2, empty=empty)
        if made is None:
            continue
        inputs = [x.clone().requires_grad_() for x in made[:3]]
        if made.bias is not None:
            inputs.append(made.bias.clone().requires_grad_())

        def run(*given, made=made):
            bias = {"bias": given[3]} if len(given) > 3 else {}
            out = scaled_dot_product_attention(*given[:3], **(made.options | bias))
            return out.output, out.weights, out.logsumexp[~made.empty]

        assert torch.autograd.gradcheck(run, inputs)
        assert torch.autograd.gradgradcheck(run, inputs)


def test_gradient_of_the_logsumexp_of_an_empty_row_is_zero():
    q = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True], [False, False]])
    lse = scaled_dot_product_attention(q, q.detach(), q.detach(), mask).logsumexp
    lse.masked_fill(lse == -math.inf, 0).sum().backward()
    assert q.grad[0].abs().max() > 0
    assert (q.grad[1] == 0).all()


def test_autocast_does_not_lower_the_reference():
    q, k, v = (torch.rand(2, 5, 16) for _ in range(3))
    want = scaled_dot_product_attention(q.double(), k.double(), v.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = scaled_dot_product_attention(q, k, v)
    for x, exact in zip(out, want, strict=True):
        assert x.dtype == torch.float32
        torch.testing.assert_close(x.double(), exact, rtol=0, atol=2e-6)


def test_it_runs_where_there_are_no_numbers():
    q = torch.empty(2, 4, 3, 8, device="meta")
    out = scaled_dot_product_attention(q, q[:, :2], q[:, :2], causal())
    assert out.weights.shape == (2, 4, 3, 3)
    assert out.output.device.type == "meta"


# --- properties ---


@quick
@given(st.integers(0, 10_000), st.booleans())
def test_an_unseen_key_has_no_influence(seed: int, grouped: bool):
    made = case("dense (B, H, L, S)", 3, 5, 1 if grouped else 4, width=3, seed=seed)
    assert made is not None
    mask = made.allowed.clone()
    mask[..., 2] = False
    inputs = [x.clone().requires_grad_() for x in made[:3]]
    output = scaled_dot_product_attention(*inputs, mask).output
    output.square().sum().backward()
    assert (inputs[1].grad[:, :, 2] == 0).all()
    assert (inputs[2].grad[:, :, 2] == 0).all()
    key, value = made.key.clone(), made.value.clone()
    key[:, :, 2], value[:, :, 2] = 1e4, -1e4
    torch.testing.assert_close(scaled_dot_product_attention(made.query, key, value, mask).output, output)


@quick
@given(st.integers(0, 10_000), st.permutations(range(5)), st.permutations(range(3)))
def test_permutations(seed: int, keys: list[int], queries: list[int]):
    """The order of keys does not matter; outputs follow their queries."""
    made = case("dense (L, S)", 3, 5, 2, seed=seed)
    assert made is not None
    mask = made.options["mask"]
    output = scaled_dot_product_attention(*made[:3], mask).output
    moved = scaled_dot_product_attention(
        made.query[:, :, queries], made.key[:, :, keys], made.value[:, :, keys], mask[queries][:, keys]
    ).output
    torch.testing.assert_close(moved, output[:, :, queries])


@quick
@given(st.lists(floats, min_size=1, max_size=8), st.floats(-1e3, 1e3))
def test_softmax_ignores_a_shift_and_sums_to_one(scores: list[float], shift: float):
    x = torch.tensor(scores, dtype=torch.float64)
    weights = stable_softmax(x)
    torch.testing.assert_close(stable_softmax(x + shift), weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(weights, torch.softmax(x, -1))
    largest = max(scores)
    total = math.fsum(math.exp(s - largest) for s in scores)
    assert weights.tolist() == pytest.approx([math.exp(s - largest) / total for s in scores])


@quick
@given(st.integers(0, 10_000))
def test_rows_sum_to_one_or_to_zero(seed: int):
    mask = torch.rand(4, 4, generator=torch.Generator().manual_seed(seed)) < 0.4
    x = torch.randn(4, 3, dtype=torch.float64)
    out = scaled_dot_product_attention(x, x, x, mask)
    torch.testing.assert_close(out.weights.sum(-1), mask.any(-1).double())
    assert (out.weights[~mask] == 0).all()


@quick
@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 4), st.integers(0, 2))
def test_merging_undoes_splitting(heads: int, length: int, width: int, lead: int):
    x = torch.randn(*[2] * lead, length, heads * width)
    split = split_heads(x, heads)
    assert split.shape == (*[2] * lead, heads, length, width)
    assert torch.equal(merge_heads(split), x)
    for h in range(heads):
        assert torch.equal(split[..., h, :, :], x[..., h * width : (h + 1) * width])


# --- the parts ---


def test_softmax_by_hand():
    """[1, e] / (1 + e), and friends."""
    assert stable_softmax(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    assert stable_softmax(torch.tensor([[0.0, math.log(3)]]), dim=0).tolist() == [[1, 1]]
    assert stable_softmax(torch.tensor([1e4, 1e4, -1e4])).tolist() == [0.5, 0.5, 0]
    assert stable_softmax(torch.tensor([-math.inf, 3.0])).tolist() == [0, 1]
    assert stable_softmax(torch.full((2, 3), -math.inf)).tolist() == [[0] * 3] * 2
    assert stable_softmax(torch.zeros(2, 0)).shape == (2, 0)
    assert stable_softmax(torch.zeros(0, 2)).shape == (0, 2)
    assert stable_softmax(torch.tensor([[math.nan, 1], [1, 1]])).isnan().tolist() == [[True, True], [False, False]]
    assert stable_softmax(torch.tensor([math.inf, 1])).isnan().all()


@pytest.mark.parametrize("dim", [0, 1, -1, -2, -3])
def test_softmax_along_any_axis(dim: int, device: str):
    x = torch.randn(2, 3, 4, device=device)
    torch.testing.assert_close(stable_softmax(x, dim), torch.softmax(x, dim))


def test_softmax_in_half_precision_is_computed_in_float32():
    x = torch.randn(100, 50).to(torch.bfloat16)
    assert torch.equal(stable_softmax(x), torch.softmax(x.float(), -1).to(torch.bfloat16))


def test_gradient_of_softmax():
    x = torch.randn(3, 4, dtype=torch.float64)
    x[0, 1], x[1] = -math.inf, -math.inf
    x.requires_grad_()
    (stable_softmax(x) * torch.arange(4.0)).sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[1] == 0).all()
    assert x.grad[0, 1] == 0
    y = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(stable_softmax, y)
    assert torch.autograd.gradgradcheck(stable_softmax, y)


def test_jacobian_equals_autograd():
    x = torch.randn(2, 4, dtype=torch.float64)
    x[1, 2] = -math.inf
    jacobian = softmax_jacobian(x)
    for row in range(2):
        want = torch.autograd.functional.jacobian(lambda scores: torch.softmax(scores, -1), x[row])
        torch.testing.assert_close(jacobian[row], want)
    torch.testing.assert_close(jacobian.sum(-1), torch.zeros(2, 4, dtype=torch.float64))
    assert torch.equal(jacobian, jacobian.transpose(-1, -2))
    assert softmax_jacobian(torch.zeros(2, dtype=torch.float16)).tolist() == [[0.25, -0.25], [-0.25, 0.25]]
    assert softmax_jacobian(torch.zeros(3, 0)).shape == (3, 0, 0)


def test_repeat_kv_repeats_each_head_in_place(device: str):
    x = torch.rand(2, 3, 4, 5, device=device)
    repeated = repeat_kv(x, 6)
    assert repeated.shape == (2, 6, 4, 5)
    for head in range(6):
        assert torch.equal(repeated[:, head], x[:, head // 2])
    assert repeat_kv(x, 3) is x
    assert repeat_kv(torch.zeros(2, 0, 5), 4).shape == (4, 0, 5)


def test_gradient_of_a_shared_head_is_the_sum_over_its_group():
    x = torch.rand(2, 3, 4, requires_grad=True)
    factor = torch.arange(1.0, 5.0).view(4, 1, 1)
    (repeat_kv(x, 4) * factor).sum().backward()
    assert torch.equal(x.grad, torch.tensor([3.0, 7.0]).view(2, 1, 1).expand(2, 3, 4))
