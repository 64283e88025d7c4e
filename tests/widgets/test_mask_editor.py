"""The mask editor's tables, weights and code are companion's."""

import random
from typing import Any

import pytest
import torch
import traitlets

from companion import masks, scaled_dot_product_attention
from companion.widgets import MaskEditor
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close

HOW = ["off", "and", "or", "and not", "or not"]
NAMES = MaskEditor.state_names()


@pytest.fixture(scope="module")
def editors() -> list[MaskEditor]:
    """A thousand, each as a reader or a teacher might leave it."""
    draw = random.Random(11)
    made = []
    for _ in range(MANY):
        size = draw.randint(2, 12)
        made.append(
            MaskEditor(
                tokens=[draw.choice(["a", "[pad]", "<img src=x>"]) for _ in range(size)],
                **{rule: draw.choice(HOW) for rule in ("causal", "padding", "window", "document")},
                length=draw.randint(0, size),
                side=draw.choice(["right", "left"]),
                width=draw.randint(1, 12),
                ids=[draw.randint(0, 2) for _ in range(size)],
                by_hand=[
                    [draw.randrange(size), draw.randrange(size), draw.random() < 0.5]
                    for _ in range(draw.choice([0, 0, 1, 5]))
                ],
                scores=[[draw.uniform(-10, 10) for _ in range(size)] for _ in range(size)],
                inverted=draw.random() < 0.3,
                empty=draw.choice(["zeros", "nan", "uniform"]),
            )
        )
    return made


@pytest.fixture(scope="module")
def given(editors: list[MaskEditor]) -> list[list[Any]]:
    return [[{name: getattr(editor, name) for name in NAMES}] for editor in editors]


def by_formula(editor: MaskEditor) -> list[list[bool]]:
    """The rules by plain comparisons, joined from left to right."""
    size = len(editor.tokens)
    pads = size - editor.length
    set_by_hand = {(q, k): allowed for q, k, allowed in editor.by_hand}

    def answer(q: int, k: int) -> bool:
        rules = {
            "causal": k <= q,
            "padding": k >= pads if editor.side == "left" else k < editor.length,
            "window": abs(q - k) < editor.width,
            "document": editor.ids[q] == editor.ids[k],
        }
        terms = [(getattr(editor, name), holds) for name, holds in rules.items() if getattr(editor, name) != "off"]
        sofar = True
        for count, (how, holds) in enumerate(terms):
            term = holds ^ how.endswith("not")
            sofar = term if not count else (sofar or term if how.startswith("or") else sofar and term)
        return set_by_hand.get((q, k), sofar)

    return [[answer(q, k) for k in range(size)] for q in range(size)]


def test_the_table_is_the_same_in_python_and_in_the_browser(editors: list[MaskEditor], given: list[list[Any]]):
    for editor, answer in zip(editors, call("lib/rules", "mask", given), strict=True):
        assert editor.mask == by_formula(editor)
        assert answer == editor.mask


def test_the_weights(editors: list[MaskEditor], given: list[list[Any]]):
    for editor, answer in zip(editors, call("lib/rules", "compute", given), strict=True):
        seen = torch.tensor(editor.mask) ^ editor.inverted
        assert answer["seen"] == seen.tolist()
        weights = tensor(editor.weights)
        got = tensor(answer["weights"])
        assert torch.equal(got.isnan(), weights.isnan())
        close(got.nan_to_num(7).tolist(), weights.nan_to_num(7))
        # Rows that see something are attention's, whichever way is taken; zeros are attention's in the others too.
        scores = tensor(editor.scores)
        eye = torch.eye(len(scores), dtype=torch.float64)
        want = scaled_dot_product_attention(scores, eye, eye, seen, scale=1.0).weights
        blind = ~seen.any(-1)
        close(got[~blind].tolist() or [[]], want[~blind] if (~blind).any() else torch.empty(1, 0))
        assert answer["blind"] == blind.nonzero().flatten().tolist()
        fill = {"zeros": 0.0, "nan": torch.nan, "uniform": 1 / len(scores)}[editor.empty]
        assert torch.allclose(got[blind], torch.full_like(got[blind], fill), atol=1e-12, equal_nan=True)


def test_what_lies_where_it_should_not(editors: list[MaskEditor], given: list[list[Any]]):
    for editor, answer in zip(editors, call("lib/rules", "compute", given), strict=True):
        size = len(editor.tokens)
        place = torch.arange(size)
        real = place >= size - editor.length if editor.side == "left" else place < editor.length
        weights = tensor(editor.weights)[real]
        later = (place[None] > place[:, None]) & real[None]
        want = [weights[:, ~real], weights.where(later[real], 0.0)]
        for got, each in zip((answer["onPads"], answer["onLater"]), want, strict=True):
            assert tensor(got).allclose(each.sum() / max(1, int(real.sum())), atol=1e-6, equal_nan=True)


