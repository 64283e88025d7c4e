import math

import pytest
import torch

from companion.diagnostics import effective_tokens, entropy, saturation


def test_entropy_by_hand():
    rows = torch.tensor([[0.5, 0.5, 0, 0], [0.25] * 4, [1, 0, 0, 0], [0, 0, 0, 0], [0.5, 0.25, 0.25, 0]])
    want = [math.log(2), math.log(4), 0, 0, 1.5 * math.log(2)]
    assert entropy(rows).tolist() == pytest.approx(want)
    assert effective_tokens(rows).tolist() == pytest.approx([2, 4, 1, 1, 2**1.5])
    assert entropy(torch.zeros(3, 0)).tolist() == [0, 0, 0]
    assert entropy(torch.zeros(0, 3)).shape == (0,)
    assert str(entropy(torch.tensor([1.0, 0.0])).item()) == "0.0"  # and not -0.0
    assert entropy(torch.tensor([math.nan, 1.0])).isnan()


def test_entropy_agrees_with_torch(device: str):
    weights = torch.rand(2, 3, 5, device=device).softmax(-1)
    want = torch.distributions.Categorical(probs=weights).entropy()
    torch.testing.assert_close(entropy(weights), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_entropy_of_half_precision_is_computed_in_float32(dtype: torch.dtype):
    weights = torch.full((1, 1000), 1 / 1000).to(dtype)
    assert entropy(weights).dtype == torch.float32
    w = float(weights[0, 0])
    assert entropy(weights).item() == pytest.approx(-1000 * w * math.log(w), rel=1e-4)


def test_gradient_of_entropy_is_finite_at_zero():
    weights = torch.tensor([0.5, 0.5, 0.0], requires_grad=True)
    entropy(weights).backward()
    assert weights.grad[:2].tolist() == pytest.approx([-math.log(0.5) - 1] * 2)
    assert weights.grad.isfinite().all()
    inside = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(entropy, inside)
    assert torch.autograd.gradcheck(effective_tokens, inside)


def test_saturation_counts_rows_that_see_anything(device: str):
    rows = torch.tensor([[0.96, 0.04], [0.95, 0.05], [0.5, 0.5], [0, 0]], device=device)
    assert saturation(rows).item() == pytest.approx(1 / 3)
    assert saturation(rows, 0.4).item() == 1
    assert saturation(rows, 1.0).item() == 0
    assert saturation(torch.zeros(4, 2, device=device)).item() == 0
    assert saturation(torch.zeros(4, 0, device=device)).item() == 0
    assert saturation(torch.zeros(0, 4, device=device)).item() == 0
    half = torch.tensor([[0.96, 0.04], [0.94, 0.06], [0, 0]], dtype=torch.float16, device=device)
    assert saturation(half).item() == 0.5
    assert not saturation(rows.requires_grad_()).requires_grad


def test_saturation_of_nan_is_no_number():
    assert saturation(torch.tensor([[math.nan, 1.0], [0.5, 0.5]])).isnan()
