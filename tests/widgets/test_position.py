"""Sinusoids, rotations and biases are companion's."""

import random

import pytest
import torch
import traitlets

from companion import stable_softmax
from companion.positions import Rotary, SinusoidalPositions, alibi_bias, alibi_slopes
from companion.widgets import PositionExplorer
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close

COUNT = 64


def sizes(draw: random.Random) -> tuple[int, float]:
    """A width and a base."""
    return 2 * draw.randint(1, 32), 10 ** draw.uniform(0.5, 6)


def table(positions: torch.Tensor, width: int, base: float) -> torch.Tensor:
    return SinusoidalPositions(width, base)(torch.zeros(len(positions), width, dtype=torch.float64), positions)


def test_sinusoids():
    draw = random.Random(20)
    given = [[[draw.randint(0, 2000) for _ in range(draw.randint(1, 6))], *sizes(draw)] for _ in range(MANY)]
    for (positions, width, base), answer in zip(given, call("lib/positions", "sinusoids", given), strict=True):
        close(answer, table(torch.tensor(positions), width, base))


def test_products():
    draw = random.Random(21)
    given = [[draw.randrange(COUNT), draw.randrange(COUNT), draw.randint(0, 1000), *sizes(draw)] for _ in range(MANY)]
    for (i, j, shift, width, base), answer in zip(given, call("lib/positions", "products", given), strict=True):
        rows = table(torch.arange(COUNT) + shift, width, base)
        close(answer["all"], rows @ rows[i])
        close(answer["parts"], (rows[i] * rows[j]).unflatten(0, (-1, 2)).sum(-1))


def test_a_pair_is_turned_as_rotary_turns_it():
    draw = random.Random(22)
    given, want = [], []
    for _ in range(MANY):
        width, base = sizes(draw)
        rotary = Rotary(width, base, interleaved=True)
        pair = draw.randrange(width // 2)
        points = [[draw.uniform(-2, 2), draw.uniform(-2, 2)] for _ in range(2)]
        where = [draw.randint(0, 1063) for _ in range(2)]
        x = torch.zeros(2, width, dtype=torch.float64)
        x[:, 2 * pair : 2 * pair + 2] = tensor(points)
        want.append((rotary(x, torch.tensor(where)), pair))
        given.append([*points, *where, float(rotary.frequencies[pair])])
    for (turned, pair), answer in zip(want, call("lib/positions", "rotated", given), strict=True):
        close([answer["query"], answer["key"]], turned[:, 2 * pair : 2 * pair + 2])
        close(answer["score"], turned[0] @ turned[1])  # the other features are zero


def test_the_frequencies():
    draw = random.Random(23)
    given = [list(sizes(draw)) for _ in range(MANY)]
    for (width, base), answer in zip(given, call("lib/positions", "frequencies", given), strict=True):
        close(answer, Rotary(width, base).frequencies.double())


def test_slopes_of_any_number_of_heads():
    for heads, answer in enumerate(call("lib/positions", "slopes", [[h] for h in range(1, 130)]), start=1):
        close(answer, alibi_slopes(heads).double())


@pytest.mark.parametrize("name", ["bias", "fading"])
def test_what_a_slope_does(name: str):
    draw = random.Random(24)
    given, want = [], []
    for _ in range(MANY):
        heads, L, S = draw.randint(1, 20), draw.randint(1, 8), draw.randint(1, 64)
        head = draw.randrange(heads)
        slope = float(alibi_slopes(heads)[head])
        if name == "bias":
            given.append([slope, L, S])
            want.append(alibi_bias(heads, L, S)[0, head].double())
        else:
            given.append([slope, S])
            want.append(stable_softmax(alibi_bias(heads, 1, S)[0, head, 0].double()).flip(0))
    for wanted, answer in zip(want, call("lib/positions", name, given), strict=True):
        close(answer, wanted)


def test_a_pair_or_head_that_is_not_there_is_refused():
    with pytest.raises(traitlets.TraitError, match="pair must be less than 4, got 4"):
        PositionExplorer(width=8, pair=4)
    with pytest.raises(traitlets.TraitError, match="head must be less than 2, got 2"):
        PositionExplorer(heads=2, head=2)
    figure = PositionExplorer(width=64, pair=31, heads=16, head=15)
    figure.width, figure.heads = 8, 3
    assert (figure.pair, figure.head) == (3, 2)
    figure.reset()
    assert (figure.width, figure.pair, figure.head) == (64, 31, 15)


@pytest.mark.parametrize("view", ["sinusoids", "distance", "rotary", "alibi"])
def test_every_view_has_a_picture(view: str):
    left, right = PositionExplorer(view=view, heads=12, head=11, shift=7).fallback().axes[:2]
    assert left.has_data()
    assert right.has_data()
