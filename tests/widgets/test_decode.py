"""What the figure says a cache saves and holds, counted on companion's own attention and cache."""

import random
from typing import Any

import pytest
import torch
import traitlets
from torch.utils.flop_counter import FlopCounterMode

from companion.attention import split_heads
from companion.cache import KVCache
from companion.multihead import MultiHeadAttention
from companion.widgets import DecodeExplorer
from tests.widgets.javascript import call
from tests.widgets.test_maths import MANY

SIZES = {torch.float32: 4, torch.bfloat16: 2}


def decoders(seed: int, count: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        groups = 2 ** draw.randint(0, 2)
        made.append({
            "layers": draw.randint(1, 3), "kvHeads": groups, "heads": groups * 2 ** draw.randint(0, 2),
            "width": 2 * draw.randint(1, 6), "size": draw.choice([4, 2]),
        })  # fmt: skip
    return made


def attention(of: dict[str, Any], layer: int = 0, dtype: torch.dtype = torch.float32) -> MultiHeadAttention:
    model = MultiHeadAttention(
        of["heads"] * of["width"], of["heads"], num_kv_heads=of["kvHeads"], bias=False, layer=layer, backend="reference"
    )
    return model.to(dtype)


def multiply_adds(run: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


@torch.no_grad()
def test_work_is_what_the_reference_computes():
    steps = 5
    made = decoders(40, 25)
    answers = call("lib/decoding", "work", [[of, t] for of in made for t in range(1, steps + 1)])
    for k, of in enumerate(made):
        stack = [attention(of, layer) for layer in range(of["layers"])]
        x = torch.randn(1, steps, of["heads"] * of["width"])
        cache = KVCache(steps, of["layers"])
        for t in range(1, steps + 1):
            without = multiply_adds(lambda: [layer(x[:, :t], causal=True) for layer in stack])  # noqa: B023
            cached = multiply_adds(lambda: [layer(x[:, t - 1 : t], causal=True, cache=cache) for layer in stack])  # noqa: B023
            assert answers[k * steps + t - 1] == {"without": without, "with": cached}


@torch.no_grad()
def test_kept_and_made_are_the_bytes_of_tensors():
    steps = 4
    made = decoders(41, 60)
    held = call("lib/decoding", "kept", [[of, t] for of in made for t in range(1, steps + 1)])
    dropped = call("lib/decoding", "made", [[of, t] for of in made for t in range(1, steps + 1)])
    for k, of in enumerate(made):
        dtype = next(kind for kind, size in SIZES.items() if size == of["size"])
        model = attention(of, dtype=dtype)
        cache = KVCache(steps, of["layers"])
        x = torch.randn(1, steps, of["heads"] * of["width"]).to(dtype)
        for t in range(1, steps + 1):
            bytes_held, now = 0, []
            for layer in range(of["layers"]):
                now = list(model.keys_and_values(x[:, t - 1 : t]))
                bytes_held += sum(each.nbytes for each in cache.update(layer, *now))
            assert held[k * steps + t - 1] == bytes_held
            _, weights = model(x[:, :t], causal=True, need_weights=True)
            whole = [split_heads(model.W_Q(x[:, :t]), of["heads"]), *model.keys_and_values(x[:, :t]), weights]
            last = [split_heads(model.W_Q(x[:, t - 1 : t]), of["heads"]), *now, weights[:, :, -1:]]
            assert dropped[k * steps + t - 1] == {
                name: sum(each.numel() * of["size"] for each in parts)
                for name, parts in (("without", whole), ("with", last))
            }


def test_so_far_is_the_sum_of_the_steps():
    draw = random.Random(42)
    given = [[of, draw.randint(1, 30)] for of in decoders(43, MANY)]
    sums = call("lib/decoding", "workSoFar", given)
    steps = iter(call("lib/decoding", "work", [[of, s] for of, t in given for s in range(1, t + 1)]))
    for (_, t), answer in zip(given, sums, strict=True):
        each = [next(steps) for _ in range(t)]
        assert answer == {name: sum(step[name] for step in each) for name in ("without", "with")}


def test_the_cells_are_what_is_counted():
    given = [[n, t, cached] for n in range(2, 13) for t in range(1, n + 1) for cached in (False, True)]
    for (n, t, cached), answer in zip(given, call("lib/decoding", "cells", given), strict=True):
        old = "kept" if cached else "again"
        for name in ("key", "value"):
            assert answer[name] == [old] * (t - 1) + ["new"] + [""] * (n - t)
        assert answer["query"] == [("" if cached else "again")] * (t - 1) + ["new"] + [""] * (n - t)
        scores = [kind for row in answer["scores"] for kind in row]
        assert scores.count("new") == t
        assert scores.count("again") == (0 if cached else t * t - t)
        assert answer["scores"][t - 1][:t] == ["new"] * t


def test_llama_3_8b_keeps_128_kib_a_token():
    """32 layers of 8 key/value heads of 128, two vectors each, two bytes a number: 131,072."""
    llama = {"layers": 32, "heads": 32, "kvHeads": 8, "width": 128, "size": 2}
    assert call("lib/decoding", "kept", [[llama, 1], [llama, 8192]]) == [131_072, 2**30]


def test_numbers_are_short():
    given = [[0], [999_999], [1e6], [123_456_789], [2.5e15], [7e20]]
    assert call("lib/units", "count", given) == ["0", "999,999", "1 M", "123 M", "2.5 P", "700 E"]
    given = [[0], [1023], [1024], [1536], [2**30], [128 * 2**30]]
    assert call("lib/units", "bytes", given) == ["0 B", "1,023 B", "1 KiB", "1.5 KiB", "1 GiB", "128 GiB"]
    assert call("lib/units", "times", [[1], [3.94], [8192]]) == ["1 ×", "3.9 ×", "8,190 ×"]


def test_what_is_not_there_is_refused():
    with pytest.raises(traitlets.TraitError, match="step must be at most the number of tokens, 2, got 3"):
        DecodeExplorer(tokens=["a", "b"], step=3)
    with pytest.raises(traitlets.TraitError, match="kv_heads must be at most heads, 4, got 8"):
        DecodeExplorer(heads=4, kv_heads=8)
    figure = DecodeExplorer(heads=16, kv_heads=16)
    figure.heads = 2
    assert figure.kv_heads == 2
    figure.reset()
    assert (figure.heads, figure.kv_heads) == (16, 16)
    with pytest.raises(traitlets.TraitError, match="tokens must stay 8 in number, got 5"):
        figure.tokens = list("abcde")
