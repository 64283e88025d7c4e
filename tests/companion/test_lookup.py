import math

import pytest
import torch

from companion import scaled_dot_product_attention, stable_softmax
from companion.lookup import additive_score, hard_lookup, kernel_regression, soft_lookup

KERNELS = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "laplace": lambda u: math.exp(-u),
    "boxcar": lambda u: float(u <= 1),
    "epanechnikov": lambda u: max(0.0, 1 - u * u),
}


def test_hard_lookup_takes_the_best_value(device: str):
    key, value = torch.eye(3, device=device), torch.tensor([[10.0, 1], [20, 2], [30, 3]], device=device)
    query = torch.tensor([[0.2, 0.5, 0.3], [1, 1, 0], [-1, -2, -0.5]], device=device)
    out = hard_lookup(query, key, value)
    assert out.output.tolist() == [[20, 2], [10, 1], [30, 3]]  # the first of equals
    assert out.weights.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert out.logsumexp.tolist() == [0.5, 1, -0.5]


def test_hard_lookup_gives_its_gradient_to_the_winner():
    query, key, value = (torch.rand(2, 3, requires_grad=True) for _ in range(3))
    out = hard_lookup(query, key, value)
    out.output.sum().backward()
    torch.testing.assert_close(value.grad.sum(-1), 3 * out.weights.sum(0))
    assert query.grad is None
    assert key.grad is None


def test_hard_lookup_is_not_spoilt_by_what_it_does_not_return():
    key = torch.eye(2)
    out = hard_lookup(torch.tensor([[1.0, 0]]), key, torch.tensor([[5.0], [math.nan]]))
    assert out.output.tolist() == [[5]]
    key[1] = math.nan
    out = hard_lookup(torch.tensor([[1.0, 0], [0, 1]]), key, torch.ones(2, 1))
    assert out.output.isnan().all()
    assert out.weights.isnan().all()


def test_hard_lookup_in_float16_does_not_overflow_into_a_tie():
    key = torch.tensor([[300.0], [400.0]]).half()
    out = hard_lookup(torch.tensor([[300.0]]).half(), key, torch.tensor([[1.0], [2.0]]).half())
    assert out.output.tolist() == [[2]]
    assert out.output.dtype == torch.float16
    assert out.logsumexp.tolist() == [120_000]


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=str)
def test_a_cold_soft_lookup_is_the_hard_one_and_a_hot_one_the_mean(lead: tuple[int, ...]):
    query, key, value = (torch.randn(*lead, n, 4, dtype=torch.float64) for n in (3, 5, 5))
    hard = hard_lookup(query, key, value)
    cold = soft_lookup(query, key, value, temperature=1e-3)
    torch.testing.assert_close(cold.output, hard.output)
    torch.testing.assert_close(cold.logsumexp * 1e-3, hard.logsumexp, rtol=0, atol=1e-2)
    hot = soft_lookup(query, key, value, temperature=1e9)
    torch.testing.assert_close(hot.output, value.mean(-2, keepdim=True).expand_as(query))


def test_soft_lookup_at_the_root_of_the_width_is_attention():
    query, key, value = (torch.randn(2, n, 4) for n in (3, 5, 5))
    torch.testing.assert_close(soft_lookup(query, key, value, 2.0), scaled_dot_product_attention(query, key, value))


def test_no_keys_give_zeros():
    query, none = torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 0, 4, requires_grad=True)
    for look_up in (hard_lookup, soft_lookup, kernel_regression):
        out = look_up(query, none, none)
        assert out.output.tolist() == torch.zeros(2, 3, 4).tolist()
        assert out.weights.shape == (2, 3, 0)
        assert (out.logsumexp == -math.inf).all()
        out.output.sum().backward()


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_regression_equals_loops(kernel: str, device: str):
    query, key, value = (torch.rand(n, 2, dtype=torch.float64) * 3 for n in (4, 6, 6))
    query[3] = 50.0  # out of everybody's reach but the long tails'
    out = kernel_regression(query.to(device), key.to(device), value.to(device), bandwidth=0.8, kernel=kernel)
    for i in range(4):
        shares = [KERNELS[kernel](math.dist(query[i], key[j]) / 0.8) for j in range(6)]
        total = math.fsum(shares)
        if total == 0 and kernel in ("boxcar", "epanechnikov"):
            assert out.output[i].tolist() == [0, 0]
            assert out.logsumexp[i] == -math.inf
        elif total > 0:
            want = sum((s / total) * value[j] for j, s in enumerate(shares))
            torch.testing.assert_close(out.output[i].cpu(), want)
            assert out.logsumexp[i].item() == pytest.approx(math.log(total))
    if kernel in ("boxcar", "epanechnikov"):
        assert (out.weights[3] == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_kernel_regression(kernel: str):
    query = torch.tensor([[0.1], [1.3], [9.0]], dtype=torch.float64, requires_grad=True)
    key = torch.tensor([[0.0], [0.5], [2.0]], dtype=torch.float64, requires_grad=True)
    value = torch.rand(3, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *inputs: kernel_regression(*inputs, kernel=kernel).output, (query, key, value)
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_finite_on_a_key_and_on_the_edge_of_the_kernel(kernel: str):
    query = torch.tensor([[0.0], [7.0]], requires_grad=True)
    key = torch.tensor([[0.0], [1.0], [5.0]], requires_grad=True)
    out = kernel_regression(query, key, torch.ones(3, 1), kernel=kernel)
    (out.output.sum() + out.logsumexp[:1].sum()).backward()
    assert query.grad.isfinite().all()
    assert key.grad.isfinite().all()


def test_kernel_regression_in_half_precision():
    query, key, value = (torch.rand(n, 2) for n in (3, 5, 5))
    half = kernel_regression(query.half(), key.half(), value.half())
    full = kernel_regression(query.half().double(), key.half().double(), value.half().double())
    assert (half.output.dtype, half.weights.dtype, half.logsumexp.dtype) == (
        torch.float16,
        torch.float16,
        torch.float32,
    )
    torch.testing.assert_close(half.output.double(), full.output, rtol=0, atol=1e-3)


def test_gaussian_kernel_regression_is_attention_with_a_bias():
    """|q - k|^2 = |q|^2 - 2 q.k + |k|^2, and softmax ignores |q|^2."""
    query, key, value = (torch.randn(n, 3, dtype=torch.float64) for n in (4, 6, 6))
    bias = -key.square().sum(-1).expand(4, 6) / 2
    want = scaled_dot_product_attention(query, key, value, bias=bias, scale=1.0).output
    torch.testing.assert_close(kernel_regression(query, key, value).output, want)


def test_additive_score_equals_loops(device: str):
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 6)
    W_q, W_k, v = torch.randn(4, 7), torch.randn(6, 7), torch.randn(7)
    scores = additive_score(*(x.to(device) for x in (query, key, W_q, W_k, v)))
    assert scores.shape == (2, 3, 5)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                q, k = query[b, i] @ W_q, key[b, j] @ W_k
                want = sum(float(v[a]) * math.tanh(float(q[a] + k[a])) for a in range(7))
                assert scores[b, i, j].item() == pytest.approx(want, abs=1e-5)
    assert stable_softmax(scores).shape == (2, 3, 5)
    assert additive_score(query[:, :0].to(device), *(x.to(device) for x in (key, W_q, W_k, v))).shape == (2, 0, 5)


def test_gradients_of_additive_score():
    shapes = ((2, 3), (3, 2), (3, 4), (2, 4), (4,))
    assert torch.autograd.gradcheck(
        additive_score, [torch.rand(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    )
