"""Softmax in one pass and the merging of parts: equal to softmax over the whole."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from companion import stable_softmax
from companion.online import OnlineSoftmax, merge_partials, online_softmax
from tests.companion.helpers import uniform

Pair = tuple[Tensor, Tensor]


def parts(scores: Tensor, values: Tensor, sizes: list[int]) -> list[Pair]:
    """Output and log-sum-exp of each part of the keys, by PyTorch's softmax; zeros for a row that sees nothing."""
    found = []
    for s, v in zip(scores.split(sizes, -1), values.split(sizes, -2), strict=True):
        found.append((s.softmax(-1).nan_to_num(0.0) @ v, s.logsumexp(-1)))
    return found


def some_scores(*shape: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    scores = uniform(*shape, generator=g) * 30
    return scores.masked_fill(torch.rand(shape, generator=g) < 0.3, -math.inf)


# --- online_softmax ---


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    data=st.data(),
    chunk_size=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_online_softmax_equals_softmax(shape: list[int], data: st.DataObject, chunk_size: int, seed: int):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = some_scores(*shape, seed=seed).requires_grad_()
    got = online_softmax(x, dim, chunk_size=chunk_size)
    torch.testing.assert_close(got, x.softmax(dim).nan_to_num(0.0), rtol=0, atol=1e-14)
    (grad,) = torch.autograd.grad(got, x, torch.ones_like(got).cumsum(dim))
    (want,) = torch.autograd.grad(stable_softmax(x, dim), x, torch.ones_like(got).cumsum(dim))
    torch.testing.assert_close(grad, want, rtol=0, atol=1e-12)
    assert not grad.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_online_softmax_keeps_the_dtype_and_loses_no_more_than_softmax(dtype: torch.dtype):
    x = (some_scores(5, 40) / 3).to(dtype)
    got, want = online_softmax(x, chunk_size=7), x.double().softmax(-1)
    assert got.dtype == dtype
    assert (got.double() - want).abs().max() <= (stable_softmax(x).double() - want).abs().max() + 1e-7


def test_online_softmax_at_the_ends_of_the_range():
    x = torch.tensor([[1e38, 1e38, -1e38], [-1e38, -1e38, -math.inf], [-math.inf] * 3])
    for chunk_size in (1, 2, 3):
        got = online_softmax(x, chunk_size=chunk_size)
        torch.testing.assert_close(got, torch.tensor([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]]))
    assert online_softmax(torch.tensor([0.0, math.nan, 1.0]), chunk_size=1).isnan().all()
    for shape in ((0,), (3, 0), (0, 3)):
        assert online_softmax(torch.zeros(shape)).shape == shape


# --- OnlineSoftmax ---


@settings(deadline=None, max_examples=60)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_steps_of_any_size_lead_to_the_same_end(sizes: list[int], seed: int):
    scores = some_scores(2, 3, sum(sizes), seed=seed)
    values = uniform(2, sum(sizes), 4, generator=torch.Generator().manual_seed(seed))
    state = OnlineSoftmax.start((2, 3), 4, dtype=torch.float64)
    for s, v in zip(scores.split(sizes, -1), values.split(sizes, -2), strict=True):
        state = state.update(s, v)
    output, logsumexp = state.finish()
    torch.testing.assert_close(output, scores.softmax(-1).nan_to_num(0.0) @ values, rtol=0, atol=1e-13)
    torch.testing.assert_close(logsumexp, scores.logsumexp(-1), rtol=0, atol=1e-13)


def test_a_step_is_what_a_hand_works_out():
    state = OnlineSoftmax.start((1,), 1)
    assert (state.maximum, state.total, state.output) == (-math.inf, 0, 0)
    state = state.update(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0], [3.0]]))
    assert (state.maximum, state.total, state.output) == (0, 2, 4)
    later = state.update(torch.tensor([[math.log(2.0)]]), torch.tensor([[8.0]]))
    torch.testing.assert_close(later.maximum, torch.tensor([math.log(2.0)]))
    torch.testing.assert_close(later.total, torch.tensor([2.0]))  # 2 halved, and 1
    torch.testing.assert_close(later.output, torch.tensor([[10.0]]))  # 4 halved, and 8
    assert state.total == 2, "the old state has changed"
    assert later.finish()[0].item() == pytest.approx(5)
    nothing = OnlineSoftmax.start((1,), 1).update(torch.tensor([[-math.inf]]), torch.tensor([[7.0]])).finish()
    assert nothing == (0, -math.inf)


