"""The feed-forward network against loops over plain numbers."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion.feed_forward import FeedForward


def relu(x: float) -> float:
    return max(0.0, x)


def gelu(x: float) -> float:
    """x times the chance that a normal number is less."""
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


BEND = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "swiglu": silu}


def filled(*arguments, **options) -> FeedForward:
    module = FeedForward(*arguments, **options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-1, 1)
    return module


def by_loops(module: FeedForward, row: list[float]) -> list[float]:
    def linear(layer: nn.Linear, x: list[float]) -> list[float]:
        biases = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
        return [
            math.fsum(a * w for a, w in zip(x, weights, strict=True)) + b
            for weights, b in zip(layer.weight.tolist(), biases, strict=True)
        ]

    hidden = [BEND[module.activation](x) for x in linear(module.W_1, row)]
    if module.activation == "swiglu":
        hidden = [a * b for a, b in zip(hidden, linear(module.W_3, row), strict=True)]
    return linear(module.W_2, hidden)


@pytest.mark.parametrize("activation", BEND)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)], ids=str)
def test_equals_loops(activation: str, bias: bool, shape: tuple[int, ...], device: str):
    module = filled(4, 6, activation, bias=bias).double().to(device)
    x = torch.randn(shape, dtype=torch.float64, device=device)
    want = [by_loops(module, row) for row in x.view(-1, 4).tolist()]
    torch.testing.assert_close(module(x).cpu(), torch.tensor(want, dtype=torch.float64).view(shape), rtol=0, atol=1e-12)
    assert all((layer.bias is not None) == bias for layer in (module.W_1, module.W_2))
    assert (module.W_3 is None) == (activation != "swiglu")


def test_a_gelu_is_not_its_approximation():
    """But close to it."""
    x = torch.linspace(-3, 3, 50)[:, None].expand(50, 4)
    one, two = filled(4, activation="gelu"), FeedForward(4, activation="gelu_tanh")
    two.load_state_dict(one.state_dict())
    difference = (one(x) - two(x)).abs().max()
    assert 1e-5 < difference < 2e-2


@pytest.mark.parametrize("width", [1, 3, 8, 64, 768])
def test_a_swiglu_costs_what_a_relu_costs(width: int):
    """Three matrices of two thirds; within what rounding the width down leaves, three rows at most."""

    def parameters(activation: str) -> int:
        return sum(p.numel() for p in FeedForward(width, activation=activation, bias=False).parameters())

    assert parameters("relu") == 8 * width**2
    assert 0 <= parameters("relu") - parameters("swiglu") < 3 * width
    assert FeedForward(width).d_ff == 4 * width
    assert FeedForward(width, 5, "swiglu").d_ff == 5


@pytest.mark.parametrize("activation", BEND)
def test_positions_do_not_meet(activation: str):
    module, x = filled(4, activation=activation), torch.randn(2, 5, 4)
    whole = module(x)
    for b in range(2):
        for t in range(5):
            torch.testing.assert_close(whole[b, t], module(x[b, t]))


def test_dropout_in_training_only_and_again_after_evaluation():
    module, plain = FeedForward(8, dropout=0.5), FeedForward(8)
    plain.load_state_dict(module.state_dict())
    x = torch.randn(3, 8)
    for _ in range(2):
        module.train()
        assert not torch.equal(module(x), module(x))
        module.eval()
        assert torch.equal(module(x), module(x))
        assert torch.equal(module(x), plain(x))


@pytest.mark.parametrize("activation", BEND)
def test_dropout_is_between_the_projections(activation: str):
    """On average it changes nothing, since what follows is linear; and at one, only the last bias is left."""
    module = filled(4, 6, activation, dropout=0.3)
    x = torch.randn(4)
    many = module(x.expand(60_000, 4)).detach()
    want = module.eval()(x)
    spread = many.std(0) / math.sqrt(60_000)
    assert ((many.mean(0) - want).abs() <= 5 * spread + 1e-5).all()
    nothing = filled(4, 6, activation, dropout=1.0)
    assert torch.equal(nothing(x), nothing.W_2.bias)


def test_it_starts_with_xavier_and_no_bias():
    for activation in BEND:
        module = FeedForward(64, activation=activation)
        for layer in (module.W_1, module.W_2, *([module.W_3] if module.W_3 else [])):
            bound = math.sqrt(6 / sum(layer.weight.shape))
            assert layer.weight.abs().max() <= bound
            assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
            assert (layer.bias == 0).all()


@pytest.mark.parametrize("activation", BEND)
def test_gradients(activation: str):
    module = filled(3, 4, activation).double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in module.named_parameters()]

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), x)

    assert torch.autograd.gradcheck(run, (x, *module.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: torch.dtype, device: str):
    module = FeedForward(16, activation="swiglu").to(device, dtype)
    x = torch.rand(2, 16, device=device, dtype=dtype)
    exact = FeedForward(16, activation="swiglu").double().to(device)
    exact.load_state_dict(module.state_dict())
    assert module(x).dtype == dtype
    torch.testing.assert_close(module(x).double(), exact(x.double()), rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_autocast(device: str):
    module, x = FeedForward(8, activation="gelu").to(device), torch.randn(2, 8, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        output = module(x)
        assert output.dtype == module(x.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), module(x), rtol=0, atol=3e-2)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["gelu_tanh", "swiglu"])
def test_compiled_equals_eager(compiled, activation: str):
    module, x = FeedForward(8, activation=activation), torch.randn(2, 3, 8)
    torch.testing.assert_close(compiled(module, fullgraph=True)(x), module(x), rtol=0, atol=1e-6)


def test_equals_the_same_in_pytorch():
    module = filled(4, 6, "swiglu")
    x = torch.randn(2, 4)
    want = F.linear(F.silu(F.linear(x, module.W_1.weight, module.W_1.bias)) * module.W_3(x), module.W_2.weight)
    torch.testing.assert_close(module(x), want + module.W_2.bias)