def test_the_code_makes_the_table(editors: list[MaskEditor], given: list[list[Any]]):
    """What is printed, run in Python, is the mask."""
    words: dict[str, Any] = {"torch": torch, **{name: getattr(masks, name) for name in masks.__all__}}
    for editor, answer in zip(editors, call("lib/rules", "code", given), strict=True):
        assert answer == editor.code
        made = dict(words)
        exec(answer, made)
        rule, size = made["mask"], len(editor.tokens)
        if rule is None:
            rule = torch.ones(size, size, dtype=torch.bool)
        elif not isinstance(rule, torch.Tensor):
            rule = rule.dense(1, 1, size, size)[0, 0]
        assert rule.tolist() == editor.mask


def test_names_stand_aside_for_padding(editors: list[MaskEditor], given: list[list[Any]]):
    for editor, answer in zip(editors, call("lib/rules", "names", given), strict=True):
        assert answer == editor.names
    assert MaskEditor(tokens=list("abc"), length=1, side="left").names == ["[pad]", "[pad]", "a"]


def test_a_cell_set_twice_is_as_it_was(editors: list[MaskEditor], given: list[list[Any]]):
    draw = random.Random(12)
    spots = [[draw.randrange(len(e.tokens)), draw.randrange(len(e.tokens))] for e in editors]
    first = [[*g, *spot, not e.mask[spot[0]][spot[1]]] for g, spot, e in zip(given, spots, editors, strict=True)]
    for editor, (q, k), cells in zip(editors, spots, call("lib/rules", "withCell", first), strict=True):
        before = editor.mask
        editor.by_hand = cells
        assert editor.mask[q][k] is not before[q][k]
        editor.mask[q][k] = before[q][k]
        changed = [(i, j) for i, row in enumerate(editor.mask) for j, x in enumerate(row) if x is not before[i][j]]
        assert changed == [(q, k)]
        editor.reset()


@pytest.mark.parametrize(
    ("ids", "at", "want"),
    [([0, 0, 0], 1, [0, 1, 1]), ([0, 1, 1], 1, [0, 0, 0]), ([0, 0, 1, 1], 1, [0, 1, 2, 2]), ([3, 0, 3], 2, [0, 1, 1])],
)
def test_a_document_begins_where_it_is_told(ids: list[int], at: int, want: list[int]):
    assert call("lib/rules", "parted", [[ids, at]]) == [want]


def test_the_empty_row_of_the_book():
    """Two pads on the left and causal: the first two rows see nothing."""
    editor = MaskEditor(tokens=list("abcde"), length=3, side="left", causal="and", padding="and")
    assert editor.weights[:2] == [[0.0] * 5] * 2
    editor.empty = "uniform"
    assert editor.weights[:2] == [[0.2] * 5] * 2
    editor.empty = "nan"
    assert all(x != x for row in editor.weights[:2] for x in row)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"tokens": ["one"]}, "tokens"),
        ({"tokens": ["x"] * 13}, "tokens"),
        ({"length": 7}, "length must be at most the number of tokens, 6, got 7"),
        ({"ids": [0, 1]}, "ids must have one number a token, 6, got 2"),
        ({"scores": [[0.0] * 5] * 6}, "scores must have shape"),
        ({"scores": [[11.0] * 6] * 6}, "scores must have numbers from -10 to 10"),
        ({"by_hand": [[0, 6, True]]}, "by_hand must have queries and keys from 0 to 5"),
        ({"by_hand": [[0, 1]]}, "by_hand must have"),
        ({"by_hand": [[0, 1, 2]]}, "by_hand must have"),
        ({"causal": "yes"}, "causal"),
        ({"width": 0}, "width"),
        ({"empty": "0"}, "empty"),
    ],
)
def test_nonsense_is_refused(state: dict[str, Any], says: str):
    with pytest.raises(traitlets.TraitError, match=says):
        MaskEditor(**state)


def test_the_number_of_tokens_stays():
    editor = MaskEditor()
    editor.tokens = list("uvwxyz")
    assert editor.names[:4] == list("uvwx")
    with pytest.raises(traitlets.TraitError, match="tokens must stay 6, got 5"):
        editor.tokens = list("uvwxy")
