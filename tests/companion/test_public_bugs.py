"""Faults that other people's attention has had, by the numbers of the list of public bugs in the project's notes.

Each test gives the right value, worked out by hand or by loops, and shows where it is cheap that the faulty variant,
written out beside it, gives another: so the test would see the fault.
"""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from companion import (
    MultiHeadAttention,
    attend,
    causal,
    padding,
    repeat_kv,
    scaled_dot_product_attention,
    split_heads,
    stable_softmax,
)
from tests.companion.helpers import BACKENDS_ON_CPU, PLACES

on_every_backend = pytest.mark.parametrize("place", PLACES, indirect=True, ids=lambda place: "-".join(place))
on_cpu_backends = pytest.mark.parametrize("backend", ["auto", *BACKENDS_ON_CPU])


def rand(*shape: int, device: str = "cpu") -> Tensor:
    return torch.rand(*shape, device=device) * 2 - 1


@on_every_backend
def test_bug_01_mask_polarity_is_inverted(place: tuple[str, str]):
    """A future token changes no earlier output; with the triangle of what to *ignore* as mask it does."""
    device, backend = place
    x = rand(1, 2, 5, 8, device=device)
    changed = x.clone()
    changed[:, :, 3:] += 1
    lower = torch.ones(5, 5, dtype=torch.bool, device=device).tril()
    options = [{"causal": True}, {"mask": causal()}]
    options += [] if device == "cuda" and backend == "flash" else [{"mask": lower}]
    for given in options:
        before, after = (attend(t, t, t, **given, backend=backend) for t in (x, changed))
        torch.testing.assert_close(after[:, :, :3], before[:, :, :3], rtol=0, atol=2e-6)
        assert not torch.allclose(after[:, :, 3:], before[:, :, 3:])
    wrong = [
        F.scaled_dot_product_attention(t, t, t, torch.ones(5, 5, device=device).triu(1).bool()) for t in (x, changed)
    ]
    assert not torch.allclose(wrong[0][:, :, :3], wrong[1][:, :, :3])
    with pytest.raises(TypeError, match="mask must be boolean, True where a query may attend"):
        attend(x, x, x, torch.ones(5, 5, device=device).triu(1), backend=backend)


@on_every_backend
def test_bug_02_masked_fill_with_minus_1e9_overflows_in_fp16(place: tuple[str, str]):
    device, backend = place
    q, k, v = (rand(1, 2, 6, 8, device=device).half() for _ in range(3))
    output = attend(q, k, v, causal=True, backend=backend)
    want = attend(q.float(), k.float(), v.float(), causal=True, backend="reference")
    assert output.isfinite().all()
    torch.testing.assert_close(output.float(), want, rtol=0, atol=1e-3)
    with pytest.raises(RuntimeError, match="overflow"):
        q.masked_fill(torch.ones_like(q, dtype=torch.bool), -1e9)


@on_every_backend
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_bug_03_row_with_everything_masked_is_nan(place: tuple[str, str], dtype: torch.dtype):
    """And so is its gradient. Here, where there are more queries than keys, by causality alone."""
    device, backend = place
    if device == "cuda" and dtype in (torch.float32, torch.float64) and backend in ("flash", "cudnn"):
        pytest.skip(f"{backend} has no {dtype}")
    q, k, v = (rand(1, 2, n, 8, device=device).to(dtype).requires_grad_() for n in (4, 2, 2))
    output = attend(q, k, v, causal=True, backend=backend)
    output.sum().backward()
    assert (output[:, :, :2] == 0).all()
    assert (q.grad[:, :, :2] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert q.grad[:, :, 3].abs().max() > 0
    scores = torch.full((2,), -math.inf)
    assert torch.softmax(scores, -1).isnan().all()  # the faulty variant
    assert (stable_softmax(scores) == 0).all()


@on_every_backend
def test_bug_04_row_with_everything_masked_is_the_mean_of_the_values(place: tuple[str, str]):
    device, backend = place
    q, k = rand(1, 1, 2, 8, device=device), rand(1, 1, 3, 8, device=device)
    v = torch.full((1, 1, 3, 8), 5.0, device=device)
    bias = torch.tensor([[0.0, 0, 0], [-math.inf] * 3], device=device)
    if device == "cuda" and backend in ("flash", "cudnn"):
        pytest.skip(f"{backend} takes no bias in float32")
    output = attend(q, k, v, bias=bias, backend=backend)
    torch.testing.assert_close(output[0, 0, 0], torch.full((8,), 5.0, device=device))
    assert (output[0, 0, 1] == 0).all()
    filled = torch.softmax(torch.full((3,), -1e9, device=device), -1) @ v[0, 0]
    torch.testing.assert_close(filled, torch.full((8,), 5.0, device=device))  # the faulty variant: the mean


@on_every_backend
def test_bug_05_is_causal_aligned_to_first_key(place: tuple[str, str]):
    device, backend = place
    if device == "cuda" and backend in ("flash", "cudnn"):
        pytest.skip(f"{backend} has no float32")
    for keys, length, want in ((3, 1, [1.0]), (4, 2, [1.0, 1.5]), (2, 4, [0, 0, 0, 0.5]), (6, 2, [2.0, 2.5])):
        q, k = torch.zeros(1, 1, length, 8, device=device), torch.zeros(1, 1, keys, 8, device=device)
        v = torch.arange(float(keys), device=device).view(1, 1, keys, 1).expand(1, 1, keys, 8)
        for given in ({"causal": True}, {"mask": causal()}, {"mask": causal(), "causal": True}):
            output = attend(q, k, v, **given, backend=backend)
            assert output[0, 0, :, 0].tolist() == pytest.approx(want)
    # The faulty variant: one query, three keys.
    first = F.scaled_dot_product_attention(
        torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 3, 1), torch.arange(3.0).view(1, 1, 3, 1), is_causal=True
    )
    assert first.item() == 0


