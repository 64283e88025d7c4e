"""Where ``attend`` may go the short way, and that it gives the same numbers there."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from companion import causal, scaled_dot_product_attention
from companion.kernels import plain


def inputs(length: int) -> list[Tensor]:
    return [torch.rand(2, 3, length, 8) for _ in range(3)]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_short_way_gives_what_the_long_way_gives(is_causal: bool, scale: float | None):
    q, k, v = (x.requires_grad_() for x in inputs(12))
    short = plain.run(q, k, v, is_causal, scale)
    assert short is not None
    long = scaled_dot_product_attention(q, k, v, causal() if is_causal else None, scale=scale).output
    torch.testing.assert_close(short, long, rtol=0, atol=2e-6)
    upstream = torch.randn_like(long)
    for one, two in zip(
        torch.autograd.grad(short, (q, k, v), upstream), torch.autograd.grad(long, (q, k, v), upstream), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda q, k, v: (q, k.index_fill(2, torch.tensor([3]), math.nan), v), id="NaN in a key"),
        pytest.param(lambda q, k, v: (q, k, v.index_fill(2, torch.tensor([3]), math.inf)), id="infinity in a value"),
        pytest.param(lambda q, k, v: (q.index_fill(2, torch.tensor([3]), -math.inf), k, v), id="infinity in a query"),
        pytest.param(lambda q, k, v: (q[:, :, :5], k, v), id="fewer queries"),
        pytest.param(lambda q, k, v: (q.half(), k.half(), v.half()), id="half precision"),
        pytest.param(lambda q, k, v: (q, k.mT.contiguous().mT, v), id="features apart"),
        pytest.param(lambda q, k, v: (q[0], k[0], v[0]), id="three dims"),
        pytest.param(lambda q, k, v: (q, k.double(), v), id="two dtypes"),
        pytest.param(lambda q, k, v: (q, k, v.to("meta")), id="two devices"),
        pytest.param(lambda q, k, v: (q[:, :, :0], k[:, :, :0], v[:, :, :0]), id="no tokens"),
    ],
)
def test_the_short_way_leaves_the_rest_to_the_long_one(spoil: Callable[..., tuple[Tensor, Tensor, Tensor]]):
    assert plain.run(*spoil(*inputs(12)), False, None) is None


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1, "1"])
def test_the_short_way_leaves_odd_scales_to_the_long_one(scale: object):
    assert plain.run(*inputs(12), False, scale) is None  # type: ignore[arg-type]
