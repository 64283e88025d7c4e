"""Attention in steps, with a cache, against the same module without one; the cache is what is under test."""

import math

import pytest
import torch
from torch import Tensor

from companion import MultiHeadAttention, causal, padding, sliding_window
from companion.cache import KVCache, RollingKVCache
from companion.positions import Rotary, alibi_bias, position_ids
from tests.companion.test_cache import splits

LENGTH = 6
EXACT = {"rtol": 0, "atol": 1e-6}


def build(groups: int = 2, rotary: bool = True, device: str = "cpu", **options: int) -> MultiHeadAttention:
    mha = MultiHeadAttention(16, 4, num_kv_heads=groups, rotary=Rotary(4) if rotary else None, **options)
    return mha.to(device).eval()


def in_steps(mha: MultiHeadAttention, x: Tensor, sizes: list[int], cache: KVCache, **options) -> Tensor:
    """Options that are tensors are cut to the tokens seen so far; functions are called with their number."""
    outputs, end = [], 0
    for part in x.split(sizes, dim=1):
        end += part.shape[1]
        now = {name: given(end - part.shape[1], end) if callable(given) else given for name, given in options.items()}
        outputs.append(mha(part, cache=cache, **now))
    return torch.cat(outputs, dim=1)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_at_every_split(groups: int, rotary: bool, gradients: bool, device: str):
    mha, x = build(groups, rotary, device), torch.randn(2, LENGTH, 16, device=device)
    whole = mha(x, causal=True)
    with torch.set_grad_enabled(gradients):
        for sizes in splits(LENGTH):
            torch.testing.assert_close(in_steps(mha, x, sizes, KVCache(LENGTH), causal=True), whole, **EXACT)


@pytest.mark.parametrize("rotary", [False, True])
def test_weights_in_steps(rotary: bool):
    mha, x, cache = build(rotary=rotary), torch.randn(2, LENGTH, 16), KVCache(LENGTH)
    _, whole = mha(x, causal=True, need_weights=True)
    for end in range(1, LENGTH + 1):
        output, weights = mha(x[:, end - 1 : end], causal=True, cache=cache, need_weights=True)
        torch.testing.assert_close(weights, whole[:, :, end - 1 : end, :end], **EXACT)
        assert output.shape == (2, 1, 16)


def test_positions_are_told_or_counted():
    """Rotary scores know distances alone, so all positions may be shifted; a step told wrongly shows."""
    mha, x = build(), torch.randn(2, LENGTH, 16)
    whole = mha(x, causal=True)

    def shifted(start: int, end: int) -> Tensor:
        return torch.arange(start, end) + 100

    told = in_steps(mha, x, [2, 3, 1], KVCache(LENGTH), causal=True, positions=shifted)
    torch.testing.assert_close(told, whole, rtol=0, atol=1e-5)
    wrong = in_steps(
        mha, x, [1] * LENGTH, KVCache(LENGTH), causal=True, positions=lambda start, end: torch.zeros(1).long()
    )
    assert (wrong - whole)[:, 1:].abs().max() > 1e-3


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_padded_on_the_left_in_steps(groups: int, device: str):
    mha = build(groups, device=device)
    real = torch.tensor([[False] * 2 + [True] * 4, [True] * 6, [False] * 5 + [True]], device=device)
    x = torch.randn(3, LENGTH, 16, device=device)
    where = position_ids(real)
    alone = [mha(x[i : i + 1, row], causal=True) for i, row in enumerate(real)]
    for sizes in splits(LENGTH):
        batched = in_steps(
            mha,
            x,
            sizes,
            KVCache(LENGTH),
            causal=True,
            mask=lambda start, end: padding(real[:, :end]),
            positions=lambda start, end: where[:, start:end],
        )
        for got, row, want in zip(batched, real, alone, strict=True):
            torch.testing.assert_close(got[row], want[0], **EXACT)


def test_alibi_in_steps():
    mha, x = build(rotary=False), torch.randn(2, LENGTH, 16)
    whole = mha(x, causal=True, bias=alibi_bias(4, LENGTH, LENGTH))
    for sizes in splits(LENGTH):
        stepped = in_steps(
            mha,
            x,
            sizes,
            KVCache(LENGTH),
            causal=True,
            bias=lambda start, end: alibi_bias(4, end - start, end),
        )
        torch.testing.assert_close(stepped, whole, **EXACT)


@pytest.mark.parametrize("window", [1, 2, 4, 9])
@pytest.mark.parametrize("kind", ["rolling", "whole"])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_sliding_window_in_steps(window: int, kind: str, gradients: bool, device: str):
    mha, x = build(device=device), torch.randn(2, LENGTH, 16, device=device)
    rule = sliding_window(window)
    whole = mha(x, mask=rule)
    with torch.set_grad_enabled(gradients):
        for sizes in splits(LENGTH):
            cache = RollingKVCache(window) if kind == "rolling" else KVCache(LENGTH)
            torch.testing.assert_close(in_steps(mha, x, sizes, cache, mask=rule), whole, **EXACT)


@torch.no_grad()
def test_a_long_text_in_a_rolling_window(device: str):
    """Through many turns of the memory, with rotary positions that count on."""
    mha, x = build(device=device), torch.randn(2, 200, 16, device=device)
    cache = RollingKVCache(5)
    whole = mha(x, mask=sliding_window(5))
    torch.testing.assert_close(in_steps(mha, x, [7] + [1] * 193, cache, mask=sliding_window(5)), whole, **EXACT)
    assert cache.length == 200