def test_bug_06_dropout_fires_in_evaluation():
    mha, x = MultiHeadAttention(8, 2, dropout=0.9).eval(), rand(2, 6, 8)
    assert torch.equal(mha(x), mha(x))
    assert torch.equal(mha(x, need_weights=True)[0], mha(x, need_weights=True)[0])
    assert not torch.equal(mha.train()(x), mha(x))


def test_bug_07_after_an_evaluation_dropout_stays_off():
    mha, x = MultiHeadAttention(8, 2, dropout=0.9), rand(2, 6, 8)
    mha.eval()(x)
    assert mha.train().dropout == 0.9
    assert not torch.equal(mha(x), mha(x))


def test_bug_08_weights_averaged_over_heads():
    mha, x = MultiHeadAttention(8, 4), rand(2, 3, 8)
    weights = mha(x, rand(2, 5, 8), need_weights=True)[1]
    assert weights.shape == (2, 4, 3, 5)
    assert not torch.allclose(weights[:, 0], weights[:, 1])


SCALED = 1 / (1 + math.exp(-2))  # scores 4 and 0, over the root of 4


@pytest.mark.parametrize("wrong_scale", [1 / math.sqrt(16), 1 / 4], ids=["root of d_model", "head width"])
def test_bugs_09_and_10_scale_by_root_of_d_model_or_by_the_width(wrong_scale: float):
    q, k = torch.ones(1, 4, 1, 4), torch.tensor([1.0, 0.0]).view(1, 1, 2, 1).expand(1, 4, 2, 4)
    out = scaled_dot_product_attention(q, k, k)
    assert round(SCALED, 5) == 0.88080
    assert out.weights[0, :, 0, 0].tolist() == pytest.approx([SCALED] * 4)
    for backend in ("auto", *BACKENDS_ON_CPU):
        assert attend(q, k, k, backend=backend)[0, :, 0, 0].tolist() == pytest.approx([SCALED] * 4)
    wrong = scaled_dot_product_attention(q, k, k, scale=wrong_scale).weights
    assert wrong[0, 0, 0, 0].item() == pytest.approx(0.73106, abs=1e-5)
    mha = MultiHeadAttention(16, 4, bias=False)
    with torch.no_grad():
        mha.W_Q.weight.copy_(torch.eye(16))
        mha.W_K.weight.copy_(torch.eye(16))
    weights = mha(torch.ones(1, 1, 16), torch.stack([torch.ones(16), torch.zeros(16)])[None], need_weights=True)[1]
    assert weights[0, :, 0, 0].tolist() == pytest.approx([SCALED] * 4)


def test_bug_11_heads_split_by_view_without_transpose():
    x = torch.arange(8.0).view(2, 4)
    assert split_heads(x, 2)[0].tolist() == [[0, 1], [4, 5]]
    assert x.view(2, 2, 2)[0].tolist() == [[0, 1], [2, 3]]  # the faulty variant


