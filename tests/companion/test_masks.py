"""Masks against brute-force loops; their algebra; FlexAttention's form of them."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from companion import Mask, attend, causal, document, padding, sliding_window
from tests.companion.helpers import Cell, table

quick = settings(max_examples=40, deadline=None)

IDS = torch.tensor([[7, 7, 2, 2, 2], [1, 1, 1, 1, 1]])
REAL = torch.tensor([[False, True, True, False, True], [True] * 5])

# Each mask, and the same said in Python ints; L and S are filled in.
RULES: dict[str, tuple[Callable[[], Mask], Callable[[int, int], Cell]]] = {
    "causal": (causal, lambda L, S: lambda b, h, q, k: k <= q + S - L),
    "causal, offset 2": (lambda: causal(2), lambda L, S: lambda b, h, q, k: k <= q + 2),
    "causal, offset -1": (lambda: causal(-1), lambda L, S: lambda b, h, q, k: k <= q - 1),
    "window": (lambda: sliding_window(2), lambda L, S: lambda b, h, q, k: 0 <= q + S - L - k < 2),
    "both sides": (lambda: sliding_window(2, causal=False), lambda L, S: lambda b, h, q, k: abs(q + S - L - k) < 2),
    "padding": (lambda: padding([3, 5]), lambda L, S: lambda b, h, q, k: k < (3, 5)[b]),
    "padding table": (lambda: padding(REAL), lambda L, S: lambda b, h, q, k: bool(REAL[b, k])),
    "document": (lambda: document(IDS), lambda L, S: lambda b, h, q, k: bool(IDS[b, q + S - L] == IDS[b, k])),
    "own": (
        lambda: Mask(lambda b, h, q, k: (q + k + h) % 2 == b),
        lambda L, S: lambda b, h, q, k: (q + k + h) % 2 == b,
    ),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("length", [5, 3, 1, 7, 0])
def test_dense_equals_loops(name: str, length: int, device: str):
    make, cell = RULES[name]
    if name == "document" and length > 5:
        with pytest.raises(ValueError, match="at most as many queries as keys, got L=7 and S=5"):
            make().dense(2, 3, length, 5)
        return
    dense = make().dense(2, 3, length, 5, device)
    assert dense.dtype == torch.bool
    assert dense.device.type == device
    assert torch.equal(dense.cpu(), table(2, 3, length, 5, cell(length, 5)))
    dense.zero_()  # a table of its own: nothing behind it is shared
    assert torch.equal(make().dense(2, 3, length, 5).cpu(), table(2, 3, length, 5, cell(length, 5)))


@pytest.mark.parametrize("name", RULES)
def test_a_rule_answers_scalars(name: str):
    """As FlexAttention asks it: four index tensors without dims."""
    make, cell = RULES[name]
    rule, say = make().rule(2, 3, 5), cell(3, 5)
    for b, h, q, k in ((0, 0, 0, 0), (1, 2, 2, 4), (0, 1, 1, 3), (1, 0, 2, 0)):
        answer = rule(*(torch.tensor(i) for i in (b, h, q, k)))
        assert answer.dim() == 0
        assert bool(answer) == say(b, h, q, k)


@pytest.mark.parametrize("name", RULES)
def test_compact_keeps_what_does_not_vary_at_one(name: str):
    make, cell = RULES[name]
    compact = make().compact(2, 3, 4, 5)
    assert torch.equal(compact.expand(2, 3, 4, 5), table(2, 3, 4, 5, cell(4, 5)))
    expected = {
        "padding": (2, 1, 1, 5),
        "padding table": (2, 1, 1, 5),
        "document": (2, 1, 4, 5),
        "own": (2, 3, 4, 5),
    }.get(name, (1, 1, 4, 5))
    assert compact.shape == expected


@quick
@given(st.sampled_from(list(RULES)), st.sampled_from(list(RULES)), st.integers(1, 5))
def test_algebra(one: str, two: str, length: int):
    a, b = RULES[one][0](), RULES[two][0]()
    sizes = (2, 2, length, 5)
    left, right = a.dense(*sizes), b.dense(*sizes)
    assert torch.equal((a & b).dense(*sizes), left & right)
    assert torch.equal((a | b).dense(*sizes), left | right)
    assert torch.equal((~a).dense(*sizes), ~left)
    assert torch.equal((~(a & b)).dense(*sizes), (~a | ~b).dense(*sizes))
    assert torch.equal((~(a | b)).dense(*sizes), (~a & ~b).dense(*sizes))
    assert torch.equal((~~a).dense(*sizes), left)


@quick
@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 12))
def test_a_window_is_exactly_as_wide_as_it_says(window: int, length: int, more: int):
    keys = length + more
    seen = sliding_window(window).dense(1, 1, length, keys)[0, 0].sum(-1)
    assert seen.tolist() == [min(window, position + 1) for position in range(more, keys)]
    both = sliding_window(window, causal=False).dense(1, 1, length, keys)[0, 0].sum(-1)
    want = [min(window, p + 1) + min(window, keys - p) - 1 for p in range(more, keys)]
    assert both.tolist() == want


@pytest.mark.parametrize("name", [*RULES, "combined"])
def test_block_mask_agrees_with_dense(name: str):
    combined = (causal() & padding([3, 5])) | ~sliding_window(2, causal=False)
    mask = combined if name == "combined" else RULES[name][0]()
    from torch.nn.attention.flex_attention import create_mask

    block = mask.block_mask(2, 3, 4, 5)
    assert block.shape == (2, 3, 4, 5)
    assert torch.equal(create_mask(block.mask_mod, 2, 3, 4, 5, device="cpu"), mask.dense(2, 3, 4, 5))


def test_block_mask_of_a_predicate_that_names_no_arguments():
    mask = Mask(lambda *index: index[3] <= index[2])
    assert mask.block_mask(1, 1, 4, 4).mask_mod(0, 0, 2, 1)
    assert torch.equal(mask.dense(1, 1, 4, 4), causal().dense(1, 1, 4, 4))


def test_block_mask_skips_what_is_hidden():
    """Four blocks of 128 x 128: causal hides one and needs the rule in two."""
    dense = causal().block_mask(1, 1, 256, 256).to_dense()
    assert dense[0, 0].tolist() == [[1, 0], [1, 1]]


def test_nothing_to_look_at():
    for rule in (causal(), sliding_window(2), causal() & sliding_window(1)):
        assert rule.dense(1, 1, 3, 0).shape == (1, 1, 3, 0)
        assert rule.dense(0, 2, 3, 4).shape == (0, 2, 3, 4)
    assert padding([]).dense(0, 1, 2, 3).shape == (0, 1, 2, 3)
    assert document(torch.zeros(2, 0, dtype=torch.long)).dense(2, 1, 0, 0).shape == (2, 1, 0, 0)


def test_padding_takes_lengths_in_any_form():
    want = padding(torch.tensor([2, 3])).dense(2, 1, 2, 3)
    for lengths in ([2, 3], (2, 3), torch.tensor([2, 3], dtype=torch.uint8)):
        assert torch.equal(padding(lengths).dense(2, 1, 2, 3), want)


def test_a_mask_remembers_its_batch():
    assert causal().batch is None
    assert (causal() & ~padding([1, 2])).batch == 2
    with pytest.raises(ValueError, match=r"padding was given 2 lengths, used with a batch of 3"):
        (causal() & padding([1, 2])).dense(3, 1, 2, 2)
    with pytest.raises(ValueError, match=r"padding was given a length of 4, used with 3 keys"):
        padding([1, 4]).dense(2, 1, 2, 3)
    with pytest.raises(ValueError, match=r"padding was given \(2, 5\), used with \(B, S\) = \(2, 4\)"):
        padding(REAL).dense(2, 1, 2, 4)
    with pytest.raises(ValueError, match=r"document was given ids of shape \(2, 5\), used with \(B, S\) = \(2, 4\)"):
        document(IDS).dense(2, 1, 2, 4)


def test_a_mask_has_no_truth():
    """``causal() and padding(...)`` would quietly be ``padding(...)``."""
    with pytest.raises(TypeError, match="not and, or and not"):
        _ = causal() and sliding_window(2)
    with pytest.raises(TypeError, match="neither true nor false"):
        not causal()


def test_names():
    assert repr(causal() & ~sliding_window(2)) == "Mask((causal() & ~sliding_window(2)))"
    assert (
        repr(sliding_window(3, causal=False) | causal(1))
        == "Mask((sliding_window(3, causal=False) | causal(offset=1)))"
    )
    assert repr(Mask(lambda b, h, q, k: q == k, "diagonal")) == "Mask(diagonal)"


def test_a_predicate_that_ignores_all_but_the_keys():
    mask = Mask(lambda b, h, q, k: k.flatten() < 2)
    assert mask.compact(2, 3, 4, 5).shape == (1, 1, 1, 5)
    assert mask.dense(1, 1, 1, 5).flatten().tolist() == [True, True, False, False, False]
    scalar = Mask(lambda b, h, q, k: torch.tensor(True))
    assert scalar.dense(1, 1, 2, 2).all()


def test_a_mask_may_live_elsewhere_than_its_tensors(device: str):
    q = torch.rand(2, 2, 3, 4, device=device)
    rule = padding(torch.tensor([1, 3])) & causal()
    assert attend(q, q, q, rule).device.type == device


def test_plot_draws_the_table():
    axes = causal().plot(["a", "b", "c"])
    assert axes.images[0].get_array().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
