"""The lookup's numbers are companion's; its hull holds every mix."""

import random

from companion.lookup import soft_lookup
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close

DRAW = random.Random(5)


def points(count: int) -> list[list[float]]:
    return [[DRAW.uniform(-2, 2), DRAW.uniform(-2, 2)] for _ in range(count)]


def test_the_lookup():
    given = []
    for _ in range(MANY):
        count = DRAW.randint(2, 6)
        given.append([points(1)[0], points(count), points(count), 10 ** DRAW.uniform(-2, 2)])
    for (query, key, value, temperature), answer in zip(given, call("lookup", "compute", given), strict=True):
        want = soft_lookup(tensor([query]), tensor(key), tensor(value), temperature)
        close([answer["weights"]], want.weights)
        close([answer["output"]], want.output)


def test_the_hull_turns_left_and_leaves_nobody_out():
    clouds = [points(DRAW.randint(3, 8)) for _ in range(MANY)]
    for cloud, corners in zip(clouds, call("lookup", "hull", [[cloud] for cloud in clouds]), strict=True):
        assert len(corners) >= 3
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
            assert all((bx - ax) * (y - ay) - (by - ay) * (x - ax) >= -1e-9 for x, y in cloud)
