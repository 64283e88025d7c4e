"""Sparsemax against what can be worked out by hand, and against a search for the nearest shares."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.sparsemax import sparsemax

quick = settings(max_examples=60, deadline=None)
floats = st.floats(-20, 20, allow_nan=False)


def by_bisection(scores: list[float]) -> list[float]:
    """The threshold by halving an interval: another way, without sorting."""
    low, high = min(scores) - 1, max(scores)
    for _ in range(200):
        tau = (low + high) / 2
        if math.fsum(max(s - tau, 0) for s in scores) > 1:
            low = tau
        else:
            high = tau
    return [max(s - low, 0) for s in scores]


def test_by_hand():
    assert sparsemax(torch.tensor([1.0, 0.8, 0.1])).tolist() == pytest.approx([0.6, 0.4, 0])
    assert sparsemax(torch.tensor([0.0, 0.0, 0.0, 0.0])).tolist() == [0.25] * 4
    assert sparsemax(torch.tensor([5.0, 3.0])).tolist() == [1, 0]  # a lead of one point takes all
    assert sparsemax(torch.tensor([0.5, 0.0])).tolist() == [0.75, 0.25]  # under it, half of one plus the lead
    assert sparsemax(torch.tensor([1e4, 1e4, -1e4])).tolist() == [0.5, 0.5, 0]
    assert sparsemax(torch.tensor([[0.0, 9.0]]), dim=0).tolist() == [[1, 1]]
    assert sparsemax(torch.tensor([7.0])).tolist() == [1]


def test_edges():
    assert sparsemax(torch.tensor([-math.inf, 3.0])).tolist() == [0, 1]
    assert sparsemax(torch.full((2, 3), -math.inf)).tolist() == [[0] * 3] * 2
    assert sparsemax(torch.zeros(2, 0)).shape == (2, 0)
    assert sparsemax(torch.zeros(0, 2)).shape == (0, 2)
    assert sparsemax(torch.tensor([[math.nan, 1], [1, 1]])).isnan().tolist() == [[True, True], [False, False]]
    assert sparsemax(torch.tensor([math.inf, 1])).isnan().all()
    half = torch.tensor([1.0, 0.75, 0.0], dtype=torch.float16)
    assert sparsemax(half).dtype is torch.float16
    assert sparsemax(half).tolist() == [0.625, 0.375, 0]


@quick
@given(st.lists(floats, min_size=1, max_size=12), st.floats(-50, 50))
def test_shares_are_the_nearest_and_ignore_a_shift(scores: list[float], shift: float):
    x = torch.tensor(scores, dtype=torch.float64)
    weights = sparsemax(x)
    assert weights.tolist() == pytest.approx(by_bisection(scores), abs=1e-10)
    assert weights.sum().item() == pytest.approx(1)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(sparsemax(x + shift), weights, rtol=0, atol=1e-10)


def test_no_other_shares_lie_nearer():
    x = torch.randn(50, 6, dtype=torch.float64)
    nearest = (sparsemax(x) - x).norm(dim=-1)
    others = torch.distributions.Dirichlet(torch.full((6,), 0.3, dtype=torch.float64)).sample((2000, 50))
    assert bool(((others - x).norm(dim=-1) >= nearest).all())


@pytest.mark.parametrize("dim", [0, 1, -1, -2, -3])
def test_along_any_axis(dim: int, device: str):
    x = torch.randn(2, 3, 4, device=device)
    got = sparsemax(x, dim)
    assert got.shape == x.shape
    torch.testing.assert_close(got.movedim(dim, -1), sparsemax(x.movedim(dim, -1).contiguous()))
    torch.testing.assert_close(got.sum(dim), torch.ones_like(got.sum(dim)))


def test_gradient():
    x = torch.tensor([0.3, -2.0, 0.1, 0.0], dtype=torch.float64)  # three stand, one does not
    jacobian = torch.autograd.functional.jacobian(sparsemax, x)
    stand = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(jacobian, stand.diag() - torch.outer(stand, stand) / 3)
    assert torch.autograd.gradcheck(sparsemax, x.requires_grad_())
    hidden = torch.tensor([[1.0, -math.inf, 0.5], [-math.inf] * 3], dtype=torch.float64, requires_grad=True)
    (sparsemax(hidden) * torch.arange(3.0)).sum().backward()
    assert hidden.grad.isfinite().all()
    assert hidden.grad[:, 1].tolist() == [0, 0]
    assert hidden.grad[1].tolist() == [0, 0, 0]
