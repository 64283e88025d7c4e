"""What a figure computes in the browser is what companion computes: a thousand random inputs each, to 1e-6."""

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from companion import scaled_dot_product_attention, softmax_jacobian, stable_softmax
from companion.diagnostics import entropy
from tests.widgets.javascript import call, tensor

MANY = 1000


def rows(seed: int, spread: float = 5.0) -> list[list[float]]:
    """Scores of all lengths; some hidden, some rows all hidden, some huge."""
    draw = random.Random(seed)
    made = []
    for count in range(MANY):
        row = [draw.gauss(0, spread * (100 if count % 10 == 0 else 1)) for _ in range(draw.randint(1, 12))]
        if count % 3 == 0:
            row = [-math.inf if draw.random() < 0.4 else x for x in row]
        if count % 50 == 0:
            row = [-math.inf] * len(row)
        made.append(row)
    return made


def close(ours: Any, want: Tensor) -> None:
    got = tensor(ours)
    assert got.shape == want.shape
    same = (got == want) | ((got - want).abs() <= 1e-6)
    assert same.all(), (got - want).abs().max()


def test_softmax():
    given = rows(0)
    for row, answer in zip(given, call("lib/maths", "softmax", [[row] for row in given]), strict=True):
        close(answer, stable_softmax(tensor(row)))


def test_logsumexp():
    given = rows(1)
    for row, answer in zip(given, call("lib/maths", "logsumexp", [[row] for row in given]), strict=True):
        close(answer, tensor(row).logsumexp(-1))


@pytest.mark.parametrize(
    ("name", "ours"), [("jacobian", softmax_jacobian), ("entropy", lambda x: entropy(stable_softmax(x)))]
)
def test_what_follows_from_weights(name: str, ours: Any):
    given = [tensor(row) for row in rows(2)]
    weights = [[stable_softmax(row).tolist()] for row in given]
    for row, answer in zip(given, call("lib/maths", name, weights), strict=True):
        close(answer, ours(row))


@pytest.mark.parametrize("scaled", [True, False])
def test_attention(scaled: bool):
    draw = torch.Generator().manual_seed(3)
    given, want = [], []
    for count in range(MANY):
        length, keys, width, out = (int(torch.randint(1, 7, (), generator=draw)) for _ in range(4))
        query, key, value = (
            torch.randn(n, d, generator=draw, dtype=torch.float64)
            for n, d in ((length, width), (keys, width), (keys, out))
        )
        mask = torch.rand(length, keys, generator=draw) < 0.6
        if count % 4 == 0:
            mask[0] = False
        hide = count % 2 == 0
        scale = None if scaled else 0.5
        given.append([{"query": query.tolist(), "key": key.tolist(), "value": value.tolist(), "scale": scale,
                       "allowed": mask.tolist() if hide else None}])  # fmt: skip
        want.append(scaled_dot_product_attention(query, key, value, mask if hide else None, scale=scale))
    for answer, (output, weights, _) in zip(call("lib/maths", "attention", given), want, strict=True):
        close(answer["weights"], weights)
        close(answer["output"], output)


def test_the_explorer_of_softmax():
    draw = random.Random(4)
    given = [
        [[draw.uniform(-8, 8) for _ in range(draw.randint(2, 8))], draw.uniform(0.1, 4), draw.uniform(-100, 100)]
        for _ in range(MANY)
    ]
    for (scores, temperature, shift), answer in zip(given, call("softmax", "compute", given), strict=True):
        z = ((tensor(scores) + shift) / temperature).requires_grad_()
        weights = stable_softmax(z)
        slope = torch.autograd.functional.jacobian(
            lambda x, t=temperature: stable_softmax(x / t), z.detach() * temperature
        )
        close(answer["weights"], weights.detach())
        close(answer["jacobian"], slope)
        close(answer["norm"], slope.norm())
        close(answer["entropy"], entropy(weights.detach()))


def test_random_numbers_are_uniform_and_normal():
    """Kolmogorov and Smirnov's distance of 20,000 draws, at a level that fails once in a million."""
    count = 20_000
    sources = call("lib/random", "draws", [["uniform", 1, count], ["normal", 1, count]])
    cdf = {0: lambda x: x, 1: lambda x: (1 + torch.erf(x / math.sqrt(2))) / 2}
    for kind, drawn in enumerate(sources):
        x = tensor(drawn).sort().values
        steps = torch.arange(1, count + 1, dtype=torch.float64) / count
        assert (cdf[kind](x) - steps).abs().max() < 2.7 / math.sqrt(count)
