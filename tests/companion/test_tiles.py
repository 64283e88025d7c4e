"""Attention by tiles equals the reference, wherever the edges of tiles fall, and makes no large tensor on the way."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from companion import causal, padding, scaled_dot_product_attention, sliding_window, tile_grid, tiles
from companion.attention import reference
from companion.call import Call
from companion.masks import Mask, document, longformer
from tests.companion.helpers import KINDS, LAYOUTS, Case, case, uniform

LENGTHS = ((5, 5), (3, 7), (1, 6), (7, 4))
TILES = ((2, 3), (3, 2), (1, 1), (100, 100))
Tile = tuple[int, int]


def cases(kind: str, dtype: torch.dtype = torch.float64) -> Iterator[tuple[str, Case]]:
    for length, keys in LENGTHS:
        variants = [(groups, "contiguous", empty) for groups in (4, 2, 1) for empty in (False, True)]
        variants += [(2, layout, False) for layout in LAYOUTS[1:]]
        for groups, layout, empty in variants:
            made = case(kind, length, keys, groups, layout=layout, empty=empty, dtype=dtype)
            if made is not None:
                yield f"{kind}, L={length}, S={keys}, G={groups}, {layout}, empty={empty}", made


def expected(made: Case) -> tuple[Tensor, Tensor]:
    """The reference in float64, on the table that loops made."""
    query, key, value = (x.double() for x in made[:3])
    bias = None if made.bias is None else made.bias.double()
    result = scaled_dot_product_attention(query, key, value, made.allowed, bias=bias)
    return result.output, result.logsumexp


def assert_equal(got: tuple[Tensor, Tensor], want: tuple[Tensor, Tensor], bound: float, label: str) -> None:
    for x, y in zip(got, want, strict=True):
        assert x.dtype == (torch.float64 if bound < 1e-9 else torch.float32), label
        torch.testing.assert_close(x.double(), y, rtol=0, atol=bound, msg=label)


@pytest.fixture(params=["one block", "a head a block", "as on a GPU"])
def circumstances(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All heads together; one head of keys at a time, as when there are many; or without reading any number."""
    if request.param == "a head a block":
        monkeypatch.setattr(tile_grid, "CELLS", {"cpu": 1})
    if request.param == "as on a GPU":
        monkeypatch.setattr(tile_grid, "_reads", lambda device: False)
    return request.param


# --- forward ---


@pytest.mark.parametrize("kind", KINDS)
def test_forward_equals_the_reference(kind: str, circumstances: str):
    for label, made in cases(kind):
        call, want = Call.of(*made[:3], **made.options), expected(made)
        for tile in (None, *TILES[: 4 if circumstances == "one block" else 1]):
            assert_equal(tiles.forward(call, tile), want, 1e-12, f"{label}, {tile}")
        assert (want[1] == -math.inf).equal(made.empty)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_computed_in_float32_at_least(kind: str, dtype: torch.dtype):
    """So half precision loses nothing but in its inputs: the bound is that of float32, whatever came."""
    for label, made in cases(kind, dtype):
        assert_equal(tiles.forward(Call.of(*made[:3], **made.options), (2, 3)), expected(made), 2e-6, label)


def test_scores_of_any_size_keep_their_softmax():
    """Rows that rise, fall, or jump, so that what was gathered is rescaled by everything from 0 to 1."""
    steps = torch.tensor([-900.0, -88.0, -1.0, 0.0, 3.0, 88.0, 900.0], dtype=torch.float64)
    rows = torch.stack([steps, steps.flip(0), steps[torch.tensor([3, 6, 0, 5, 1, 4, 2])], steps * 0 - 900])
    query, key = rows[None, None], torch.eye(7, dtype=torch.float64)[None, None]
    for dtype, bound in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        call = Call.of(query.to(dtype), key.to(dtype), key.to(dtype), scale=1.0)
        for width in (1, 2, 3, 7):
            output, logsumexp = tiles.forward(call, (2, width))
            torch.testing.assert_close(output[0, 0].double(), rows.softmax(-1), rtol=0, atol=bound)
            torch.testing.assert_close(logsumexp[0, 0].double(), rows.logsumexp(-1), rtol=1e-6, atol=0)
    far = torch.tensor([-3e37, -2e37, -2e38]).view(1, 1, 3, 1)
    output, logsumexp = tiles.forward(Call.of(torch.ones(1, 1, 1, 1), far, torch.eye(3)[None, None], scale=1.0), (1, 1))
    assert output.flatten().tolist() == [0, 1, 0]
    assert logsumexp.item() == pytest.approx(-2e37)


