"""The caches against plain concatenation and slices."""

import pytest
import torch
from torch import Tensor

from companion.cache import KVCache, RollingKVCache

LENGTH, WIDTHS = 7, (4, 3)


def pair(*lead: int, length: int = LENGTH, device: str = "cpu", dtype: torch.dtype = torch.float32) -> tuple:
    """Keys and values of different widths, each number of which says where it stands."""
    return tuple(torch.randn(*(lead or (2, 3)), length, width, device=device, dtype=dtype) for width in WIDTHS)


def steps(whole: tuple[Tensor, Tensor], sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
    keys, values = (x.split(sizes, dim=-2) for x in whole)
    return list(zip(keys, values, strict=True))


def splits(length: int) -> list[list[int]]:
    """Every way to read so many positions in steps of one at least."""
    if not length:
        return [[]]
    return [[first, *rest] for first in range(1, length + 1) for rest in splits(length - first)]


def equal(got: tuple[Tensor, Tensor], want: tuple[Tensor, Tensor]) -> None:
    for one, other in zip(got, want, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("gradients", [False, True])
def test_every_split_gives_all_there_was(gradients: bool, device: str):
    whole = pair(device=device)
    for sizes in splits(LENGTH):
        cache, end = KVCache(LENGTH), 0
        with torch.set_grad_enabled(gradients):
            for key, value in steps(whole, sizes):
                end += key.shape[-2]
                equal(cache.update(0, key, value), tuple(x[:, :, :end] for x in whole))
                assert cache.length == cache.seen(0) == end


@pytest.mark.parametrize("window", [1, 2, 3, 10])
@pytest.mark.parametrize("gradients", [False, True])
def test_rolling_gives_the_new_and_the_window_before_them(window: int, gradients: bool, device: str):
    whole = pair(device=device)
    for sizes in splits(LENGTH):
        cache, end = RollingKVCache(window), 0
        with torch.set_grad_enabled(gradients):
            for key, value in steps(whole, sizes):
                start, end = max(0, end - (window - 1)), end + key.shape[-2]
                equal(cache.update(0, key, value), tuple(x[:, :, start:end] for x in whole))
                assert cache.length == end


@pytest.mark.parametrize("cache", [KVCache(LENGTH, 3), RollingKVCache(2, 3)], ids=["whole", "rolling"])
def test_layers_are_apart_and_the_last_one_counts(cache: KVCache):
    first, second = pair(), pair()
    assert cache.length == 0
    equal(cache.update(0, *first), first)
    assert (cache.seen(0), cache.seen(1), cache.length) == (7, 0, 0)  # within a step: layer 0 is ahead
    assert not cache.level
    equal(cache.update(1, *second), second)
    cache.update(2, *first)
    assert cache.length == 7
    assert cache.level
    cache.reset()
    assert cache.length == 0
    equal(cache.update(1, *second), second)


def test_nothing_may_be_added():
    cache, whole = KVCache(LENGTH), pair()
    nothing = tuple(x[:, :, :0] for x in whole)
    equal(cache.update(0, *nothing), nothing)
    equal(cache.update(0, *whole), whole)
    equal(cache.update(0, *nothing), whole)
    assert cache.length == 7


# --- memory ---


def buffers(cache: KVCache) -> tuple[int, ...]:
    held = cache._layers[0]
    return held.key.untyped_storage().data_ptr(), held.value.untyped_storage().data_ptr()


def room(cache: KVCache) -> int:
    return cache._layers[0].key.untyped_storage().nbytes() // (2 * 3 * WIDTHS[0] * 4)


@torch.no_grad()
def test_memory_is_set_aside_once(device: str):
    cache, whole = KVCache(20), pair(device=device)
    got = cache.update(0, *whole)
    before = buffers(cache)
    assert tuple(x.untyped_storage().data_ptr() for x in got) == before  # views, no copies
    for _ in range(6):
        cache.update(0, *(x[:, :, :2] for x in whole))
    assert buffers(cache) == before
    cache.crop(3)
    cache.update(0, *whole)
    assert buffers(cache) == before
    assert room(cache) == 20


@torch.no_grad()
@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("step", [1, 3])
def test_rolling_memory_does_not_grow(window: int, step: int, device: str):
    cache, whole = RollingKVCache(window, max_step=step), pair(length=300, device=device)
    places = set()
    for key, value in steps(whole, [step] * (300 // step)):
        cache.update(0, key, value)
        places.add(buffers(cache))
        assert room(cache) == 2 * window + step
    assert len(places) == 1
    assert cache.length == 300


@torch.no_grad()
def test_a_long_prompt_is_forgotten_after_it():
    cache, whole = RollingKVCache(3), pair(length=100)
    cache.update(0, *whole)
    assert room(cache) == 100
    for key, value in steps(whole, [1] * 100)[:10]:
        cache.update(0, key, value)
    assert room(cache) == 7


@pytest.mark.parametrize("kind", [KVCache, RollingKVCache])
def test_gradients_go_through(kind: type[KVCache]):
    """To what was seen before as to what is new, and the same as through a concatenation."""
    whole = tuple(x.double().requires_grad_() for x in pair())
    cache, weights = kind(LENGTH), torch.randn(LENGTH).double()
    total = 0.0
    for end in range(1, LENGTH + 1):
        key, value = cache.update(0, *(x[:, :, end - 1 : end] for x in whole))
        total = total + weights[end - 1] * (key.square().sum() + value.cos().sum())
    got = torch.autograd.grad(total, whole)
    total = sum(
        weights[end - 1] * (whole[0][:, :, :end].square().sum() + whole[1][:, :, :end].cos().sum())
        for end in range(1, LENGTH + 1)
    )
    for one, other in zip(got, torch.autograd.grad(total, whole), strict=True):
        torch.testing.assert_close(one, other)


def test_keys_without_gradient_do_not_spoil_that_of_the_queries():
    """Autograd keeps the keys for the backward pass; a later update must not write into the same memory."""
    cache, whole = KVCache(LENGTH), pair()
    query = torch.randn(2, 3, 1, WIDTHS[0], requires_grad=True)
    one = (query @ cache.update(0, *(x[:, :, :3] for x in whole))[0].mT).sum()
    cache.update(0, *(x[:, :, 3:] for x in whole))
    (got,) = torch.autograd.grad(one, query)
    torch.testing.assert_close(got, whole[0][:, :, :3].sum(-2, keepdim=True))


@pytest.mark.parametrize("kind", [KVCache, RollingKVCache])
def test_with_and_without_gradients_in_turns(kind: type[KVCache]):
    """What was made with gradients stays as it is, when the cache goes on without."""
    cache, whole = kind(LENGTH), pair()
    parts = steps(tuple(x.requires_grad_() for x in whole), [2, 1, 1, 2, 1])
    seen, copies = [], []
    for i, (key, value) in enumerate(parts):
        with torch.set_grad_enabled(i % 2 == 0):
            seen.append(cache.update(0, key, value))
            copies.append(tuple(x.detach().clone() for x in seen[-1]))
        if i == 2:
            cache.crop(3)
            with torch.no_grad():
                cache.update(0, *(torch.full_like(x, 9.0) for x in (key, value)))
            cache.crop(3)
            with torch.enable_grad():
                cache.update(0, key, value)
    for got, want in zip(seen[::2], copies[::2], strict=True):
        equal(got, want)
    assert all(x.grad_fn is not None for x in seen[0])
    seen[0][0].sum().backward()


# --- crop, reorder ---


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("n", range(LENGTH + 1))
def test_crop_and_go_on(n: int, gradients: bool):
    cache, whole, other = KVCache(2 * LENGTH, 2), pair(), pair()
    with torch.set_grad_enabled(gradients):
        for layer in (0, 1):
            cache.update(layer, *whole)
        cache.crop(n)
        assert cache.length == n
        want = tuple(torch.cat([x[:, :, :n], y], dim=-2) for x, y in zip(whole, other, strict=True))
        for layer in (0, 1):
            equal(cache.update(layer, *other), want)


@torch.no_grad()
@pytest.mark.parametrize("step", [1, 2, 3])
def test_rolling_crop_and_go_on_or_refuse(step: int):
    """It steps back as far as its memory goes, and gives what it would have given; or says that it cannot."""
    window, whole = 3, pair(length=12)
    refused = 0
    for read in range(step, 13, step):
        for n in range(read + 1):
            cache = RollingKVCache(window, num_layers=2, max_step=step)
            for key, value in steps(tuple(x[:, :, :read] for x in whole), [step] * (read // step)):
                for layer in (0, 1):
                    cache.update(layer, key, value)
            if cache._layers[0].end - (read - n) < min(window - 1, n):  # moved on, and written over
                with pytest.raises(ValueError, match="n is too far back"):
                    cache.crop(n)
                refused += 1
                assert n < read - 1
                assert cache.length == read
                continue
            cache.crop(n)
            assert cache.length == n
            new = pair(length=1)
            want = tuple(
                torch.cat([x[:, :, max(0, n - window + 1) : n], y], dim=-2) for x, y in zip(whole, new, strict=True)
            )
            for layer in (0, 1):
                equal(cache.update(layer, *new), want)
    assert refused


def test_a_crop_in_the_middle_of_a_step_brings_layers_level():
    cache, whole = KVCache(20, 2), pair()
    for layer in (0, 1):
        cache.update(layer, *whole)
    cache.update(0, *whole)
    cache.crop(5)
    assert cache.seen(0) == cache.seen(1) == 5


@pytest.mark.parametrize("kind", [KVCache, RollingKVCache])
@pytest.mark.parametrize("gradients", [False, True])
def test_reorder(kind: type[KVCache], gradients: bool, device: str):
    cache, whole = kind(LENGTH, 2), pair(device=device, length=3)
    with torch.set_grad_enabled(gradients):
        for layer in (0, 1):
            cache.update(layer, *whole)
        for entries in (torch.tensor([1, 1, 0]), torch.tensor([2, 0, 2, 1], dtype=torch.int8)):
            cache.reorder(entries.to(device))
            whole = tuple(x[entries.long().to(device)] for x in whole)
            new = pair(len(entries), 3, length=1, device=device)
            whole = tuple(torch.cat(both, dim=-2) for both in zip(whole, new, strict=True))
            for layer in (0, 1):
                equal(cache.update(layer, *new), whole)


def test_the_real_tokens_are_cropped_reordered_and_forgotten_with_the_rest():
    cache = KVCache(LENGTH)
    cache.update(0, *pair(length=3))
    cache.real = torch.tensor([[True, True, True], [False, False, True]])
    cache.crop(2)
    assert cache.real.tolist() == [[True, True], [False, False]]
    cache.reorder(torch.tensor([1, 1, 0]))
    assert cache.real.tolist() == [[False, False], [False, False], [True, True]]
    cache.reset()
    assert cache.real is None


# --- cross-attention's ---


def test_keep_makes_once():
    cache, whole, calls = KVCache(1, 2), pair(), []

    def make() -> tuple[Tensor, Tensor]:
        calls.append(1)
        return whole

    for _ in range(3):
        equal(cache.keep(1, make), whole)
    assert len(calls) == 1
    assert (cache.seen(0), cache.seen(1)) == (0, 7)
    cache.reset()
    cache.keep(1, make)
    assert len(calls) == 2


def test_a_memory_and_what_was_seen_are_kept_apart():
    """The same cache for both would hand one's keys to the other."""
    cache, whole = KVCache(20), pair()
    cache.update(0, *whole)
    with pytest.raises(ValueError, match="layer 0 holds what self-attention has seen"):
        cache.keep(0, lambda: whole)
    cache = KVCache(20)
    cache.keep(0, lambda: whole)
    with pytest.raises(ValueError, match="layer 0 holds a memory"):
        cache.update(0, *whole)


# --- refusals that leave it as it was ---


@pytest.mark.parametrize("gradients", [False, True])
def test_overflow_is_refused_and_changes_nothing(gradients: bool):
    cache, whole = KVCache(LENGTH + 1), pair()
    with torch.set_grad_enabled(gradients):
        with pytest.raises(ValueError, match="key has 9 positions, and the cache holds 0 of max_length=8"):
            cache.update(0, *pair(5, 1, length=9))
        cache.update(0, *whole)
        with pytest.raises(ValueError, match="key has 2 positions, and the cache holds 7 of max_length=8"):
            cache.update(0, *(x[:, :, :2] for x in whole))
        assert cache.length == 7
        last = tuple(x[:, :, :1] for x in whole)
        equal(cache.update(0, *last), tuple(torch.cat([x, x[:, :, :1]], dim=-2) for x in whole))


@pytest.mark.parametrize("kind", [KVCache, RollingKVCache])
def test_another_dtype_or_shape_is_refused(kind: type[KVCache]):
    cache, (key, value) = kind(20), pair()
    with pytest.raises(TypeError, match="key and value must have one dtype"):
        cache.update(0, key, value.half())
    cache.update(0, key, value)
    for error, bad in (
        (TypeError, (key.double(), value.double())),
        (ValueError, (key[:1], value[:1])),
        (ValueError, (key[:, :1], value[:, :1])),
        (ValueError, (key[..., :2], value)),
        (ValueError, (key, value[..., :2])),
        (ValueError, (key[:, :, :2], value)),
        (ValueError, (key[0], value[0])),
    ):
        with pytest.raises(error):
            cache.update(0, *bad)
    assert cache.length == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes_are_kept(dtype: torch.dtype, device: str):
    cache, whole = KVCache(LENGTH), pair(device=device, dtype=dtype)
    with torch.no_grad():
        got = cache.update(0, *whole)
    assert all(x.dtype is dtype and x.device.type == device for x in got)
    equal(got, whole)
