"""Rotary positions against complex numbers, matrices of rotations, and what they promise: distance alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from companion import MultiHeadAttention
from companion.positions import Rotary, position_ids
from companion.rotary import half_split, interleaved

quick = settings(max_examples=30, deadline=None)
conventions = pytest.mark.parametrize("neighbours", [False, True], ids=["half-split", "interleaved"])


def pairs(x: Tensor, neighbours: bool) -> Tensor:
    """As complex numbers, ``(..., D/2)``, in float64."""
    x = x.double()
    half = x.shape[-1] // 2
    return torch.complex(*((x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])))


def turned(x: Tensor, positions: list[int], neighbours: bool, base: float = 10_000.0) -> Tensor:
    """Pair c at position t times exp(i t base^(-2c/D)): the paper's equation (16), in complex numbers."""
    width = x.shape[-1]
    angles = [[t * base ** (-2 * c / width) for c in range(width // 2)] for t in positions]
    theta = torch.tensor(angles, dtype=torch.float64)
    return pairs(x, neighbours) * torch.polar(torch.ones_like(theta), theta)


@conventions
@pytest.mark.parametrize("width", [2, 4, 6, 64])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0, 2.0])
def test_equals_complex_numbers(neighbours: bool, width: int, base: float, device: str):
    x = torch.randn(2, 3, 40, width, device=device)
    output = Rotary(width, base, interleaved=neighbours).to(device)(x)
    assert output.dtype == x.dtype
    assert output.device == x.device
    want = turned(x.cpu(), list(range(40)), neighbours, base)
    torch.testing.assert_close(pairs(output.cpu(), neighbours), want, rtol=0, atol=2e-5)


@conventions
def test_equals_a_matrix_of_rotations(neighbours: bool):
    """Position t's features times a matrix with a rotation by t·ω for each pair, written cell by cell."""
    width, t = 8, 3
    x = torch.randn(5, width, dtype=torch.float64)
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for c in range(width // 2):
        a, b = (2 * c, 2 * c + 1) if neighbours else (c, c + width // 2)
        angle = t * 10_000 ** (-2 * c / width)
        matrix[a, a] = matrix[b, b] = math.cos(angle)
        matrix[a, b], matrix[b, a] = -math.sin(angle), math.sin(angle)
    output = Rotary(width, interleaved=neighbours)(x, torch.full((5,), t))
    torch.testing.assert_close(output, x @ matrix.T, rtol=0, atol=1e-6)


@conventions
@pytest.mark.parametrize("shift", [7, 50, 1000, 1_000_000])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-7)], ids=str)
def test_scores_depend_on_the_distance_alone(neighbours: bool, shift: int, dtype: torch.dtype, bound: float):
    """In float64 to the last digits. In float32 an angle is as fine as its size lets it: see ``bound``."""
    rotary = Rotary(16, interleaved=neighbours)
    q, k = (torch.nn.functional.normalize(torch.randn(1, 9, 16, dtype=dtype), dim=-1) for _ in range(2))
    here = torch.arange(9)
    before = rotary(q) @ rotary(k).mT
    after = rotary(q, here + shift) @ rotary(k, here + shift).mT
    atol = bound if dtype is torch.float64 else bound * (10 + shift)
    torch.testing.assert_close(after, before, rtol=0, atol=atol)
    if shift < 10_000:
        moved = rotary(q, here + shift) @ rotary(k).mT  # but not on nothing: one side moved is another distance
        assert (moved - before).abs().max() > 0.05


@quick
@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(-5000, 5000), st.booleans(), st.integers(0, 2**31))
def test_scores_depend_on_the_distance_alone_at_any_places(i: int, j: int, shift: int, neighbours: bool, seed: int):
    g = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 8, generator=g, dtype=torch.float64)
    rotary = Rotary(8, interleaved=neighbours)

    def score(a: int, b: int) -> float:
        return (rotary(q, torch.tensor([a])) @ rotary(k, torch.tensor([b])).mT).item()

    assert score(i + shift, j + shift) == pytest.approx(score(i, j), abs=1e-10)