@on_cpu_backends
def test_bug_12_gqa_tiles_heads(backend: str):
    q, k = torch.zeros(1, 4, 1, 1), torch.zeros(1, 2, 1, 1)
    v = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1)
    assert attend(q, k, v, backend=backend).flatten().tolist() == [10, 10, 20, 20]
    assert repeat_kv(v, 4).flatten().tolist() == [10, 10, 20, 20]
    assert v.repeat(1, 2, 1, 1).flatten().tolist() == [10, 20, 10, 20]  # the faulty variant


@on_cpu_backends
def test_bug_13_gqa_repeats_along_the_sequence(backend: str):
    q, k = torch.zeros(1, 4, 3, 1), torch.zeros(1, 2, 3, 1)
    v = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1).expand(1, 2, 3, 1)
    assert repeat_kv(v, 4).shape == (1, 4, 3, 1)
    assert scaled_dot_product_attention(q, k, v).weights.shape == (1, 4, 3, 3)
    output = attend(q, k, v, causal=True, backend=backend)
    assert output[0, :, :, 0].tolist() == [[pytest.approx(x)] * 3 for x in (10, 10, 20, 20)]


@on_cpu_backends
def test_bug_18_padding_mask_on_the_query_axis(backend: str):
    """Real rows do not change with what is in the padding, and padded rows are not emptied."""
    assert padding([2, 3]).compact(2, 4, 3, 3).shape == (2, 1, 1, 3)
    x = rand(2, 2, 3, 4)
    changed = x.clone()
    changed[0, :, 2] = 9.0
    before, after = (attend(t, t, t, padding([2, 3]), backend=backend) for t in (x, changed))
    torch.testing.assert_close(after[0, :, :2], before[0, :, :2])
    torch.testing.assert_close(after[1], before[1])
    assert (before[0, :, 2] != 0).any()
    on_queries = (torch.arange(3) < torch.tensor([[2], [3]]))[:, None, :, None].expand(2, 1, 3, 3)
    wrong = [attend(t, t, t, on_queries, backend=backend) for t in (x, changed)]
    assert not torch.allclose(wrong[0][0, :, :2], wrong[1][0, :, :2])  # the faulty variant


def test_bug_19_cross_attention_takes_the_decoders_padding_mask():
    """The padding of the memory, which has another length, is the one that counts."""
    mha = MultiHeadAttention(8, 2)
    x, memory = rand(2, 3, 8), rand(2, 5, 8)
    changed = memory.clone()
    changed[0, 2:] = 7.0
    before, after = (mha(x, m, mask=padding([2, 5])) for m in (memory, changed))
    torch.testing.assert_close(after, before)
    weights = mha(x, memory, mask=padding([2, 5]), need_weights=True)[1]
    assert (weights[0, :, :, 2:] == 0).all()
    decoder = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"padding was given \(2, 3\), used with \(B, S\) = \(2, 5\)"):
        mha(x, memory, mask=padding(decoder))
    with pytest.raises(ValueError, match=r"mask must have shape .* got \(2, 1, 1, 3\)"):
        mha(x, memory, mask=decoder[:, None, None])


@on_cpu_backends
def test_bug_20_masked_after_the_softmax(backend: str):
    scores, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[True, True, False]])
    want = [1 / (1 + math.e), math.e / (1 + math.e), 0.0]
    assert [round(x, 4) for x in want] == [0.2689, 0.7311, 0]
    out = scaled_dot_product_attention(torch.ones(1, 1), scores.T, torch.eye(3), mask, scale=1.0)
    assert out.weights[0].tolist() == pytest.approx(want)
    wide = F.pad(torch.ones(1, 1), (0, 2)), F.pad(scores.T, (0, 2)), torch.eye(3)  # flash: values as wide as keys
    assert attend(*wide, mask, scale=1.0, backend=backend)[0].tolist() == pytest.approx(want)
    late = torch.softmax(scores, -1).masked_fill(~mask, 0.0)
    assert late[0].tolist() == pytest.approx([0.0900, 0.2447, 0], abs=1e-4)  # the faulty variant: sums to .33


