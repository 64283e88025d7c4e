"""The filters against numbers by hand, and against a loop over the sorted tokens."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.filters import top_k, top_p

INF = math.inf


def logs(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("k", "want"),
    [
        (1, [-INF, 4.0, -INF, -INF]),
        (2, [-INF, 4.0, 3.0, -INF]),
        (3, [1.0, 4.0, 3.0, -INF]),
        (4, [1.0, 4.0, 3.0, 0.0]),
        (9, [1.0, 4.0, 3.0, 0.0]),  # more than there are
    ],
)
def test_top_k_by_hand(k: int, want: list[float]):
    logits = torch.tensor([1.0, 4.0, 3.0, 0.0])
    assert top_k(logits, k).tolist() == want
    assert logits.tolist() == [1.0, 4.0, 3.0, 0.0]  # not changed in place


@pytest.mark.parametrize(
    ("p", "kept"),
    [(0.0, [1]), (0.3, [1]), (0.49, [1]), (0.51, [1, 2]), (0.79, [1, 2]), (0.81, [1, 2, 0]), (0.96, [0, 1, 2, 3])],
)
def test_top_p_by_hand(p: float, kept: list[int]):
    """Of .15, .5, .3 and .05: the likeliest that make up p together, and as few as can."""
    logits = logs(0.15, 0.5, 0.3, 0.05)
    got = top_p(logits, p)
    assert [i for i in range(4) if got[i] > -INF] == sorted(kept)
    assert all(got[i] == logits[i] for i in kept)
    torch.testing.assert_close(top_p(logits + 100, p), got + 100)  # a shift changes no probability


def test_equals_stay_together():
    assert top_k(torch.tensor([2.0, 1.0, 2.0, 2.0]), 2).tolist() == [2.0, -INF, 2.0, 2.0]
    assert top_k(torch.zeros(3), 1).tolist() == [0, 0, 0]
    assert top_p(torch.zeros(4), 0.25).tolist() == [0, 0, 0, 0]
    assert top_p(logs(0.4, 0.2, 0.2, 0.2), 0.5).exp().tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert top_p(logs(0.3, 0.3, 0.4), 0.4 - 1e-9).exp().tolist() == pytest.approx([0, 0, 0.4])


def test_p_of_one_keeps_what_rounding_would_drop():
    """The likeliest token's probability rounds to 1, and the others' are still there."""
    logits = torch.tensor([0.0, -100.0, -200.0])
    assert torch.equal(top_p(logits, 1.0), logits)
    assert torch.equal(top_p(logits, 1), logits)
    assert top_p(logits, 0.999).tolist() == [0.0, -INF, -INF]


def test_one_token_always_stays():
    for keep in (lambda x: top_k(x, 1), lambda x: top_k(x, 5), lambda x: top_p(x, 0.0), lambda x: top_p(x, 0.5)):
        assert keep(torch.tensor([-3.0])).tolist() == [-3.0]
        assert keep(torch.tensor([[1.0], [2.0]])).tolist() == [[1.0], [2.0]]


def test_tokens_that_are_out_already_stay_out():
    logits = torch.tensor([1.0, -INF, 0.0])
    assert top_k(logits, 3).tolist() == [1.0, -INF, 0.0]
    assert top_p(logits, 0.999).tolist() == [1.0, -INF, 0.0]


@given(
    st.lists(st.integers(-6, 6), min_size=1, max_size=8),
    st.integers(1, 10),
    st.floats(0, 1).filter(lambda p: p < 1),
)
def test_equal_a_loop(numbers: list[int], k: int, p: float):
    """Tokens one by one from the likeliest, with their equals, until there are enough."""
    total = sum(math.exp(x) for x in numbers)
    ordered = sorted(numbers, reverse=True)
    assert top_k(torch.tensor(numbers).double(), k).tolist() == [
        x if x >= ordered[min(k, len(ordered)) - 1] else -INF for x in numbers
    ]
    sums, last = 0.0, ordered[0]
    for x in ordered:
        if abs(sums - p) < 1e-9:
            return  # at the edge rounding decides
        if sums >= p:
            break
        sums, last = sums + math.exp(x) / total, x
    assert top_p(torch.tensor(numbers).double(), p).tolist() == [x if x >= last else -INF for x in numbers]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_rows_are_apart_and_dtypes_kept(dtype: torch.dtype, device: str):
    logits = torch.randn(2, 3, 7, device=device).to(dtype)
    for keep in (lambda x: top_k(x, 2), lambda x: top_p(x, 0.6)):
        whole = keep(logits)
        assert whole.dtype is dtype
        assert whole.shape == logits.shape
        for i in range(2):
            for j in range(3):
                assert torch.equal(whole[i, j], keep(logits[i, j]))
    assert top_k(logits[:0], 2).shape == (0, 3, 7)
    assert top_p(logits[:0], 0.5).shape == (0, 3, 7)


def test_what_stays_shares_the_probability_and_has_gradient():
    logits = logs(0.5, 0.3, 0.2).requires_grad_()
    shares = top_k(logits, 2).softmax(-1)
    assert shares.tolist() == pytest.approx([0.625, 0.375, 0])
    (gradient,) = torch.autograd.grad(shares[0], logits)
    assert gradient.tolist() == pytest.approx([0.625 * 0.375, -0.625 * 0.375, 0])
