"""Before anything else can be measured: the same input gives the same output, entry by entry."""

from __future__ import annotations

import random

import numpy as np
import torch

from companion.clinic import visit as v
from companion.clinic.visit import Visit

__all__: list[str] = []


def steady(visit: Visit) -> None:
    """Two calls from one random state, then two more from others."""
    p = visit.patient
    outputs = []
    for seed in (1, 1, 2, 3):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        outputs.append(p.run(p.tokens))
    first = outputs[0]
    if p.changed(first, outputs[1]).any():
        gap = p.apart(first, outputs[1])
        visit.fault(
            "remembers", v.STEADY, "two calls with one input and one random state differ", gap, 0.0, blocks=True
        )
    elif any(p.changed(first, y).any() for y in outputs[2:]):
        gap = max(p.apart(first, y) for y in outputs[2:])
        visit.fault(
            "dropout-in-eval",
            v.STEADY,
            "two calls in eval mode with one input give different outputs",
            gap,
            0.0,
            blocks=True,
        )
    else:
        visit.ok(v.STEADY, "four calls in eval mode give one output")


def untouched(visit: Visit) -> None:
    """One call more, of which the input is looked at afterwards."""
    gap = visit.patient.overwrites()
    if gap:
        symptom = "a call leaves other numbers in the tensor that it was given"
        visit.fault("input-overwritten", v.UNTOUCHED, symptom, gap, 0.0)
    else:
        visit.ok(v.UNTOUCHED, "a call leaves its input as it was")


def entries(visit: Visit) -> None:
    """Change one batch entry: the others stay. Give all the same: they answer the same."""
    p = visit.patient
    batch = p.tokens.query.shape[0]
    if batch == 1:
        visit.skip(v.BATCH, "it takes no batch")
        visit.skip(v.PLACES, "it takes no batch")
        return
    base = p.run(p.tokens)
    worst = 0.0
    for b in range(batch):
        moved = p.run(p.tokens.with_entry(p.other, b))
        changed = p.changed(base, moved)
        changed[b] = False
        if changed.any():
            worst = max(worst, p.apart(base[changed], moved[changed]))
    if worst:
        visit.fault("batch-mixing", v.BATCH, _mixing(visit), worst, 0.0, blocks=True)
        return
    visit.ok(v.BATCH, f"changing one of {batch} entries changes no other")
    same = p.tokens.map(lambda x: x[:1].expand_as(x).contiguous())
    y = p.run(same)
    if p.changed(y, y[:1].expand_as(y)).any():
        gap = p.apart(y, y[:1].expand_as(y))
        symptom = "the same tokens give another output in another entry of the batch"
        visit.fault("positions-over-batch", v.PLACES, symptom, gap, 0.0, blocks=True)
    else:
        visit.ok(v.PLACES, "the same tokens give the same output in each entry of the batch")


def _mixing(visit: Visit) -> str:
    """What is said of entries that see each other: do they see one position, or any?"""
    p = visit.patient
    base, moved = p.run(p.tokens), p.tokens.with_key(p.other, 1)
    changed = p.changed(base, p.run(p.tokens.with_entry(moved, 0)))
    places = sorted({int(i) for i in changed[1:].nonzero()[:, 1]})
    if places == [1]:
        along = "changing token 1 of one entry changes token 1 of the others, and no other: it attends along the batch"
        taken, other, value = ("(B, L, M)", "(L, B, M)", False) if p.batch_first else ("(L, B, M)", "(B, L, M)", True)
        flag = "--batch-first" if value else "--no-batch-first"
        return (
            f"{along}. So it should if its inputs are {other}, and it was given {taken}: then say "
            f"Adapter(batch_first={value}), or {flag}"
        )
    where = f" (tokens {', '.join(map(str, places))})" if places else ""
    return f"changing one entry changes the outputs of others{where}: the future of one reaches the past of another"
