"""Rollout: against fractions, and against what it says of itself."""

from fractions import Fraction as F

import pytest
import torch
from torch import Tensor

from companion.interpret import rollout


def product(a: list[list[F]], b: list[list[F]]) -> list[list[F]]:
    return [[sum((x * b[k][j] for k, x in enumerate(row)), F(0)) for j in range(len(b[0]))] for row in a]


def mixed(heads: list[list[list[F]]]) -> list[list[F]]:
    """Mean of the heads, and half of itself, in exact numbers."""
    size = len(heads[0])
    return [
        [sum((h[i][j] for h in heads), F(0)) / len(heads) / 2 + (F(1, 2) if i == j else 0) for j in range(size)]
        for i in range(size)
    ]


def tensor(heads: list[list[list[F]]]) -> Tensor:
    return torch.tensor([[[float(x) for x in row] for row in head] for head in heads], dtype=torch.float64)


ONE = [[[F(1), F(0), F(0)], [F(1, 2), F(1, 2), F(0)], [F(1, 3)] * 3], [[F(1), F(0), F(0)]] * 3]
TWO = [[[F(1), F(0), F(0)], [F(0), F(1), F(0)], [F(0), F(1), F(0)]]]


def test_two_layers_in_fractions():
    """Later layers stand on the left: the other order gives other numbers."""
    right, wrong = product(mixed(TWO), mixed(ONE)), product(mixed(ONE), mixed(TWO))
    found = rollout([tensor(ONE)[None], tensor(TWO)[None]])
    assert found.shape == (1, 3, 3)
    torch.testing.assert_close(found[0], tensor([right])[0], rtol=0, atol=1e-15)
    assert (found[0] - tensor([wrong])[0]).abs().max() > 0.01


def random(*shape: int, causal: bool = False) -> Tensor:
    scores = torch.randn(*shape, dtype=torch.float64)
    if causal:
        scores = scores.masked_fill(torch.ones(shape[-2:]).triu(1).bool(), -torch.inf)
    return scores.softmax(-1)


@pytest.mark.parametrize("heads", ["mean", "max", "min"])
@pytest.mark.parametrize("causal", [False, True])
def test_rows_sum_to_one_and_the_future_stays_out(heads: str, causal: bool):
    found = rollout([random(2, 3, 5, 5, causal=causal) for _ in range(4)], heads=heads)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert (found >= 0).all()
    assert (found.triu(1) == 0).all() == causal


def test_max_and_min_by_hand():
    """Rows (1, 0) and (1/2, 1/2): the larger of each is (1, 1/2), in shares 2/3 and 1/3; the smaller is (1/2, 0)."""
    weights = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]]], dtype=torch.float64)
    torch.testing.assert_close(rollout([weights], heads="max")[1], torch.tensor([1 / 3, 2 / 3], dtype=torch.float64))
    torch.testing.assert_close(rollout([weights], heads="min")[1], torch.tensor([0.5, 0.5], dtype=torch.float64))


def test_attention_that_stays_where_it_is_hands_on_the_input():
    eye = torch.eye(4).expand(1, 2, 4, 4)
    assert torch.equal(rollout([eye] * 3), torch.eye(4)[None])


def test_a_query_that_sees_nothing_keeps_to_itself():
    weights = random(1, 2, 3, 3)
    weights[:, :, 1] = 0
    for heads in ("mean", "max", "min"):
        assert torch.equal(rollout([weights], heads=heads)[0, 1], torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))


def test_any_leading_dims_and_a_stacked_tensor():
    layers = torch.stack([random(2, 3, 4, 4) for _ in range(3)])
    want = rollout(list(layers))
    assert torch.equal(rollout(layers), want)
    torch.testing.assert_close(rollout(list(layers[:, 1])), want[1])
    assert rollout([x.half() for x in layers]).dtype == torch.float32


def test_gradients():
    layers = [random(1, 2, 3, 3).requires_grad_() for _ in range(2)]
    assert torch.autograd.gradcheck(lambda *x: rollout(x), layers)