@conventions
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_the_norm_is_kept(neighbours: bool, dtype: torch.dtype, rtol: float, device: str):
    x = torch.randn(3, 50, 32, device=device, dtype=dtype)
    output = Rotary(32, interleaved=neighbours).to(device)(x)
    torch.testing.assert_close(output.double().norm(dim=-1), x.double().norm(dim=-1), rtol=rtol, atol=0)
    assert torch.equal(output[:, 0], x[:, 0])  # position 0 turns nothing
    assert not torch.allclose(output[:, 1:], x[:, 1:])


# --- positions ---


@conventions
def test_positions_for_all_or_for_each_entry(neighbours: bool, device: str):
    rotary = Rotary(8, interleaved=neighbours).to(device)
    x = torch.randn(2, 3, 5, 8, device=device)
    plain = rotary(x)
    count = torch.arange(5, device=device)
    assert torch.equal(rotary(x, count), plain)
    assert torch.equal(rotary(x, count.int()), plain)
    assert torch.equal(rotary(x, count.expand(2, 5)), plain)
    places = torch.tensor([[0, 0, 1, 2, 3], [9, 4, 4, 0, 100]], device=device)
    each = rotary(x, places)
    for b in range(2):
        torch.testing.assert_close(each[b], rotary(x[b], places[b]), rtol=0, atol=0)
        for head in range(3):
            torch.testing.assert_close(each[b, head], rotary(x[b, head], places[b]), rtol=0, atol=0)
    deep = torch.randn(2, 4, 3, 5, 8, device=device)
    table = torch.randint(50, (2, 4, 5), device=device)
    torch.testing.assert_close(rotary(deep, table)[1, 2], rotary(deep[1, 2], table[1, 2]), rtol=0, atol=0)
    torch.testing.assert_close(rotary(rotary(x, count), -count), x)  # a negative position turns back


@conventions
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (0, 2, 3, 4), (0, 4)], ids=str)
def test_nothing_to_turn(neighbours: bool, shape: tuple[int, ...]):
    assert Rotary(4, interleaved=neighbours)(torch.zeros(shape)).shape == shape


@conventions
def test_bug_14_rope_cache_keyed_without_the_offset(neighbours: bool):
    """Token by token, and in pieces of any size, is all at once."""
    rotary = Rotary(8, interleaved=neighbours)
    x = torch.randn(2, 3, 12, 8)
    whole = rotary(x)
    for sizes in ([1] * 12, [5, 1, 6], [12]):
        pieces, start = [], 0
        for size in sizes:
            pieces.append(rotary(x[:, :, start : start + size], torch.arange(start, start + size)))
            start += size
        assert torch.equal(torch.cat(pieces, 2), whole)
    faulty = torch.cat([rotary(x[:, :, t : t + 1]) for t in range(12)], 2)  # each piece at position 0
    assert not torch.allclose(faulty, whole)


def test_bug_17_left_padding_without_position_ids():
    rotary = Rotary(8)
    text = torch.randn(1, 3, 4, 8)
    padded = torch.cat([torch.full((1, 3, 3, 8), 9.0), text], 2)
    real = torch.tensor([[False] * 3 + [True] * 4])
    assert torch.equal(rotary(padded, position_ids(real))[:, :, 3:], rotary(text))
    assert not torch.allclose(rotary(padded)[:, :, 3:], rotary(text))  # the faulty variant


# --- the two conventions ---


def test_bug_16_half_split_against_interleaved():
    """Equal after the reordering, and only then: of queries and keys, and of the projections that make them."""
    q, k = torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 8)
    split, woven = Rotary(8), Rotary(8, interleaved=True)
    want = woven(q) @ woven(k).mT
    torch.testing.assert_close(split(half_split(q)) @ split(half_split(k)).mT, want)
    torch.testing.assert_close(half_split(woven(q)), split(half_split(q)))
    torch.testing.assert_close(interleaved(split(q)), woven(interleaved(q)))
    torch.testing.assert_close(woven(interleaved(q)) @ woven(interleaved(k)).mT, split(q) @ split(k).mT)
    assert not torch.allclose(split(q) @ split(k).mT, want, atol=0.1)  # the faulty variant


