"""The scaling figure measures what companion measures."""

import math
import random

import torch

from companion import scaled_dot_product_attention, softmax_jacobian
from companion.diagnostics import entropy
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close


def test_what_it_measures():
    draw = torch.Generator().manual_seed(6)
    given = []
    for count in range(MANY):
        width, queries, keys = (
            int(torch.randint(low, high, (), generator=draw)) for low, high in ((1, 40), (2, 5), (1, 7))
        )
        rows = (torch.randn(n, width, generator=draw, dtype=torch.float64).tolist() for n in (queries, keys))
        given.append([*rows, count % 2 == 0])
    for (query, key, scaled), answer in zip(given, call("scaling", "measure", given), strict=True):
        q, k = tensor(query), tensor(key)
        found = scaled_dot_product_attention(q, k, k, scale=None if scaled else 1.0)
        scores = q @ k.T / (math.sqrt(q.shape[-1]) if scaled else 1.0)
        close(answer["scores"], scores.flatten())
        close(answer["row"], found.weights[0])
        for name, want in (
            ("deviation", scores.std()),
            ("largest", found.weights.amax(-1).mean()),
            ("entropy", entropy(found.weights).mean()),
            ("slope", softmax_jacobian(found.weights.log()).norm(dim=(-2, -1)).mean()),
        ):
            close(answer[name], want)


def test_the_histogram_loses_no_score():
    draw = random.Random(7)
    given = [[[draw.gauss(0, 60) for _ in range(50)]] for _ in range(MANY)]
    for (scores,), counts in zip(given, call("scaling", "histogram", given), strict=True):
        assert sum(counts) == 50
        middle = [x for x in scores if -70 <= x < 70]
        want = torch.histc(tensor(middle), bins=35, min=-70, max=70) if middle else torch.zeros(35)
        want[0] += sum(x < -70 for x in scores)
        want[-1] += sum(x >= 70 for x in scores)
        assert counts == want.tolist()