def test_steps_have_the_gradient_of_the_whole():
    scores, values = some_scores(3, 6).requires_grad_(), torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    scores.data[1] = -math.inf

    def whole(s: Tensor, v: Tensor) -> Pair:
        state = OnlineSoftmax.start((3,), 2, dtype=torch.float64)
        for at in (slice(0, 1), slice(1, 4), slice(4, 6)):
            state = state.update(s[:, at], v[at])
        output, logsumexp = state.finish()
        return output, logsumexp.masked_fill(logsumexp == -math.inf, 0.0)

    assert torch.autograd.gradcheck(whole, (scores, values))
    grad = torch.autograd.grad(sum(x.sum() for x in whole(scores, values)), scores)[0]
    assert (grad[1] == 0).all()


# --- merge_partials ---


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    order=st.randoms(),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_parts_merge_to_the_whole_in_any_order_and_any_grouping(
    sizes: list[int], order: object, seed: int, data: st.DataObject
):
    scores = some_scores(2, 3, sum(sizes), seed=seed)
    values = uniform(2, sum(sizes), 4, generator=torch.Generator().manual_seed(seed))
    pairs = parts(scores, values, sizes)
    order.shuffle(pairs)  # type: ignore[attr-defined]
    cut = data.draw(st.integers(1, len(pairs)))
    once = merge_partials(pairs)
    twice = merge_partials([merge_partials(pairs[:cut]), *pairs[cut:]])
    for output, logsumexp in (once, twice):
        torch.testing.assert_close(output, scores.softmax(-1).nan_to_num(0.0) @ values, rtol=0, atol=1e-13)
        torch.testing.assert_close(logsumexp, scores.logsumexp(-1), rtol=0, atol=1e-13)


def test_merging_has_the_gradient_of_the_whole():
    outputs = torch.rand(3, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    ends = torch.randn(3, 2, 4, dtype=torch.float64)
    ends[0, 0, 1] = -math.inf  # nothing in one part
    ends[:, 1, 2] = -math.inf  # in none
    ends.requires_grad_()

    def merged(o: Tensor, e: Tensor) -> Pair:
        output, logsumexp = merge_partials(list(zip(o, e, strict=True)))
        return output, logsumexp.masked_fill(logsumexp == -math.inf, 0.0)

    seen = ends.isfinite()
    found = torch.autograd.grad([x.sum() for x in merged(outputs, ends)], (outputs, ends))
    assert all(x.isfinite().all() for x in found)
    assert (found[0][~seen] == 0).all()
    assert (found[1][~seen] == 0).all()
    torch.testing.assert_close(found[0].sum((0, -1))[seen.any(0)], torch.full((7,), 5.0, dtype=torch.float64))

    def of_the_seen(o: Tensor, e: Tensor) -> Pair:  # a step from minus infinity cannot be taken
        return merged(o, torch.full_like(ends, -math.inf).masked_scatter(seen, e))

    assert torch.autograd.gradcheck(of_the_seen, (outputs, ends.detach()[seen].requires_grad_()))


def test_a_part_that_sees_nothing_is_not_looked_at():
    """Fused kernels leave NaN there."""
    one = (torch.tensor([[2.0]]), torch.tensor([1.0]))
    none = (torch.tensor([[math.nan]]), torch.tensor([-math.inf]))
    assert merge_partials([one, none]) == one
    assert merge_partials([none, one]) == one
    assert merge_partials([none, none]) == (0, -math.inf)


def test_merging_far_apart_parts_neither_overflows_nor_vanishes():
    far = [(torch.tensor([[float(i)]]), torch.tensor([end])) for i, end in enumerate((-1e30, 1e30, 1e30, 0.0))]
    output, logsumexp = merge_partials(far)
    assert output.item() == 1.5
    assert logsumexp.item() == pytest.approx(1e30)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_merged_in_float32(dtype: torch.dtype):
    g = torch.Generator().manual_seed(0)
    pairs = [(uniform(3, 4, generator=g, dtype=dtype), uniform(3, generator=g, dtype=torch.float32)) for _ in range(8)]
    output, logsumexp = merge_partials(pairs)
    want = merge_partials([(o.double(), e.double()) for o, e in pairs])
    assert (output.dtype, logsumexp.dtype) == (dtype, torch.float32)
    torch.testing.assert_close(output, want[0].to(dtype), rtol=0, atol=torch.finfo(dtype).eps)
    torch.testing.assert_close(logsumexp.double(), want[1], rtol=0, atol=1e-6)