@pytest.mark.parametrize("back", [False, True], ids=["to half-split", "to interleaved"])
@pytest.mark.parametrize("groups", [4, 2])
def test_projections_are_carried_over(back: bool, groups: int):
    """A module's rows of weights, reordered head by head, give under the other convention what it gave before."""
    one = MultiHeadAttention(32, 4, num_kv_heads=groups, rotary=Rotary(8, interleaved=not back))
    other = MultiHeadAttention(32, 4, num_kv_heads=groups, rotary=Rotary(8, interleaved=back))
    reorder = interleaved if back else half_split
    state = {name: torch.rand_like(x) - 0.5 for name, x in one.state_dict().items()}
    one.load_state_dict(state)
    other.load_state_dict(state)
    x = torch.randn(2, 7, 32)
    assert not torch.allclose(one(x, causal=True), other(x, causal=True), atol=1e-3)
    for name in ("W_Q.weight", "W_Q.bias", "W_K.weight", "W_K.bias"):
        state[name] = reorder(state[name].unflatten(0, (-1, 8)), dim=1).flatten(0, 1)
    other.load_state_dict(state)
    torch.testing.assert_close(one(x, causal=True), other(x, causal=True), rtol=0, atol=2e-6)


@pytest.mark.parametrize("dim", [-1, 0, 1, -2])
def test_reordering_is_a_permutation_with_an_inverse(dim: int):
    x = torch.randn(6, 8, 4)
    there = half_split(x, dim)
    size = x.shape[dim]
    order = [*range(0, size, 2), *range(1, size, 2)]
    assert torch.equal(there, x.index_select(dim, torch.tensor(order)))
    assert torch.equal(interleaved(there, dim), x)
    assert torch.equal(half_split(interleaved(x, dim), dim), x)
    assert half_split(torch.zeros(2, 0)).shape == (2, 0)
    assert interleaved(torch.zeros(0, 4)).shape == (0, 4)


# --- precision ---


def exactly(width: int) -> list[float]:
    return [10_000 ** (-2 * c / width) for c in range(width // 2)]


@pytest.mark.parametrize(
    "move",
    [
        lambda module: module.to(torch.bfloat16),
        lambda module: module.half(),
        lambda module: module.double(),
        lambda module: module.bfloat16().float(),
        lambda module: module.to(torch.float16).to("cpu", torch.float64).float(),
        lambda module: module.to("meta").to_empty(device="cpu"),  # which leaves memory as it finds it
        lambda module: module.to_empty(device="cpu"),
    ],
    ids=["bf16", "half", "double", "there and back", "a tour", "meta and back", "emptied"],
)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a module"])
def test_frequencies_stay_float32(move, inside: bool):
    rotary = Rotary(16)
    outer = MultiHeadAttention(16, 1, rotary=rotary) if inside else rotary
    move(outer)
    assert rotary.frequencies.dtype == torch.float32
    assert rotary.frequencies.tolist() == pytest.approx(exactly(16), rel=1e-7)
    assert not any("rotary" in name for name in outer.state_dict())


def test_frequencies_move_with_the_module(device: str):
    assert Rotary(8).to(device).frequencies.device.type == device
    on_meta = Rotary(8).to("meta")
    assert on_meta.frequencies.is_meta
    assert on_meta(torch.empty(2, 3, 8, device="meta")).shape == (2, 3, 8)
    with torch.device("meta"):
        made = Rotary(8)
    assert made.frequencies.is_meta
    assert made.to_empty(device=device).frequencies.tolist() == pytest.approx(exactly(8))


@conventions
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.bfloat16, 2e-2), (torch.float16, 1e-2), (torch.float32, 8e-3)], ids=str
)
def test_far_out_at_position_100_000(neighbours: bool, dtype: torch.dtype, bound: float):
    """Half precision's own rounding, and no more than float32's angles add: half of 2**-7 at 100,000 radians."""
    x = (torch.rand(1, 4, 64) * 2 - 1).to(dtype)
    places = [99_997, 99_998, 99_999, 100_000]
    rotary = Rotary(64, interleaved=neighbours).to(dtype)
    output = rotary(x, torch.tensor(places))
    assert output.dtype == dtype
    want = turned(x, places, neighbours)
    assert (pairs(output, neighbours) - want).abs().max() < bound
    # The faulty variant: frequencies, and positions, in bf16.
    angles = torch.tensor(places, dtype=torch.bfloat16)[:, None] * torch.tensor(exactly(64), dtype=torch.bfloat16)
    faulty = pairs(x, neighbours) * torch.polar(torch.ones(4, 32).double(), angles.double())
    assert (faulty - want).abs().max() > 1


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float16, 1e-3), (torch.bfloat16, 8e-3)], ids=str)
def test_half_precision_rounds_once(dtype: torch.dtype, bound: float, device: str):
    x = (torch.rand(2, 3, 100, 16, device=device) * 2 - 1).to(dtype)
    rotary = Rotary(16).to(device, dtype)
    want = rotary(x.float())
    assert torch.equal(rotary(x), want.to(dtype))
    assert (rotary(x).float() - want).abs().max() < bound