@torch.no_grad()
def test_crop_and_go_on():
    """A draft of three tokens is rejected, and others take its place."""
    for cache, rule in ((KVCache(20), causal()), (RollingKVCache(3, max_step=3), sliding_window(3))):
        mha, x = build(), torch.randn(2, LENGTH + 3, 16)
        mha(x[:, :4], mask=rule, cache=cache)
        mha(torch.randn(2, 3, 16), mask=rule, cache=cache)
        cache.crop(4)
        rest = mha(x[:, 4:], mask=rule, cache=cache)
        torch.testing.assert_close(rest, mha(x, mask=rule)[:, 4:], **EXACT)


@torch.no_grad()
def test_reorder_and_go_on():
    mha, x, more = build(), torch.randn(3, 4, 16), torch.randn(4, 2, 16)
    entries = torch.tensor([2, 0, 2, 1])
    cache = KVCache(20)
    mha(x, causal=True, cache=cache)
    cache.reorder(entries)
    got = mha(more, causal=True, cache=cache)
    torch.testing.assert_close(got, mha(torch.cat([x[entries], more], 1), causal=True)[:, 4:], **EXACT)


@pytest.mark.parametrize("gradients", [False, True])
def test_cross_attention_keeps_the_memory(gradients: bool, device: str):
    mha = build(rotary=False, device=device)
    x, memory = torch.randn(2, LENGTH, 16, device=device), torch.randn(2, 9, 16, device=device)
    rule = padding(torch.tensor([4, 9], device=device))
    with torch.set_grad_enabled(gradients):
        whole = mha(x, memory, mask=rule)
        for sizes in splits(LENGTH):
            cache = KVCache(1)
            parts = [mha(part, memory, mask=rule, cache=cache) for part in x.split(sizes, dim=1)]
            torch.testing.assert_close(torch.cat(parts, 1), whole, **EXACT)
    kept = mha(x, torch.full_like(memory, 7.0), mask=rule, cache=cache)  # not looked at again
    torch.testing.assert_close(kept, whole, **EXACT)


def test_gradients_through_a_cache_equal_those_without():
    mha, x = build().double(), torch.randn(2, LENGTH, 16).double().requires_grad_()
    weights = torch.randn(2, LENGTH, 16).double()
    inputs = [x, *mha.parameters()]
    want = torch.autograd.grad((mha(x, causal=True) * weights).sum(), inputs)
    for sizes in ([6], [2, 4], [1] * 6):
        output = in_steps(mha, x, sizes, KVCache(LENGTH), causal=True)
        for got, expected in zip(torch.autograd.grad((output * weights).sum(), inputs), want, strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_gradients_of_the_queries_alone_through_a_cache():
    """As when only ``W_Q`` is trained: the keys need none, and stay as they were for the backward pass."""
    mha, x = build().double(), torch.randn(2, LENGTH, 16).double()
    for letter in "KVO":
        getattr(mha, f"W_{letter}").requires_grad_(False)
    want = torch.autograd.grad(mha(x, causal=True).square().sum(), mha.W_Q.weight)[0]
    output = in_steps(mha, x, [1] * LENGTH, KVCache(LENGTH), causal=True)
    got = torch.autograd.grad(output.square().sum(), mha.W_Q.weight)[0]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_each_module_has_its_layer_of_the_cache():
    lower, upper = (build(layer=layer) for layer in (0, 1))
    cache, x = KVCache(LENGTH, num_layers=2), torch.randn(2, LENGTH, 16)
    want = upper(lower(x, causal=True), causal=True)
    parts = [upper(lower(part, causal=True, cache=cache), causal=True, cache=cache) for part in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), want, **EXACT)
    with pytest.raises(ValueError, match="layer must be less than num_layers=2, got 2"):
        build(layer=2)(x, cache=cache)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_in_steps(dtype: torch.dtype, device: str):
    """Far along, where positions themselves cannot be told apart in half precision."""
    mha = build(device=device).to(dtype)
    x = torch.randn(2, LENGTH, 16, device=device, dtype=dtype)
    far = 5000 + torch.arange(LENGTH, device=device)
    whole = mha(x, causal=True)
    stepped = in_steps(
        mha,
        x,
        [1] * LENGTH,
        KVCache(LENGTH),
        causal=True,
        positions=lambda start, end: far[start:end],
    )
    bound = {torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    assert stepped.dtype is dtype
    torch.testing.assert_close(stepped, whole, rtol=0, atol=bound)


@torch.no_grad()
def test_an_equal_share_in_each_step():
    """By hand: with queries of zero, step t is the mean of the values so far: 1, 1.5, 2, …, times the ones."""
    mha = MultiHeadAttention(2, 1, bias=False)
    for letter, matrix in (("Q", torch.zeros(2, 2)), *((letter, torch.eye(2)) for letter in "KVO")):
        getattr(mha, f"W_{letter}").weight.copy_(matrix)
    cache = KVCache(4)
    got = [mha(torch.full((1, 1, 2), t), causal=True, cache=cache)[0, 0, 0].item() for t in (1.0, 2.0, 3.0, 4.0)]
    assert got == pytest.approx([1.0, 1.5, 2.0, 2.5])
    assert math.isclose(cache._layers[0].value.sum().item(), 20.0)


def test_a_cache_needs_a_batch():
    with pytest.raises(ValueError, match=r"x must be \(B, L, M\) where there is a cache, got shape \(3, 8\)"):
        MultiHeadAttention(8, 2)(torch.zeros(3, 8), cache=KVCache(4))


def test_a_rotary_module_refuses_a_context():
    mha = MultiHeadAttention(8, 2, rotary=Rotary(4))
    with pytest.raises(ValueError, match="context must be None in a rotary module"):
        mha(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8))
