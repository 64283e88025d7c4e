"""Grouped queries: which key/value head does a query head use?

In a module, nudge one row of a projection, and see which heads' scores change: a row of W_Q moves one head, a row of
W_K moves a whole group. Heads are counted by the rows of W_Q, as everybody's weights are.
"""

from __future__ import annotations

from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.care import modules_in
from companion.clinic.patient import Patient, Refused
from companion.clinic.visit import Visit

__all__: list[str] = []


def groups(visit: Visit) -> None:
    """Heads in order, or tiled?"""
    p = visit.patient
    if p.kind == "function":
        _of_function(visit)
        return
    if visit.axes is None or not modules_in(p.function):
        visit.untold(v.GROUPS, visit.unseen or "its scores cannot be seen from outside")
        return
    found = _moved_heads(visit)
    heads = found[0]
    queries = [next(iter(h)) for h in found[1] if len(h) == 1]
    shared = [h for h in found[1] if 1 < len(h) < heads]
    if not shared:
        visit.skip(v.GROUPS, "each query head has its own key/value head, or all share one")
        return
    order = list(dict.fromkeys(queries))  # score heads, in the order of W_Q's rows
    place = {head: at for at, head in enumerate(order)}
    places = [sorted(place.get(head, -1) for head in heads_of_one) for heads_of_one in shared]
    broken = [at for at in places if at != list(range(at[0], at[0] + len(at)))]
    if broken:
        example = broken[0]
        symptom = f"one key/value head serves query heads {example} of {heads}: not neighbours"
        visit.fault("gqa-order", v.GROUPS, symptom, float(example[1] - example[0]), 1.0)
    else:
        visit.ok(v.GROUPS, f"each key/value head serves {len(shared[0])} query heads that are neighbours")


def _moved_heads(visit: Visit) -> tuple[int, list[frozenset[int]]]:
    """How many heads there are; and for each row of each projection, in order, whose scores it moves."""
    p = visit.patient
    assert visit.axes is not None
    number, queries, keys = visit.axes
    base = _by_head(p, number, queries, keys)
    heads = base.shape[0]
    rows: list[frozenset[int]] = []
    if heads < 4:
        return heads, rows
    held = [parameter for module in modules_in(p.function) for parameter in module.parameters()]
    matrices = [q for q in held if q.dim() == 2 and p.sizes.M in q.shape and q.is_floating_point()]
    moved: dict[int, list[frozenset[int]]] = {}
    chosen: list[tuple[Tensor, int]] = []
    for matrix in matrices:
        for axis in (0, 1):
            if matrix.shape[1 - axis] != p.sizes.M:
                continue
            # One row tells of a projection; of several projections in one matrix, a dozen do.
            count = matrix.shape[axis]
            sample = range(0, count, max(1, count // 12)) if count > p.sizes.M else range(1)
            sets = _nudged(p, matrix, axis, sample, base, number, queries, keys)
            if any(0 < len(s) < heads for s in sets):
                moved[id(matrix)] = sets
                chosen.append((matrix, axis))
                break
    if not any(1 < len(s) < heads for sets in moved.values() for s in sets):
        return heads, []
    for table, axis in chosen:
        # At most 3H heads lie in one matrix, so that none is stepped over.
        lines = range(0, table.shape[axis], max(1, table.shape[axis] // (4 * heads)))
        rows += _nudged(p, table, axis, lines, base, number, queries, keys)
    return heads, rows


def _nudged(
    p: Patient, matrix: Tensor, axis: int, lines: range, base: Tensor, number: int, queries: int, keys: int
) -> list[frozenset[int]]:
    found = []
    for line in lines:
        row: Tensor = matrix.select(axis, line)
        was = row.clone()
        row.add_(1.0)
        try:
            scores = _by_head(p, number, queries, keys)
        finally:
            row.copy_(was)
        gap = ((scores - base).abs() > p.tolerance(base)) & scores.isfinite()
        found.append(frozenset(int(h) for h in gap.flatten(1).any(1).nonzero()[:, 0]))
    return found


def _by_head(p: Patient, number: int, queries: int, keys: int) -> Tensor:
    """Scores with the heads in front, ``(H, B, L, S)``."""
    scores = p.watched(p.tokens)[1].events[number].scores.movedim((queries, keys), (-2, -1))
    B = p.sizes.B
    lead = scores.shape[:-2]
    flat = scores.reshape(-1, *scores.shape[-2:])
    if lead and lead[0] == B:
        return flat.unflatten(0, (B, -1)).movedim(1, 0)
    if len(lead) == 1 and lead[0] % B == 0:
        return flat.unflatten(0, (B, -1)).movedim(1, 0)
    return flat.unflatten(0, (-1, B)) if lead and lead[-1] == B else flat.unsqueeze(1)


def _of_function(visit: Visit) -> None:
    p = visit.patient
    H = p.sizes.H
    key, value = p.tokens.key, p.tokens.value
    if p.lead != 2 or H < 4 or H % 2 or key is None or value is None:
        visit.skip(v.GROUPS, "it takes no groups of heads, or too few heads to tell")
        return
    extra = {"enable_gqa": True} if "enable_gqa" in p.signature.names else {}
    G = 2
    few = p.tokens._replace(key=key[:, :G], value=value[:, :G])
    try:
        y = p.run(few, **extra)
    except Refused:
        visit.skip(v.GROUPS, "it wants as many key/value heads as query heads")
        return
    E = y.shape[-1] // H
    if y.shape[-1] != H * E:
        visit.skip(v.GROUPS, "it wants as many key/value heads as query heads")
        return
    # What each query head should give, from a call with the heads repeated by hand.
    chosen = {"in order": [h // (H // G) for h in range(H)], "tiled": [h % G for h in range(H)]}
    close = {
        name: not p.changed(y, p.run(p.tokens._replace(key=key[:, heads], value=value[:, heads]))).any()
        for name, heads in chosen.items()
    }
    if close["in order"]:
        visit.ok(v.GROUPS, f"with {G} key/value heads for {H}, head h uses ⌊h / {H // G}⌋")
        return
    gap = p.apart(y, p.run(p.tokens._replace(key=key[:, chosen["in order"]], value=value[:, chosen["in order"]])))
    how = "head h uses h mod 2: the heads are tiled" if close["tiled"] else "neither in order nor tiled"
    visit.fault("gqa-order", v.GROUPS, f"with {G} key/value heads for {H}, {how}", gap, 0.0)