@pytest.mark.parametrize(("overflow", "scale"), [(1e30, 1.0), (3e38, 1.0), (1e15, 1e15)])
def test_a_hidden_key_that_overflows_does_no_harm(overflow: float, scale: float):
    """It is finite, so no guard against NaN sees it; its scores are infinity - infinity."""
    query, key, value = torch.full((1, 1, 4, 8), 1e9), torch.zeros(1, 1, 6, 8), torch.rand(1, 1, 6, 3)
    key[:, :, 4:] = overflow * torch.tensor([1.0, -1.0]).repeat(4)
    for mask in (padding([4]), sliding_window(2) & padding([4]), (torch.arange(6) < 4).expand(4, 6)):
        call = Call.of(query, key, value, mask, scale=scale)
        output, logsumexp = tiles.forward(call, (2, 3))
        assert output.isfinite().all()
        torch.testing.assert_close(output, reference(call).output)
        grads = tiles.backward(call, output, logsumexp, torch.ones_like(output), None, (2, 3))
        assert all(x.isfinite().all() for x in grads[:3] if x is not None)


# --- backward ---


@pytest.mark.parametrize("kind", KINDS)
def test_backward_equals_autograd_through_the_reference(kind: str, circumstances: str):
    for label, made in cases(kind):
        inputs = {name: x.detach().clone().requires_grad_() for name, x in zip("qkv", made[:3], strict=True)}
        options = dict(made.options)
        if made.bias is not None:
            options["bias"] = inputs["bias"] = made.bias.clone().requires_grad_()
        call = Call.of(inputs["q"], inputs["k"], inputs["v"], **options)
        result = reference(call)
        above = torch.randn_like(result.output), torch.randn_like(result.logsumexp)
        want = torch.autograd.grad([result.output, result.logsumexp], list(inputs.values()), above)
        output, logsumexp = expected(made)
        for tile in (None, *TILES[: 4 if circumstances == "one block" else 1]):
            got = tiles.backward(call, output, logsumexp, *above, tile)
            for name, x, y in zip(inputs, got, want, strict=False):
                assert x is not None
                torch.testing.assert_close(x, y, rtol=0, atol=1e-11, msg=f"{label}, {tile}, {name}")
        assert (got.bias is None) == (made.bias is None)
        assert tiles.backward(call, output, logsumexp, *above, bias_grad=False).bias is None


@pytest.mark.parametrize("size", [1e2, 1e5, 1e9])
def test_a_weight_of_one_comes_back_as_one(size: float):
    """The log-sum-exp of a row of one key is its score; rounded on the way, it would be off by powers of e."""
    g = torch.Generator().manual_seed(0)
    query, value = (uniform(1, 1, 5, 1, generator=g, dtype=torch.float32) for _ in range(2))
    call = Call.of(query, query * size, value, sliding_window(1))
    output, logsumexp = tiles.forward(call)
    above = uniform(1, 1, 5, 1, generator=g, dtype=torch.float32)
    grads = tiles.backward(call, output, logsumexp, above)
    assert torch.equal(output, value)
    assert torch.equal(grads.value, above)
    assert torch.equal(grads.query, torch.zeros_like(query))


def test_backward_over_part_of_the_keys_is_that_part_of_the_gradient():
    """As in a ring of devices: output and log-sum-exp are of all keys, and the gradients add up."""
    made = case("none", 5, 7, 2)
    assert made is not None
    query, key, value = made[:3]
    output, logsumexp = expected(made)
    above = torch.randn_like(output), torch.randn_like(logsumexp)
    whole = tiles.backward(Call.of(query, key, value), output, logsumexp, *above)
    ends = [slice(0, 3), slice(3, 7)]
    parts = [
        tiles.backward(Call.of(query, key[:, :, at], value[:, :, at]), output, logsumexp, *above, (2, 2)) for at in ends
    ]
    torch.testing.assert_close(parts[0].query + parts[1].query, whole.query, rtol=0, atol=1e-12)
    for name in ("key", "value"):
        joined = torch.cat([getattr(part, name) for part in parts], 2)
        torch.testing.assert_close(joined, getattr(whole, name), rtol=0, atol=1e-12)


