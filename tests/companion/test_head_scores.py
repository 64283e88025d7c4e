"""Head scores: against heads that do one thing only, and against a loop over positions."""

import pytest
import torch
from torch import Tensor

from companion.interpret import head_scores

TOKENS = torch.tensor([[5, 6, 7, 5, 6, 7, 7]])
# Worked out by looking: query -> key, for those that count.
INDUCTION = {3: 1, 4: 2, 5: 3}  # at 6, a 7 after a 7: the last 7 is at 5, and what came after it is 6 itself
DUPLICATE = {3: 0, 4: 1, 5: 2, 6: 5}
TARGETS = {
    "previous": {i: i - 1 for i in range(1, 7)},
    "first": dict.fromkeys(range(1, 7), 0),
    "diagonal": {i: i for i in range(1, 7)},
    "induction": INDUCTION,
    "duplicate": DUPLICATE,
}


def hard(targets: dict[int, int], length: int = 7) -> Tensor:
    """A head that looks at its target, and at the first token where it has none."""
    weights = torch.zeros(1, 1, length, length)
    for i in range(length):
        weights[0, 0, i, targets.get(i, 0)] = 1.0
    return weights


@pytest.mark.parametrize("kind", TARGETS)
def test_a_head_that_does_nothing_else_scores_one(kind: str):
    assert head_scores(hard(TARGETS[kind]), kind, tokens=TOKENS).tolist() == [[1.0]]


@pytest.mark.parametrize("kind", TARGETS)
def test_one_that_does_something_else_scores_the_share_of_shared_targets(kind: str):
    for other, targets in TARGETS.items():
        looks = [targets.get(i, 0) == key for i, key in TARGETS[kind].items()]
        score = head_scores(hard(targets), kind, tokens=TOKENS).item()
        assert score == pytest.approx(sum(looks) / len(looks)), other


def slow(weights: Tensor, kind: str, tokens: list[list[int]], real: list[list[bool]]) -> list[float]:
    """By the definition, position by position."""
    answers = []
    for head in range(weights.shape[1]):
        found = []
        for b, row in enumerate(tokens):
            places = [i for i, yes in enumerate(real[b]) if yes]
            for n, i in enumerate(places):
                seen = [j for j in places[:n] if row[j] == row[i]]
                key = None
                if kind == "previous" and n:
                    key = places[n - 1]
                elif kind == "first" and n:
                    key = places[0]
                elif kind == "diagonal" and n:
                    key = i
                elif kind == "duplicate" and seen:
                    key = seen[-1]
                elif kind == "induction" and seen and places[places.index(seen[-1]) + 1] != i:
                    key = places[places.index(seen[-1]) + 1]
                if key is not None:
                    found.append(weights[b, head, i, key].item())
        answers.append(sum(found) / len(found))
    return answers


@pytest.mark.parametrize("padded", ["not", "left", "right", "both, and a hole"])
def test_against_a_loop(device: str, padded: str):
    g = torch.Generator().manual_seed(3)
    layers = [torch.rand(3, 4, 9, 9, generator=g, dtype=torch.float64).softmax(-1) for _ in range(2)]
    tokens = torch.randint(3, (3, 9), generator=g)
    real = torch.ones(3, 9, dtype=torch.bool)
    if padded == "left":
        real[0, :3] = real[1, :1] = False
    elif padded == "right":
        real[0, 6:] = real[1, 8:] = False
    elif padded != "not":
        real[0, :2] = real[0, 7:] = real[1, 4] = False
    scores = head_scores([x.to(device) for x in layers], tokens=tokens.to(device), real=real.to(device))
    assert list(scores) == ["previous", "first", "diagonal", "induction", "duplicate"]
    for kind, found in scores.items():
        want = [slow(x, kind, tokens.tolist(), real.tolist()) for x in layers]
        torch.testing.assert_close(found.cpu(), torch.tensor(want, dtype=torch.float64))
        assert torch.equal(head_scores([x.to(device) for x in layers], kind, tokens=tokens.to(device),
                                       real=real.to(device)), found)  # fmt: skip


def test_what_stands_in_padding_does_not_count():
    weights = torch.rand(1, 2, 6, 6)
    spoilt, real = weights.clone(), torch.tensor([[False, True, True, True, True, False]])
    spoilt[:, :, [0, 5]] = torch.nan
    spoilt[:, :, :, [0, 5]] = 7.0
    tokens = torch.tensor([[1, 1, 2, 1, 2, 1]])
    for kind, score in head_scores(weights, tokens=tokens, real=real).items():
        assert torch.equal(head_scores(spoilt, kind, tokens=tokens, real=real), score)


def test_without_tokens_there_are_three():
    assert list(head_scores(torch.rand(1, 1, 3, 3))) == ["previous", "first", "diagonal"]


def test_even_attention_scores_what_chance_gives():
    """1 / (i + 1) at query i of a causal head, the same for each key."""
    even = torch.ones(1, 1, 6, 6, dtype=torch.float64).tril()
    even = even / even.sum(-1, keepdim=True)
    chance = sum(1 / (i + 1) for i in range(1, 6)) / 5
    for score in head_scores(even).values():
        assert score.item() == pytest.approx(chance)
