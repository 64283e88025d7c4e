"""Whose features does a head hold, and whose output does it write? Put one weight in the softmax's place, and see.

If all queries look at key 0, and query i alone at key j instead, then the output of token i alone differs, and it
differs with the tokens 0 and j alone, in every head. And the score at (i, j) depends on tokens i and j alone. All that
holds whatever the projections are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.patient import Patient
from companion.clinic.tokens import Tokens
from companion.clinic.visit import Visit
from companion.clinic.watch import Event, Watch

__all__: list[str] = []

_UNSEEN = "its softmax cannot be seen from outside"


def heads(visit: Visit) -> None:
    """Split by features, merged in order; in passing, which axis of the weights is whose."""
    p = visit.patient
    if p.kind == "function":
        _function_heads(visit)
        return
    _, watch = p.watched(p.tokens)
    number = softmax_of(p, watch)
    if isinstance(number, str):
        visit.unseen = number
        visit.untold(v.SPLIT, number)
        visit.untold(v.MERGE, number)
        return
    event = watch.events[number]
    axes = axes_of(p, event)
    assert axes is not None
    first, second = axes
    i, j = p.sizes.L - 1, 2
    i, j = p.sizes.L - 1, 2
    rows, touched = _follow(p, event, number, first, second, i, j)
    reached, expected = {r for _, r in rows}, {i}
    if p.kind == "self" and reached == {0, j}:  # the first axis is the keys': key i went from query 0 to query j
        first, second, expected = second, first, {0, j}
    visit.axes = (number, first, second)
    moved = {j} if expected == {i} else {i}
    strangers = touched - moved - {0} - reached
    scores = _stray_scores(p, number, first, second)
    if not moved <= touched or strangers or scores:
        symptom = (
            f"with all of query {i}'s weight on key {j}, its output changes with tokens {sorted(touched)}"
            if not moved <= touched or strangers
            else f"scores change with tokens that are neither their query nor their key ({scores} of them)"
        )
        visit.fault("heads-split", v.SPLIT, symptom, float(len(strangers) or scores), 0.0, blocks=True)
        return
    visit.ok(v.SPLIT, "each score depends on its two tokens alone, each value on its token alone")
    if rows != {(b, r) for b in range(p.sizes.B) for r in expected}:
        symptom = f"moving the weight of query {i} alone changes the outputs of tokens {sorted(reached)}"
        visit.fault("heads-merge", v.MERGE, symptom, float(len(reached - {i})), 0.0, blocks=True)
        return
    visit.ok(
        v.MERGE,
        "each query writes to its own output alone; the order of heads, which W_O could absorb, cannot be told",
    )


def softmax_of(p: Patient, watch: Watch) -> int | str:
    """The number of the attention's softmax, or why there is none to be had."""
    fits = [n for n, event in enumerate(watch.events) if axes_of(p, event)]
    if not fits:
        return _UNSEEN
    if len(fits) > 1:
        return f"it takes {len(fits)} softmaxes of one shape: give one layer at a time"
    return fits[0]


def axes_of(p: Patient, event: Event) -> tuple[int, int] | None:
    """The axes of ``L`` and of ``S``; in self-attention, the two of ``L``."""
    shape = list(event.weights.shape)
    if p.kind == "self":
        found = [axis for axis, size in enumerate(shape) if size == p.sizes.L]
        return (found[0], found[1]) if len(found) == 2 else None
    if shape.count(p.sizes.L) == 1 and shape.count(p.keys) == 1:
        return shape.index(p.sizes.L), shape.index(p.keys)
    return None


def _follow(
    p: Patient, event: Event, number: int, first: int, second: int, i: int, j: int
) -> tuple[set[tuple[int, int]], set[int]]:
    """All queries look at key 0; then query i at key j. Which outputs (entry, row) differ, and with which tokens?"""
    weights = torch.zeros_like(event.weights).movedim((first, second), (-2, -1))
    weights[..., 0] = 1
    moved = weights.clone()
    moved[..., i, :] = 0
    moved[..., i, j] = 1
    weights, moved = (x.movedim((-2, -1), (first, second)) for x in (weights, moved))

    def effect(tokens: Tokens) -> Tensor:
        return p.watched(tokens, number, moved)[0] - p.watched(tokens, number, weights)[0]

    base = effect(p.tokens)
    tolerance = 4 * p.tolerance(p.run(p.tokens), base)
    reached = (base.abs() > tolerance).any(-1)
    touched = set()
    for m in range(p.keys):
        if ((effect(p.tokens.with_key(p.other, m)) - base).abs() > tolerance).any(-1)[reached].any():
            touched.add(m)
    return {(int(b), int(r)) for b, r in reached.nonzero()}, touched


def _stray_scores(p: Patient, number: int, first: int, second: int) -> int:
    """How many scores change with a token that is neither their query nor their key."""
    base = p.watched(p.tokens)[1].events[number].scores
    stray = 0
    for m in range(p.keys):
        moved = p.watched(p.tokens.with_key(p.other, m))[1].events[number].scores
        # Against another key of the same query: who writes exp by hand takes the row's largest off first.
        other = 0 if m else 1
        gap = (moved - moved.select(second, other).unsqueeze(second)) - (
            base - base.select(second, other).unsqueeze(second)
        )
        changed = gap.isfinite() & (gap.abs() > 4 * p.tolerance(base))
        changed.select(second, m).fill_(False)
        if p.kind == "self":
            changed.select(first, m).fill_(False)
        stray += int(changed.sum())
    return stray


def _function_heads(visit: Visit) -> None:
    p = visit.patient
    visit.skip(v.SPLIT, "it is given heads, and does not split")
    visit.skip(v.MERGE, "it is given heads, and does not merge")
    H = p.tokens.query.shape[1]
    if H == 1:
        return
    y = p.run(p.tokens)
    E = y.shape[-1] // H
    moved = p.tokens._replace(query=_head(p.tokens.query, p.other.query))
    if p.tokens.key is not None and p.other.key is not None:
        moved = moved._replace(key=_head(p.tokens.key, p.other.key))
    changed = (p.run(moved)[..., E:] - y[..., E:]).abs()
    if y.shape[-1] == H * E and (changed > p.tolerance(y)).any():
        symptom = "changing the queries and keys of head 0 changes the outputs of other heads"
        visit.fault("heads-mixed", v.SPLIT, symptom, float(changed.max()), 0.0, blocks=True)


def _head(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([y[:, :1], x[:, 1:]], 1)
