"""The projections' numbers are PyTorch's."""

import math
import random

from companion import scaled_dot_product_attention
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close

DRAW = random.Random(8)


def table(rows: int, limit: float) -> list[list[float]]:
    return [[DRAW.uniform(-limit, limit) for _ in range(2)] for _ in range(rows)]


def test_the_projections():
    given = [[table(DRAW.randint(2, 5), 2), table(2, 3), table(2, 3)] for _ in range(MANY)]
    for k in range(0, MANY, 4):
        given[k][2] = given[k][1]  # tied
    for count, ((x, wq, wk), answer) in enumerate(zip(given, call("projection", "compute", given), strict=True)):
        q, k = tensor(x) @ tensor(wq), tensor(x) @ tensor(wk)
        scores = q @ k.T / math.sqrt(2)
        close(answer["query"], q)
        close(answer["key"], k)
        close(answer["scores"], scores)
        close(answer["weights"], scaled_dot_product_attention(q, k, k).weights)
        close(answer["skew"], (scores - scores.T).abs().max())
        assert answer["skew"] < 1e-12 or count % 4