@on_cpu_backends
def test_bug_21_softmax_twice(backend: str):
    scores = torch.tensor([[1.0, 2.0, 3.0]])
    total = math.e + math.e**2 + math.e**3
    want = [math.e / total, math.e**2 / total, math.e**3 / total]
    assert want == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)
    assert stable_softmax(scores)[0].tolist() == pytest.approx(want)
    wide = F.pad(torch.ones(1, 1), (0, 2)), F.pad(scores.T, (0, 2)), torch.eye(3)
    assert attend(*wide, scale=1.0, backend=backend)[0].tolist() == pytest.approx(want)
    assert torch.softmax(stable_softmax(scores), -1)[0].tolist() != pytest.approx(want, abs=0.1)


@pytest.mark.slow
def test_bug_23_compiled_permute_of_the_keys_is_wrong(compiled):
    """Keys that come out of a permutation inside the compiled function."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k.permute(0, 2, 3, 1).transpose(-1, -2).transpose(1, 2).permute(0, 1, 3, 2).mT, v, causal=True)

    def scores(q: Tensor, k: Tensor) -> Tensor:  # as it was reported
        return stable_softmax(q @ k.permute(0, 2, 3, 1))

    q, k, v = rand(2, 2, 4, 8), rand(2, 3, 2, 8).transpose(1, 2), rand(2, 2, 3, 8)
    keys = k.transpose(1, 2).contiguous()  # (B, S, H, D)
    torch.testing.assert_close(compiled(scores)(q, keys), scores(q, keys), rtol=0, atol=1e-6)
    square = rand(2, 4, 4, 4)
    torch.testing.assert_close(compiled(run)(square, square, square), run(square, square, square), rtol=0, atol=1e-6)
    fast = compiled(lambda q, k, v: attend(q, k.permute(0, 2, 1, 3), v, causal=True))
    torch.testing.assert_close(fast(q, keys, v), attend(q, k, v, causal=True), rtol=0, atol=1e-6)


@on_every_backend
def test_bug_24_non_contiguous_and_stride_0_inputs(place: tuple[str, str]):
    device, backend = place
    dtype = torch.float16 if device == "cuda" else torch.float32
    inputs = {
        "transposed": rand(2, 5, 4, 8, device=device).transpose(1, 2),
        "every other": rand(2, 4, 5, 16, device=device)[..., ::2],
        "features first": rand(2, 4, 8, 5, device=device).mT,
        "expanded keys": rand(2, 4, 1, 8, device=device).expand(2, 4, 5, 8),
        "expanded heads": rand(2, 1, 5, 8, device=device).expand(2, 4, 5, 8),
        "expanded features": rand(2, 4, 5, 1, device=device).expand(2, 4, 5, 8),
        "flipped": rand(2, 4, 5, 8, device=device).flip(2),
    }
    for label, given in inputs.items():
        x = given.to(dtype) if dtype != given.dtype else given
        plain = x.contiguous()
        assert label == "flipped" or dtype != torch.float32 or not x.is_contiguous()
        for place_of_x in range(3):
            mixed = [plain] * 3
            mixed[place_of_x] = x
            for causality in (False, True):
                output = attend(*mixed, causal=causality, backend=backend)
                torch.testing.assert_close(
                    output, attend(plain, plain, plain, causal=causality, backend=backend), msg=label
                )


@on_every_backend
def test_bug_last_line_fp16_overflows_when_scaled_after_the_product(place: tuple[str, str]):
    """q = k = 40 and D = 64: the product is 102,400, which float16 has not; an eighth of it is fine."""
    device, backend = place
    x = torch.full((1, 1, 3, 64), 40.0, dtype=torch.float16, device=device)
    v = rand(1, 1, 3, 64, device=device).half()
    want = v.float().mean(-2, keepdim=True).expand(1, 1, 3, 64)
    torch.testing.assert_close(attend(x, x, v, backend=backend).float(), want, rtol=0, atol=1e-3)
    assert torch.tensor(40.0 * 40 * 64, dtype=torch.float16).isinf()  # the faulty variant


@on_every_backend
def test_bug_last_line_no_keys_give_zeros(place: tuple[str, str]):
    device, backend = place
    q, none = rand(1, 2, 3, 4, device=device), rand(1, 2, 0, 4, device=device)
    for given in ({}, {"causal": True}, {"mask": causal() & padding([0])}):
        assert torch.equal(attend(q, none, none, **given, backend=backend), torch.zeros_like(q))
    mha = MultiHeadAttention(8, 2, bias=False).to(device)
    assert torch.equal(
        mha(rand(1, 3, 8, device=device), rand(1, 0, 8, device=device)), torch.zeros(1, 3, 8, device=device)
    )