def test_an_empty_row_takes_no_gradient_whatever_comes_from_above():
    call = Call.of(*(torch.rand(1, 1, 3, 4) for _ in range(3)), torch.tensor([[True] * 3, [False] * 3, [True] * 3]))
    output, logsumexp = tiles.forward(call)
    grads = tiles.backward(call, output, logsumexp, torch.ones_like(output), logsumexp.new_tensor([[[1, math.inf, 1]]]))
    assert (grads.query[0, 0, 1] == 0).all()
    assert all(x.isfinite().all() for x in grads[:3] if x is not None)


# --- the edges of tiles ---

sizes = st.integers(1, 11)


@settings(deadline=None, max_examples=150)
@given(data=st.data(), length=sizes, keys=sizes, tile=st.tuples(sizes, sizes))
def test_no_edge_of_a_tile_is_off_by_one(data: st.DataObject, length: int, keys: int, tile: Tile):
    """Windows, offsets, lengths and documents of all sizes, against tables made from their definitions."""
    batch, shift = 2, keys - length
    q, k = torch.arange(length)[:, None], torch.arange(keys)[None]
    window, offset = data.draw(st.integers(1, 12)), data.draw(st.integers(-4, 12))
    lengths = data.draw(st.lists(st.integers(0, keys), min_size=batch, max_size=batch))
    real = (torch.arange(keys) < torch.tensor(lengths)[:, None])[:, None, None]
    past, near = k <= q + shift, (q + shift - k).abs() < window
    rules: dict[str, tuple[Mask | Tensor | None, Tensor]] = {
        "none": (None, past | ~past),
        "causal": (causal(), past),
        "offset": (causal(offset), k <= q + offset),
        "window": (sliding_window(window), past & near),
        "both ways": (sliding_window(window, causal=False), near),
        "padding": (padding(lengths), real & (past | ~past)),
        "padding & window": (padding(lengths) & sliding_window(window), real & past & near),
        "padding & both ways": (padding(lengths) & sliding_window(window, causal=False), real & near),
        "not a window": (~sliding_window(window), ~(past & near)),
        "either": (sliding_window(window) | padding(lengths), real | (past & near)),
        "table": (past & near, past & near),
        "longformer": (longformer(window, [0]), longformer(window, [0]).dense(batch, 1, length, keys)),
    }
    if length <= keys:
        ids = torch.arange(keys).div(window, rounding_mode="floor").expand(batch, keys)
        rules["documents"] = document(ids) & causal(), past & (ids[0, shift:, None] == ids[0])
    name = data.draw(st.sampled_from(sorted(rules)))
    also_causal = data.draw(st.booleans())
    mask, table = rules[name]
    table = (table & past) if also_causal else table
    g = torch.Generator().manual_seed(data.draw(st.integers(0, 9)))
    query, key, value = (uniform(batch, 2, n, 3, generator=g) for n in (length, keys, keys))
    call = Call.of(query, key, value, mask, causal=also_causal)
    want = Call.of(query, key, value, table.expand(batch, 1, length, keys))
    result = reference(want)
    output, logsumexp = tiles.forward(call, tile)
    assert_equal((output, logsumexp), (result.output, result.logsumexp), 1e-12, name)
    above = torch.ones_like(output), torch.ones_like(logsumexp)
    for x, y in zip(
        tiles.backward(call, output, logsumexp, *above, tile)[:3],
        tiles.backward(want, output, logsumexp, *above, (length, keys))[:3],
        strict=True,
    ):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


