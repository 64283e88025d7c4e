"""Norms against loops and PyTorch's."""

import math

import pytest
import torch
from torch import nn

from companion.norms import RMSNorm, make_norm

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def twins(width: int, eps: float, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[nn.Module]:
    ours, theirs = RMSNorm(width, eps), nn.RMSNorm(width, eps)
    weight = torch.rand(width) * 2 - 0.5
    for module in (ours, theirs):
        with torch.no_grad():
            module.weight.copy_(weight)
    return [module.to(device, dtype) for module in (ours, theirs)]


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (0, 8), (2, 0, 8)], ids=str)
@pytest.mark.parametrize("eps", [1e-6, 1e-5, 0.1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rms_equals_pytorchs(shape: tuple[int, ...], eps: float, dtype: torch.dtype, device: str):
    ours, theirs = twins(8, eps, device, dtype)
    x = (torch.randn(shape) * 3).to(device, dtype).requires_grad_()
    output, want = ours(x), theirs(x)
    assert output.dtype == dtype
    step = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(output, want, rtol=step, atol=step)
    up = torch.randn_like(want)
    for got, expected in zip(
        torch.autograd.grad(output, [x, ours.weight], up),
        torch.autograd.grad(want, [x, theirs.weight], up),
        strict=True,
    ):
        torch.testing.assert_close(got, expected, rtol=8 * step, atol=8 * step)


def test_rms_equals_a_loop():
    ours, _ = twins(4, 0.01)
    x = torch.randn(5, 4)
    for row, got in zip(x.tolist(), ours(x).tolist(), strict=True):
        root = math.sqrt(sum(number**2 for number in row) / 4 + 0.01)
        assert got == pytest.approx([a / root * w for a, w in zip(row, ours.weight.tolist(), strict=True)], rel=1e-5)


def test_rms_by_hand():
    """Root mean square of 3, 4 is √12.5; a factor goes out again, but for eps."""
    norm = RMSNorm(2)
    root = math.sqrt(12.5)
    assert norm(torch.tensor([3.0, 4.0])).tolist() == pytest.approx([3 / root, 4 / root])
    torch.testing.assert_close(norm(torch.tensor([300.0, 400.0])), norm(torch.tensor([3.0, 4.0])))
    assert norm(torch.tensor([3.0, 4.0]) + 10).tolist() != pytest.approx([3 / root, 4 / root])  # no mean is taken out


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_without_variance(kind: str, dtype: torch.dtype):
    """Zeros stay zeros, with a finite gradient; so does, in a layer norm, a row of equal numbers."""
    norm = make_norm(kind, 8).to(dtype)
    x = torch.zeros(2, 8, dtype=dtype, requires_grad=True)
    output = norm(x)
    assert (output == 0).all()
    output.sum().backward()
    assert x.grad.isfinite().all()
    constant = norm(torch.full((1, 8), 3.0, dtype=dtype))
    assert (constant == 0).all() if kind == "layer" else torch.allclose(constant, torch.ones_like(constant))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_half_precision_squares_in_float32(kind: str):
    """300² is more than float16 holds."""
    norm, x = make_norm(kind, 4).half(), torch.tensor([[300.0, -300.0, 300.0, -300.0]]).half()
    assert norm(x).tolist() == [[1, -1, 1, -1]]
    assert x.square().isinf().all()


@pytest.mark.parametrize("bias", [True, False])
def test_make_norm_makes_pytorchs_layer_norm(bias: bool):
    norm = make_norm("layer", 8, 1e-3, bias=bias)
    assert type(norm) is nn.LayerNorm
    assert norm.eps == 1e-3
    assert (norm.bias is not None) == bias
    x = torch.randn(3, 8)
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    torch.testing.assert_close(norm(x), (x - mean) / (variance + 1e-3).sqrt())


def test_make_norm_makes_an_rms_norm():
    norm = make_norm("rms", 8, 1e-3, bias=True)
    assert type(norm) is RMSNorm
    assert (norm.eps, norm.d_model) == (1e-3, 8)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert repr(norm) == "RMSNorm(8, eps=0.001)"
    assert make_norm("rms", 8).eps == make_norm("layer", 8).eps == 1e-5


def test_under_autocast_x_keeps_its_dtype(device: str):
    norm = RMSNorm(8).to(device)
    x = torch.randn(2, 8, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert norm(x).dtype == torch.float32
        assert norm(x.bfloat16()).dtype == torch.bfloat16
    with pytest.raises(TypeError, match=r"x must have the module's dtype, torch.float32, got torch.bfloat16"):
        norm(x.bfloat16())


def test_gradients():
    norm = RMSNorm(5, 1e-3).double()
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: torch.func.functional_call(norm, {"weight": w}, x), (x, norm.weight))


@pytest.mark.slow
def test_compiled_equals_eager(compiled):
    norm, x = RMSNorm(8), torch.randn(3, 8)
    torch.testing.assert_close(compiled(norm, fullgraph=True)(x), norm(x), rtol=0, atol=1e-6)