# --- gradients, compiling, printing ---


@conventions
def test_gradients(neighbours: bool):
    rotary = Rotary(6, interleaved=neighbours)
    x = torch.randn(2, 2, 3, 6, dtype=torch.float64, requires_grad=True)
    places = torch.tensor([[0, 5, 900], [3, 3, 3]])
    assert torch.autograd.gradcheck(lambda x: rotary(x, places), x)
    assert torch.autograd.gradgradcheck(lambda x: rotary(x, places), x)
    up = torch.randn(2, 2, 3, 6, dtype=torch.float64)
    (down,) = torch.autograd.grad(rotary(x, places), x, up)
    torch.testing.assert_close(down, rotary(up, -places))  # a rotation's transpose turns back
    assert not list(rotary.parameters())


@pytest.mark.slow
@conventions
def test_compiled_equals_eager(compiled, neighbours: bool):
    rotary = Rotary(8, interleaved=neighbours)
    fast = compiled(rotary, fullgraph=True)
    x = torch.randn(2, 3, 5, 8)
    places = torch.tensor([[0, 0, 1, 2, 3], [7, 8, 9, 10, 11]])
    torch.testing.assert_close(fast(x), rotary(x), rtol=0, atol=1e-6)
    torch.testing.assert_close(fast(x, places), rotary(x, places), rtol=0, atol=1e-6)


def test_it_prints_its_convention():
    assert repr(Rotary(8)) == "Rotary(8, base=10000, interleaved=False)"
    assert repr(Rotary(8, 5e5, interleaved=True)) == "Rotary(8, base=500000, interleaved=True)"


# --- both at once ---


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("positions", [None, torch.tensor([4, 2, 0]), torch.tensor([[4, 2, 0], [1, 1, 9]])], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_queries_and_keys_together_turn_as_each_alone(interleaved: bool, positions, dtype: torch.dtype, monkeypatch):
    turn = Rotary(8, interleaved=interleaved)
    query, key = torch.randn(2, 4, 3, 8).to(dtype), torch.randn(2, 2, 3, 8).to(dtype)
    want = turn(query, positions), turn(key, positions)
    asked = []
    angles = turn.angles
    monkeypatch.setattr(turn, "angles", lambda *arguments: asked.append(arguments) or angles(*arguments))
    got = turn.both(query, key, positions)
    assert len(asked) == 1
    for one, two in zip(got, want, strict=True):
        assert torch.equal(one, two)
