"""Along which axis, how often, and does each query give away exactly one in all?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.patient import Refused
from companion.clinic.reaction import rows_differ
from companion.clinic.visit import Visit
from companion.clinic.watch import chained

__all__: list[str] = []


def once(visit: Visit) -> None:
    """One softmax: what it is given is not another's result."""
    p = visit.patient
    if p.kind == "function":
        return  # told by its weights
    _, watch = p.watched(p.tokens)
    if chained(watch.events) is not None:
        symptom = "the softmax is given weights that are another softmax's result"
        visit.fault("softmax-twice", v.ONCE, symptom, 2.0, 1.0, blocks=True)
    elif watch.events:
        visit.ok(v.ONCE, "what the softmax is given is no other softmax's result")
    else:
        visit.untold(v.ONCE, "its softmax cannot be seen from outside")


def softmax(visit: Visit) -> None:
    """Axis and sums of a module's softmax, where it can be seen."""
    p = visit.patient
    if visit.axes is None:
        visit.untold(v.AXIS, visit.unseen or "its softmax cannot be seen from outside")
        _sums_from_outside(visit)
        return
    number, queries, keys = visit.axes
    _, watch = p.watched(p.tokens)
    weights = watch.events[number].weights
    rows, columns = weights.sum(keys), weights.sum(queries)
    off = _off_one(rows)
    bound = 64 * p.eps * p.keys
    if off <= bound:
        visit.ok(v.AXIS, "each query's weights sum to one")
        _sums_after(visit, weights)
    elif _off_one(columns) <= bound:
        worst = float(rows[rows.isfinite()].sub(1).abs().max())
        low, high = float(rows.min()), float(rows.max())
        symptom = f"each key's weights sum to one over the queries; each query's to between {low:.3f} and {high:.3f}"
        visit.fault("softmax-over-queries", v.AXIS, symptom, 1 + worst, 1.0, blocks=True)
    else:
        other = [axis for axis in range(weights.dim()) if axis != keys and _off_one(weights.sum(axis)) <= bound]
        where = (
            f"its weights sum to one along axis {other[0]} of {tuple(weights.shape)}"
            if other
            else "its weights sum to one along no axis"
        )
        name = "softmax-over-queries" if other else "rows-sum"
        visit.fault(name, v.AXIS, f"{where}, not over the keys", float(rows.flatten()[0]), 1.0, blocks=True)


def _sums_after(visit: Visit, weights: Tensor) -> None:
    """Does anything take weight away between the softmax and the values?"""
    p = visit.patient
    assert visit.axes is not None
    _, queries, keys = visit.axes
    kept = kept_after(visit)
    lost = weights.movedim((queries, keys), (-2, -1)) * ~kept
    missing = float(lost.nan_to_num().sum(-1).max())
    uneven = rows_differ(p)
    if missing > 64 * p.eps * p.keys and uneven:
        symptom = f"the softmax gives hidden keys up to {missing:.3f} of a query's weight, which is then taken away"
        visit.fault("mask-after-softmax", v.BEFORE, symptom, 1 - missing, 1.0, blocks=True)
        return
    if missing > 64 * p.eps * p.keys:
        visit.note(
            v.BEFORE, "weights are masked after the softmax, and then made to sum to one again: that is the same"
        )
    visit.ok(v.ROWS, "each query's weights sum to one, and all of them reach the values")
    if uneven:
        visit.note(
            v.PLACES, "tokens that are all alike give different outputs: positions are in what the values are made of"
        )


def kept_after(visit: Visit, **options: Any) -> Tensor:
    """Which pairs ``(L, S)`` a weight put in the softmax's place still reaches."""
    p = visit.patient
    assert visit.axes is not None
    number, _, keys = visit.axes
    _, watch = p.watched(p.tokens, **options)
    event = watch.events[number]
    zero = torch.zeros_like(event.weights)
    empty = p.watched(p.tokens, number, zero, **options)[0]
    reached = []
    for m in range(p.keys):
        column = zero.clone()
        column.select(keys, m).fill_(1)
        reached.append(p.changed(empty, p.watched(p.tokens, number, column, **options)[0]).all(0))
    return torch.stack(reached, -1)


def _sums_from_outside(visit: Visit) -> None:
    """Tokens all alike: whatever the weights, their mean is the same, if they sum to one."""
    p = visit.patient
    y = p.run(p.tokens.alike())
    if not rows_differ(p):
        if _counts(visit, y):
            visit.note(
                v.ROWS,
                "tokens that are all alike give another output if there is one fewer: its weights do not sum to one, "
                "as in a linear attention that is not normalised",
            )
        else:
            visit.ok(v.ROWS, "tokens that are all alike give one output, however many there are")
        return
    steps = y.diff(dim=1)
    even = p.kind == "self" and not p.changed(steps, steps[:, :1].expand_as(steps)).any()
    if even:
        gap = p.apart(y[:, :-1], y[:, -1:].expand_as(y[:, :-1]))
        symptom = "tokens that are all alike give outputs that grow by one step a token, as weights of 1/S each would"
        visit.fault("mask-after-softmax", v.BEFORE, symptom, gap, 0.0, blocks=True)
        return
    visit.untold(
        v.ROWS, "tokens that are all alike give different outputs: positions inside, or weights that do not sum to one"
    )


def _counts(visit: Visit, y: Tensor) -> bool:
    """Whether tokens that are all alike answer otherwise if one is taken away: a mean would not, a sum does."""
    p = visit.patient
    alike = p.tokens.alike()
    fewer = alike._replace(query=alike.query[:, :-1]) if p.kind == "self" else None
    if fewer is None:
        assert alike.key is not None
        fewer = alike._replace(key=alike.key[:, :-1])
    try:
        shorter = p.run(fewer)
    except Refused:  # it takes one length only
        return False
    return bool(p.changed(y[:, : shorter.shape[1]], shorter).any())


def _off_one(sums: Tensor) -> float:
    """How far from one, where there is anything to sum."""
    sums = sums[sums.isfinite() & (sums != 0)]
    return float(sums.sub(1).abs().max()) if sums.numel() else 1.0
