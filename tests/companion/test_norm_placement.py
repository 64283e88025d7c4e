"""The script behind chapter 9's comparison of norms, and what it has stored."""

import json

import torch

from companion.benchmarks.norm_placement import (
    BATCH,
    EVERY,
    KINDS,
    LR,
    MODEL,
    RESULTS,
    SEEDS,
    STEPS,
    TARGET,
    NormedBlock,
    build,
)

ADDING = ("W_O.weight", "W_2.weight")


def test_kinds_begin_with_the_same_numbers():
    pre = build(3, num_layers=2).state_dict()
    post = build(3, norm_first=False, num_layers=2).state_dict()
    assert set(pre) - set(post) == {"encoder.norm.weight", "encoder.norm.bias"}
    assert all(torch.equal(pre[name], post[name]) for name in post)


def test_a_small_start_divides_what_adds_to_the_stream():
    plain = build(3, norm_first=False, num_layers=2).state_dict()
    small = build(3, norm_first=False, small=True, num_layers=2).state_dict()
    for name in plain:
        divided = name.startswith("encoder.blocks") and name.endswith(ADDING)
        torch.testing.assert_close(
            small[name], plain[name] / 2 if divided else plain[name]
        )  # 2 = √(2 blocks · 2 parts)


def test_the_fault_hides_the_stream():
    block = NormedBlock(8, 2, norm_first=True)
    for weight in (block.attention.W_O.weight, block.feed_forward.W_2.weight):
        torch.nn.init.zeros_(weight)
    x = 5 * torch.randn(1, 3, 8)
    torch.testing.assert_close(block(x).norm(dim=-1), torch.full((1, 3), 8**0.5), rtol=1e-3, atol=0)


def test_stored_runs_are_those_of_the_script():
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    numbers = {"model": MODEL, "kinds": KINDS, "steps": STEPS, "batch": BATCH, "lr": LR, "every": EVERY}
    assert stored["recipe"].items() >= (numbers | {"target": TARGET}).items()
    assert {(run["kind"], run["seed"]) for run in stored["runs"]} == {(kind, seed) for kind in KINDS for seed in SEEDS}
    assert len(stored["runs"]) == len(KINDS) * len(SEEDS)
    for run in stored["runs"]:
        done = len(run["accuracy"]) * EVERY
        assert len(run["loss"]) * 10 == done
        assert done == STEPS or run["accuracy"][-1] >= TARGET
