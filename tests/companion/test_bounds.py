"""Bounds leave out no pair that may attend; exact ones let in no other."""

import itertools

import pytest
import torch

from companion import Mask, causal, document, padding, sliding_window
from companion.bounds import Bounds
from companion.call import Call
from companion.masks import bigbird, longformer, prefix_lm

SIZES = ((6, 6), (2, 6), (6, 2), (1, 6))
MADE = {
    "causal": lambda S: causal(),
    "causal(1)": lambda S: causal(1),
    "window": lambda S: sliding_window(2),
    "two-sided": lambda S: sliding_window(3, causal=False),
    "padding": lambda S: padding([S, S - 1]),
    "shorter": lambda S: padding([S - 2, S]),
    "table": lambda S: padding(torch.arange(S).repeat(2, 1) > 0),
    "prefix": lambda S: prefix_lm([1, 2]),
    "longformer": lambda S: longformer(1, [0]),
    "bigbird": lambda S: bigbird(1, seed=0),
    "own": lambda S: Mask(lambda b, h, q, k: (q + k) % 2 == 0),
}


def inside(bounds: Bounds, batch: int, length: int, keys: int) -> torch.Tensor:
    """The bounds' own table, pair by pair."""
    table = torch.zeros(batch, 1, length, keys, dtype=torch.bool)
    for b, q, k in itertools.product(range(batch), range(length), range(keys)):
        p = q + keys - length
        table[b, 0, q, k] = (
            (bounds.before is None or k >= p - bounds.before)
            and (bounds.after is None or k <= p + bounds.after)
            and (bounds.lengths is None or k < int(bounds.lengths[b]))
        )
    return table


def every_mask(keys: int) -> dict[str, Mask]:
    one = {name: make(keys) for name, make in MADE.items()}
    both = {f"{a} & {b}": one[a] & one[b] for a, b in itertools.combinations(one, 2)}
    either = {f"{a} | {b}": one[a] | one[b] for a, b in itertools.combinations(one, 2)}
    return one | both | either | {f"~{name}": ~mask for name, mask in one.items()}


@pytest.mark.parametrize(("length", "keys"), SIZES)
def test_bounds_say_nothing_false(length: int, keys: int):
    exact = 0
    for name, mask in every_mask(keys).items():
        allowed = mask.dense(2, 1, length, keys)
        table = inside(mask.bounds, 2, length, keys)
        assert not (allowed & ~table).any(), name
        if mask.bounds.exact:
            exact += 1
            assert torch.equal(allowed, table), name
    assert exact == 5 + 10  # the five that are bounds and nothing more, and any two of them at once


def test_only_causal_is_causal():
    assert causal().is_causal
    assert (causal() & causal()).is_causal
    others = (
        causal(0),
        sliding_window(2),
        ~causal(),
        causal() & padding([3]),
        causal() & document(torch.zeros(1, 3).long()),
    )
    assert not any(mask.is_causal for mask in others)


def test_a_call_has_the_bounds_of_mask_and_causality():
    x = torch.rand(1, 1, 4, 8)
    assert Call.of(x, x, x).bounds() == Bounds(exact=True)
    assert Call.of(x, x, x, causal=True).bounds() == Bounds(after=0, exact=True)
    assert Call.of(x, x, x, causal()).bounds() == Bounds(after=0, exact=True)
    assert Call.of(x, x, x, sliding_window(3, causal=False), causal=True).bounds() == Bounds(2, 0, exact=True)
    assert Call.of(x, x, x, torch.ones(4, 4).bool(), causal=True).bounds() == Bounds(after=0)
