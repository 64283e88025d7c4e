"""Positions against loops over plain numbers; ALiBi against the paper's rule."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from companion import attend, causal
from companion.positions import LearnedPositions, SinusoidalPositions, alibi_bias, alibi_slopes, position_ids
from tests.companion.helpers import PLACES, repeat, uniform

quick = settings(max_examples=40, deadline=None)


def sinusoids(positions: list[int], width: int, base: float = 10_000.0) -> Tensor:
    """Number by number, as the paper writes them."""
    rows = [[(math.sin, math.cos)[c % 2](t / base ** ((c - c % 2) / width)) for c in range(width)] for t in positions]
    return torch.tensor(rows, dtype=torch.float64).view(len(positions), width)


# --- sinusoids ---


@pytest.mark.parametrize("width", [2, 4, 6, 128])
@pytest.mark.parametrize("base", [10_000.0, 100.0, 2])
def test_sinusoids_equal_a_loop(width: int, base: float, device: str):
    want = sinusoids(list(range(100)), width, base)
    got = SinusoidalPositions(width, base).to(device)(torch.zeros(100, width, device=device))
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double().cpu(), want, rtol=0, atol=1e-5)  # angles to 100, in float32
    exact = SinusoidalPositions(width, base)(torch.zeros(100, width, dtype=torch.float64))
    torch.testing.assert_close(exact, want, rtol=0, atol=1e-5)  # frequencies are float32


def test_they_are_added():
    module, x = SinusoidalPositions(6), torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(module(x), x + sinusoids([0, 1, 2, 3], 6).float(), rtol=0, atol=1e-6)
    assert not list(module.parameters())
    assert not module.state_dict()


@pytest.mark.parametrize("shift", [0, 1, 7, 1000])
def test_a_shift_is_a_rotation_of_each_pair(shift: int):
    """And it is the same one, wherever it starts."""
    width = 8
    module = SinusoidalPositions(width)
    zeros, here = torch.zeros(20, width, dtype=torch.float64), torch.arange(20)
    before, after = module(zeros, here), module(zeros, here + shift)
    for c in range(width // 2):
        angle = shift * module.frequencies[c].item()
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        torch.testing.assert_close(
            after[:, 2 * c : 2 * c + 2], before[:, 2 * c : 2 * c + 2] @ turn.T, rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("shift", [1, 50, 100_000])
def test_the_dot_product_depends_on_the_distance_alone(shift: int):
    module, zeros = SinusoidalPositions(32), torch.zeros(20, 32, dtype=torch.float64)
    before, after = module(zeros), module(zeros, torch.arange(20) + shift)
    products = before @ before.T
    torch.testing.assert_close(after @ after.T, products, rtol=0, atol=1e-10)
    for distance in range(20):
        want = sum(math.cos(distance * 10_000 ** (-2 * c / 32)) for c in range(16))
        torch.testing.assert_close(products.diagonal(distance).mean().item(), want, rtol=0, atol=1e-5)


def test_half_precision_adds_what_float32_computed(device: str):
    for dtype in (torch.float16, torch.bfloat16):
        module = SinusoidalPositions(8).to(device, dtype)
        x = torch.zeros(1, 4, 8, device=device, dtype=dtype)
        places = torch.tensor([0, 257, 4099, 60_001], device=device)
        want = SinusoidalPositions(8).to(device)(x.float(), places).to(dtype)
        assert torch.equal(module(x, places), want)
    rounded = torch.tensor(257, dtype=torch.bfloat16)  # why: 257 is no number of bf16
    assert rounded.item() == 256


# --- learned ---


def test_learned_positions_are_rows_of_a_table(device: str):
    module = LearnedPositions(10, 4).to(device)
    x = torch.randn(2, 3, 4, device=device)
    for b in range(2):
        for t in range(3):
            torch.testing.assert_close(module(x)[b, t], x[b, t] + module.table.weight[t])
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        places = torch.tensor([[9, 0, 0], [2, 1, 0]], dtype=dtype, device=device)
        torch.testing.assert_close(module(x, places)[0, 0], x[0, 0] + module.table.weight[9])
        torch.testing.assert_close(module(x, places)[1, 1], x[1, 1] + module.table.weight[1])
    assert module(x.half()).dtype == torch.float16
    assert [name for name, _ in module.named_parameters()] == ["table.weight"]


def test_learned_positions_learn_only_where_they_stood():
    module = LearnedPositions(5, 4)
    module(torch.zeros(2, 3, 4), torch.tensor([[0, 1, 3], [3, 3, 3]])).sum().backward()
    assert module.table.weight.grad[:, 0].tolist() == [1, 1, 0, 4, 0]
    assert LearnedPositions(5000, 16).table.weight.std().item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_there_is_nothing_beyond_the_last_position(wrong: int):
    module = LearnedPositions(5, 4)
    assert module(torch.zeros(5, 4)).shape == (5, 4)
    with pytest.raises(ValueError, match=f"positions has {wrong}, and there are vectors for 0 to 4 only"):
        module(torch.zeros(2, 4), torch.tensor([0, wrong]))
    with pytest.raises(ValueError, match="x has 6 positions, and there are vectors for 5 only"):
        module(torch.zeros(6, 4))


# --- both ---

ADDED = {
    "sinusoidal": lambda: SinusoidalPositions(4),
    "learned": lambda: LearnedPositions(50, 4),
}


@pytest.mark.parametrize("name", ADDED)
def test_positions_for_all_or_for_each_entry(name: str, device: str):
    module = ADDED[name]().to(device)
    x, count = torch.randn(2, 3, 5, 4, device=device), torch.arange(5, device=device)
    assert torch.equal(module(x, count), module(x))
    assert torch.equal(module(x, count.expand(2, 3, 5)), module(x))
    assert torch.equal(module(x[0, 0]), module(x)[0, 0])
    places = torch.randint(50, (2, 3, 5), device=device)
    for i in range(2):
        for j in range(3):
            assert torch.equal(module(x, places)[i, j], module(x[i, j], places[i, j]))
    assert module(x[:, :, :0]).shape == (2, 3, 0, 4)
    assert module(x[:0]).shape == (0, 3, 5, 4)
    pieces = [module(x[:, :, t : t + 1], torch.tensor([t], device=device)) for t in range(5)]
    assert torch.equal(torch.cat(pieces, -2), module(x))


PADS = {"none": (0, 0), "left": (3, 0), "right": (0, 2), "both sides": (2, 3)}


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("pads", PADS)
def test_bug_17_padding_without_position_ids(name: str, pads: str):
    """In a batch, padded anywhere, each text gets what it gets alone."""
    module, (left, right) = ADDED[name](), PADS[pads]
    text = torch.randn(4, 4)
    padded = torch.cat([torch.full((left, 4), 9.0), text, torch.full((right, 4), 9.0)])
    longer = torch.randn(4 + left + right, 4)  # the one that made padding needed
    x = torch.stack([padded, longer])
    real = torch.tensor([[False] * left + [True] * 4 + [False] * right, [True] * len(longer)])
    output = module(x, position_ids(real))
    assert torch.equal(output[0, left : left + 4], module(text))
    assert torch.equal(output[1], module(longer))
    if left:
        assert not torch.allclose(module(x)[0, left : left + 4], module(text))  # the faulty variant


@pytest.mark.parametrize("name", ADDED)
def test_gradients(name: str):
    module = ADDED[name]().double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    places = torch.tensor([[0, 0, 1], [4, 5, 6]])
    assert torch.autograd.gradcheck(lambda x, *_: module(x, places), (x, *module.parameters()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDED)
def test_compiled_equals_eager(compiled, name: str):
    module = ADDED[name]()
    fast, x = compiled(module, fullgraph=True), torch.randn(2, 3, 4)
    torch.testing.assert_close(fast(x), module(x), rtol=0, atol=1e-6)
    places = torch.tensor([[0, 0, 1], [4, 5, 6]])
    torch.testing.assert_close(fast(x, places), module(x, places), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ADDED)
def test_state_and_device_moves(name: str, device: str):
    module = ADDED[name]()
    if name == "sinusoidal":
        module.to(torch.bfloat16).to("meta").to_empty(device=device)
        assert module.frequencies.dtype == torch.float32
        assert module.frequencies.tolist() == pytest.approx([1, 0.01])
        assert repr(module) == "SinusoidalPositions(4, base=10000)"
    other = ADDED[name]()
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(torch.zeros(3, 4)), module.cpu()(torch.zeros(3, 4)))


# --- position_ids ---


@quick
@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_position_ids_count_the_real_tokens(real: list[list[bool]]):
    """Whatever the pads, holes and all: as many as the real tokens up to and with each, less one, never below 0."""
    want = [[max(0, sum(row[: t + 1]) - 1) for t in range(6)] for row in real]
    got = position_ids(torch.tensor(real))
    assert got.dtype == torch.int64
    assert got.tolist() == want


def test_position_ids_by_hand(device: str):
    table = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1] * 5, [0] * 5], device=device).bool()
    assert position_ids(table).tolist() == [
        [0, 0, 0, 1, 2],
        [0, 1, 2, 2, 2],
        [0, 0, 1, 2, 2],
        [0, 1, 2, 3, 4],
        [0, 0, 0, 0, 0],
    ]
    assert position_ids(torch.zeros(2, 0, dtype=torch.bool)).shape == (2, 0)


# --- ALiBi ---


def papers_slopes(heads: int) -> list[float]:
    """Section 3 and footnote: for n heads a power of two, a geometric sequence that starts at 2^(-8/n), with that same
    value as its ratio; else those of the next lower power, and then every other one of the next higher."""

    def sequence(n: int) -> list[float]:
        terms = [2 ** (-8 / n)]
        while len(terms) < n:
            terms.append(terms[-1] * terms[0])
        return terms

    lower = max(n for n in (1, 2, 4, 8, 16, 32) if n <= heads)
    return sequence(lower) + [x for i, x in enumerate(sequence(2 * lower)) if i % 2 == 0][: heads - lower]


@pytest.mark.parametrize("heads", [*range(1, 17), 24, 32, 40])
def test_slopes_in_the_papers_order(heads: int):
    got = alibi_slopes(heads)
    assert got.dtype == torch.float32
    assert got.shape == (heads,)
    assert got.tolist() == pytest.approx(papers_slopes(heads), rel=1e-6)
    assert len(set(got.tolist())) == heads


def test_slopes_by_hand():
    assert alibi_slopes(8).tolist() == [2.0**-n for n in range(1, 9)]
    assert alibi_slopes(3).tolist() == pytest.approx([2**-4, 2**-8, 2**-2])
    assert alibi_slopes(6).tolist() == pytest.approx([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])
    assert alibi_slopes(12)[8:].tolist() == pytest.approx([2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    assert alibi_slopes(1).tolist() == [2**-8]


@pytest.mark.parametrize(("length", "keys"), [(4, 4), (1, 5), (3, 6), (5, 2), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("heads", [1, 3, 4])
def test_bias_equals_a_loop(length: int, keys: int, heads: int, device: str):
    slopes = papers_slopes(heads)
    rows = [-slopes[h] * abs(i + keys - length - j) for h in range(heads) for i in range(length) for j in range(keys)]
    got = alibi_bias(heads, length, keys, device)
    assert got.device.type == device
    assert got.shape == (1, heads, length, keys)
    torch.testing.assert_close(
        got.double().cpu(), torch.tensor(rows, dtype=torch.float64).view_as(got), rtol=1e-6, atol=0
    )
    assert not torch.signbit(got[got == 0]).any()  # no −0 to print


def test_bias_of_fewer_queries_is_the_last_rows():
    """What a cache needs."""
    whole = alibi_bias(4, 9, 9)
    for length in (1, 5):
        assert torch.equal(alibi_bias(4, length, 9), whole[:, :, -length:])


def test_bias_is_made_where_it_is_asked_for():
    with torch.device("meta"):
        assert torch.equal(alibi_bias(3, 2, 2, "cpu"), alibi_bias(3, 2, 2, torch.device("cpu")))
    torch.set_default_dtype(torch.float64)
    try:
        assert alibi_bias(3, 2, 2).dtype == alibi_slopes(3).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("place", PLACES, indirect=True, ids=lambda place: "-".join(place))
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 2e-6), (torch.float16, 1e-3), (torch.bfloat16, 5e-3)], ids=str
)
@pytest.mark.parametrize(("groups", "length"), [(4, 60), (2, 7)])
def test_attention_with_alibi(place: tuple[str, str], dtype: torch.dtype, bound: float, groups: int, length: int):
    """Against float64, and never twice as far from it as PyTorch's own kernel with the same bias in that dtype."""
    device, backend = place
    if device == "cuda" and (backend == "flash" or (backend == "cudnn" and dtype is torch.float32)):
        pytest.skip(f"{backend} takes no such call")
    g = torch.Generator().manual_seed(0)
    q = uniform(2, 4, length, 16, generator=g, dtype=dtype)
    k, v = (uniform(2, groups, 60, 16, generator=g, dtype=dtype) for _ in range(2))
    slopes = torch.tensor(papers_slopes(4), dtype=torch.float64).view(4, 1, 1)
    distance = (torch.arange(60) - torch.arange(60 - length, 60)[:, None]).double()
    scores = q.double() @ repeat(k, 4).double().mT / 4 - slopes * distance.abs()
    want = scores.masked_fill(distance > 0, -math.inf).softmax(-1) @ repeat(v, 4).double()
    q, k, v = (x.to(device) for x in (q, k, v))
    bias = alibi_bias(4, length, 60, device)
    output = attend(q, k, v, causal(), bias=bias, backend=backend)
    assert output.dtype == dtype
    error = (output.double().cpu() - want).abs().max().item()
    theirs = F.scaled_dot_product_attention(
        q,
        repeat(k, 4),
        repeat(v, 4),
        bias.masked_fill((distance > 0).to(device), -math.inf).to(dtype).expand(2, -1, -1, -1),
    )
    assert error <= bound
    assert error <= max(2 * (theirs.double().cpu() - want).abs().max().item(), 1e-6)


def test_alibi_prefers_what_is_near():
    """Equal scores, so that the weights are exp(−m·distance), normed."""
    q, v = torch.zeros(1, 2, 4, 4), torch.eye(4).expand(1, 2, 4, 4)
    weights = attend(q, q, v, bias=alibi_bias(2, 4, 4))
    for h, slope in enumerate((2**-4, 2**-8)):
        for i in range(4):
            shares = [math.exp(-slope * abs(i - j)) for j in range(4)]
            assert weights[0, h, i].tolist() == pytest.approx([s / sum(shares) for s in shares], rel=1e-5)


def test_in_a_sequential_module():
    """They take x alone, so they stand between other modules."""
    model = nn.Sequential(nn.Linear(3, 4), SinusoidalPositions(4), LearnedPositions(8, 4))
    assert model(torch.randn(2, 5, 3)).shape == (2, 5, 4)