def test_a_rule_that_does_not_answer_what_it_is_asked_is_refused():
    x = torch.rand(1, 1, 4, 2)
    table = torch.ones(4, 4, dtype=torch.bool)
    for rule, error, says in (
        (Mask(lambda b, h, q, k: table, "whole"), ValueError, r"predicate of Mask\(whole\).*\(1, 1, 2, 4\).*\(4, 4\)"),
        (Mask(lambda b, h, q, k: q - k, "number"), TypeError, "boolean tensor, got torch.int64"),
        (Mask(lambda b, h, q, k: True, "true"), TypeError, "boolean tensor, got bool"),
    ):
        with pytest.raises(error, match=says):
            tiles.forward(Call.of(x, x, x, rule), (2, 4))


# --- what it costs ---


class Watch(TorchDispatchMode):
    """The largest tensor that any operation gave, and the number of scores that were multiplied out."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.scores = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        given = result if isinstance(result, (tuple, list)) else (result,)
        for x in given:
            if isinstance(x, Tensor) and x.layout is torch.strided:
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        if function.overloadpacket in (torch.ops.aten.bmm, torch.ops.aten.baddbmm) and given[0].shape[-1] != WIDTH:
            self.scores += given[0].numel()
        return result


WIDTH, HEADS = 8, 2


def watched(n: int, tile: Tile | None, mask: Mask | None = None, keys: int | None = None, **options: Any) -> Watch:
    query, key, value = (torch.rand(1, HEADS, size, WIDTH) for size in (n, keys or n, keys or n))
    call = Call.of(query, key, value, mask, **options)
    with Watch() as watch:
        output, logsumexp = tiles.forward(call, tile)
        tiles.backward(call, output, logsumexp, output, logsumexp, tile)
    return watch


@pytest.mark.parametrize(
    "mask",
    [None, causal(), sliding_window(40), causal(3), ~causal(), padding([500]), longformer(8, [0])],
    ids=lambda mask: "none" if mask is None else mask.name,
)
def test_no_matrix_of_queries_by_keys_is_made(mask: Mask | None):
    """The largest tensor, forward and backward, is a row of tiles or an input, and grows with the length."""
    tile = (32, 64)
    for n in (512, 1024):
        watch = watched(n, tile, mask)
        assert watch.largest <= max(HEADS * tile[0] * tile[1], HEADS * n * WIDTH), watch.largest
        assert watch.largest < n * n // 16


def test_default_tiles_do_not_grow_with_the_length():
    """Nor with the number of heads: what does not fit is done in turn."""
    few, many = (
        torch.rand(batch, heads, n, WIDTH, device="meta") for batch, heads, n in ((1, 2, 1 << 16), (64, 32, 4096))
    )
    for x in (few, many):
        for mask in (None, causal(), sliding_window(256), sliding_window(100_000, causal=False)):
            grid = tile_grid.Grid(Call.of(x, x, x, mask))
            assert grid.cells <= tile_grid.MANY
    cpu = tile_grid.Grid(Call.of(*[torch.rand(1, 1, 1).expand(8, 16, 4096, 1)] * 3))
    assert 2**18 <= cpu.cells <= tile_grid.CELLS["cpu"]


def test_what_a_rule_hides_is_not_multiplied_out():
    """Scores forward, scores and their slopes backward: three a pair."""
    n, high = 1024, 32
    assert watched(n, (high, 64)).scores == 3 * HEADS * n * n
    half = watched(n, (high, 64), causal=True).scores
    assert 3 * HEADS * n * (n + 1) // 2 <= half <= 3 * HEADS * n * (n + high) // 2
    for window in (1, 40, 64):
        band = watched(n, (high, 128), sliding_window(window)).scores
        assert band <= 3 * HEADS * n * (window - 1 + high)
        twice = watched(2 * n, (high, 128), sliding_window(window)).scores
        assert twice <= 2 * band + 3 * HEADS * (window + high) ** 2
    assert watched(n, (high, 64), padding([100])).scores == 3 * HEADS * n * 100
    documents = document(torch.arange(n).div(64, rounding_mode="floor")[None])
    assert watched(n, (high, 64), documents).scores == 3 * HEADS * n * 64
    assert watched(64, (high, 64), causal=True, keys=n).scores >= 3 * HEADS * 64 * (n - 64)
