"""The walk over tiles ends where attention does, and what it counts is what a run moves."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import traitlets
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from companion import scaled_dot_product_attention
from companion.masks import causal
from companion.widgets import TilingExplorer
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close


def cuts(seed: int, count: int, largest: int = 8) -> Iterator[dict[str, Any]]:
    draw = random.Random(seed)
    for _ in range(count):
        yield {name: draw.randint(1, largest) for name in ("L", "S", "rows", "columns")} | {
            "causal": draw.random() < 0.5
        }


def seen(cut: dict[str, Any]) -> Tensor:
    """``(L, S)``, who may look at whom: more queries than keys leave the first with nothing."""
    if cut["causal"]:
        return causal().dense(1, 1, cut["L"], cut["S"])[0, 0]
    return torch.ones(cut["L"], cut["S"], dtype=torch.bool)


def place(tile: dict[str, Any]) -> tuple[slice, slice]:
    return slice(tile["i0"], tile["i1"]), slice(tile["j0"], tile["j1"])


def test_each_score_is_made_once_and_no_tile_is_hidden_whole():
    given = list(cuts(30, MANY, 12))
    for cut, tiles in zip(given, call("lib/tiles", "tiles", [[cut] for cut in given]), strict=True):
        made = torch.zeros(cut["L"], cut["S"], dtype=torch.int)
        for tile in tiles:
            made[place(tile)] += 1
            assert seen(cut)[place(tile)].any()
            assert tile["i1"] - tile["i0"] <= cut["rows"]
            assert tile["j1"] - tile["j0"] <= cut["columns"]
        assert (made <= 1).all()
        assert (made[seen(cut)] == 1).all()
        assert [(tile["i0"], tile["j0"]) for tile in tiles] == sorted((tile["i0"], tile["j0"]) for tile in tiles)


def test_what_is_kept_is_that_of_the_keys_so_far():
    draw = torch.Generator().manual_seed(31)
    given, want = [], []
    for count, cut in enumerate(cuts(31, MANY)):
        scale = 100.0 if count % 10 == 0 else 1.5  # some scores are far beyond what exp can take
        query, key, value = (
            torch.randn(n, 2, generator=draw, dtype=torch.float64) for n in (cut["L"], cut["S"], cut["S"])
        )
        query *= scale
        given.append([query.tolist(), key.tolist(), value.tolist(), cut])
        scores = (query @ key.T / 2**0.5).masked_fill(~seen(cut), -torch.inf)
        want.append((scores, value, scaled_dot_product_attention(query, key, value, seen(cut)).output))
    for (*_, cut), (scores, value, output), answer in zip(given, want, call("lib/tiles", "walk", given), strict=True):
        close(answer["output"], output)
        assert max(answer["apart"]) < 1e-12
        for step in answer["steps"]:
            rows, columns = place(step["tile"])
            close(step["scores"], scores[rows, columns])
            sofar, before = scores[rows, : columns.stop], scores[rows, : columns.start]
            maximum = sofar.amax(-1)
            old = before.amax(-1) if columns.start else torch.full_like(maximum, -torch.inf)
            terms = (sofar - maximum.clamp(min=-1e300).unsqueeze(-1)).exp()
            kept = {name: tensor([row[name] for row in step["kept"]]) for name in step["kept"][0]}
            close(kept["maximum"].tolist(), maximum)
            close(kept["total"].tolist(), terms.sum(-1))
            close(kept["sum"].tolist(), terms[:, columns.start :].sum(-1))
            close(kept["output"].tolist(), terms @ value[: columns.stop])
            close(kept["factor"].tolist(), (old - maximum.clamp(min=-1e300)).exp())
        assert sum(cut["L"] > 0 for _ in answer["output"]) == cut["L"]


class Slow:
    """Memory that counts what is read from it and written to it."""

    def __init__(self) -> None:
        self.moved = 0

    def read(self, x: Tensor) -> Tensor:
        self.moved += x.numel()
        return x.clone()

    def write(self, into: Tensor, x: Tensor) -> None:
        self.moved += x.numel()
        into.copy_(x)


def naive(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> tuple[Tensor, int]:
    slow, table, output = Slow(), torch.empty(allowed.shape, dtype=query.dtype), torch.empty_like(query)
    slow.write(table, slow.read(query) @ slow.read(key).T)
    scores = (slow.read(table) / query.shape[-1] ** 0.5).masked_fill(~allowed, -torch.inf)
    slow.write(table, scores.softmax(-1).nan_to_num(0.0))
    slow.write(output, slow.read(table) @ slow.read(value))
    return output, slow.moved


def blocks(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, rows: int, columns: int) -> tuple[Tensor, int]:
    slow, output = Slow(), torch.empty_like(query)
    for i in range(0, len(query), rows):
        here = allowed[i : i + rows]
        maximum = torch.full((len(here), 1), -1e300, dtype=query.dtype)
        total, sofar, q = torch.zeros_like(maximum), torch.zeros_like(query[i : i + rows]), None
        for j in range(0, len(key), columns):
            if not here[:, j : j + columns].any():
                continue
            q = slow.read(query[i : i + rows]) if q is None else q
            k, v = slow.read(key[j : j + columns]), slow.read(value[j : j + columns])
            scores = (q @ k.T / query.shape[-1] ** 0.5).masked_fill(~here[:, j : j + columns], -torch.inf)
            larger = torch.maximum(maximum, scores.amax(-1, keepdim=True))
            terms, factor = (scores - larger).exp(), (maximum - larger).exp()
            total, sofar, maximum = factor * total + terms.sum(-1, keepdim=True), factor * sofar + terms @ v, larger
        slow.write(output[i : i + rows], sofar / total.masked_fill(total == 0, 1.0))
    return output, slow.moved


def test_the_count_is_what_a_run_moves():
    given = [[cut, 1 + count % 5] for count, cut in enumerate(cuts(32, 150))]
    for (cut, width), answer in zip(given, call("lib/tiles", "traffic", given), strict=True):
        query, key, value = (torch.randn(n, width, dtype=torch.float64) for n in (cut["L"], cut["S"], cut["S"]))
        want = scaled_dot_product_attention(query, key, value, seen(cut)).output
        for name, way, more in (("naive", naive, ()), ("tiled", blocks, (cut["rows"], cut["columns"]))):
            with FlopCounterMode(display=False) as counter:
                output, moved = way(query, key, value, seen(cut), *more)
            torch.testing.assert_close(output, want)
            assert answer[name] == {"moved": moved, "flops": counter.get_total_flops()}


def test_the_steps_of_the_walk_move_what_is_moved_in_all():
    given = [cut for cut in cuts(33, MANY, 12) if not cut["causal"] or cut["L"] <= cut["S"]]
    totals = call("lib/tiles", "traffic", [[cut, 2] for cut in given])
    walks = call("lib/tiles", "tiles", [[cut] for cut in given])
    flat = call("lib/tiles", "crossing", [[tile, 2] for walk in walks for tile in walk])
    for walk, total in zip(walks, totals, strict=True):
        assert sum(flat[: len(walk)]) == total["tiled"]["moved"]
        flat = flat[len(walk) :]
    assert not flat


def test_the_largest_blocks_that_fit():
    draw = random.Random(34)
    given = [[draw.randint(2000, 10**6), 2 ** draw.randint(0, 8)] for _ in range(MANY)]
    for (room, width), side in zip(given, call("lib/tiles", "fit", given), strict=True):
        assert side == 1 or 4 * side * width + side**2 <= room
        assert 4 * (side + 1) * width + (side + 1) ** 2 > room


def test_the_theorem_at_4096():
    """By hand: 128 KiB are M = 65,536 numbers; B = √(4·64² + M) − 128 = 158; ⌈4096/158⌉ = 26 rows of tiles."""
    assert call("lib/tiles", "fit", [[65_536, 64]]) == [158]
    cut = {"L": 4096, "S": 4096, "rows": 158, "columns": 158, "causal": False}
    (answer,) = call("lib/tiles", "traffic", [[cut, 64]])
    assert answer["naive"] == {"moved": 4 * 4096 * 64 + 4 * 4096**2, "flops": 4 * 4096**2 * 64}
    assert answer["tiled"] == {"moved": 2 * 4096 * 64 * (1 + 26), "flops": 4 * 4096**2 * 64}
    # Θ(N²d²/M) of Dao et al., 2022, theorem 2: four times the width d costs nearly sixteen times the traffic.
    assert answer["tiled"]["moved"] == pytest.approx(8 * 4096**2 * 64**2 / 65_536, rel=0.8)


def test_a_tile_that_is_not_there_is_refused():
    assert TilingExplorer(step=8).step == 8
    with pytest.raises(traitlets.TraitError, match="step must be at most the number of tiles, 8, got 9"):
        TilingExplorer(step=9)
    figure = TilingExplorer(block_keys=1, step=16)
    figure.block_keys = 8
    assert figure.step == 2
    figure.reset()
    assert (figure.block_keys, figure.step) == (1, 16)


def test_python_and_javascript_walk_alike():
    for cut, tiles in zip(
        cuts(35, 200, 12), call("lib/tiles", "tiles", [[cut] for cut in cuts(35, 200, 12)]), strict=True
    ):
        figure = TilingExplorer(
            query_length=cut["L"], key_length=cut["S"], block_queries=cut["rows"], block_keys=cut["columns"],
            causal=cut["causal"], step=0,
        )  # fmt: skip
        assert figure._walk() == [(tile["i0"], tile["j0"]) for tile in tiles]
