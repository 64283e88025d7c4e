"""The arithmetic that is written out comes to what stands behind it, and that is companion's."""

import math
import random
import re
from typing import Any

import torch

from companion import masks, scaled_dot_product_attention
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close

DRAW = random.Random(11)


def table(rows: int, columns: int, limit: float) -> list[list[float]]:
    return [[round(DRAW.uniform(-limit, limit), 2) for _ in range(columns)] for _ in range(rows)]


def figures() -> list[dict[str, Any]]:
    made = []
    for count in range(MANY):
        limit = (1, 3, 10)[count % 3]
        L, S, D, E = (DRAW.randint(1, most) for most in (6, 6, 4, 4))
        query, key, value = table(L, D, limit), table(S, D, limit), table(S, E, limit)
        made.append({"query": query, "key": key, "value": value, "causal": count % 2 == 0})
    return made


GIVEN = figures()


def allowed(given: dict[str, Any]) -> torch.Tensor:
    L, S = len(given["query"]), len(given["key"])
    if not given["causal"]:
        return torch.ones(L, S, dtype=torch.bool)
    return masks.causal().dense(1, 1, L, S)[0, 0]


def worth(text: str) -> float:
    """What a sum as the figure writes it comes to."""
    spelled = text.replace("−", "-").replace("·", "*").replace("√", "math.sqrt").replace("e^", "math.e**")
    return float(eval(re.sub(r"sqrt(\d+)", r"sqrt(\1)", spelled), {"math": math}))


def test_the_matrices():
    for given, answer in zip(GIVEN, call("steps", "compute", [[each] for each in GIVEN]), strict=True):
        q, k, v = (tensor(given[name]) for name in ("query", "key", "value"))
        want = scaled_dot_product_attention(q, k, v, mask=masks.causal() if given["causal"] else None)
        close(answer["scores"], q @ k.T)
        close(answer["weights"], want.weights)
        close(answer["output"], want.output)


def test_a_reader_gets_the_same_by_hand():
    """Each side of each equals sign, worked out from the digits that are shown."""
    cases = []
    for given in GIVEN:
        i, step = DRAW.randrange(len(given["query"])), DRAW.choice(["scores", "scaled", "weights", "output"])
        j = DRAW.randrange(len(given["value"][0] if step == "output" else given["key"]))
        cases.append([given, step, i, j])
    for (given, step, i, j), told in zip(cases, call("steps", "explain", cases), strict=True):
        text = told["sum"].rpartition(": ")[2]
        if text == f"query {i + 1} may see nothing, so 0":
            assert not allowed(given)[i].any()
            continue
        sides = text.replace("e^(−∞)", "0").split(" = ")
        assert all(len(side) < 120 for side in sides)
        if step == "scores":
            assert sides.pop(0) == f"q{i + 1} · k{j + 1}"
        q, k, v = (tensor(given[name]) for name in ("query", "key", "value"))
        hidden = ~allowed(given)
        scaled = q @ k.T / math.sqrt(q.shape[-1])
        weights = torch.softmax(scaled.masked_fill(hidden, -torch.inf), -1).nan_to_num()
        want = {"scores": q @ k.T, "scaled": scaled, "weights": weights, "output": weights @ v}[step][i, j]
        # What rounding to the digits shown may cost: of each weight half a thousandth, of each number half a hundredth.
        most = float(v.abs().max())
        slack = {"scores": 0.006, "scaled": 0.011, "weights": 0.02, "output": 0.006 + len(k) * 0.0005 * most}[step]
        for side in sides:
            assert abs(worth(side) - float(want)) < slack, (step, told["sum"])


def test_large_scores_lose_the_largest_of_their_row_first():
    """10 · 10 / √1 = 100: e^100 has 44 digits, e^0 and e^(−100) have none to spare."""
    given = {"query": [[10]], "key": [[10], [0]], "value": [[1], [1]], "causal": False}
    (told,) = call("steps", "explain", [[given, "weights", 0, 1]])
    assert (
        told["sum"] == "the row's largest, 100.00, is taken off: e^(−100.00) / (1.000 + 0.000) = 0.000 / 1.000 = 0.000"
    )
