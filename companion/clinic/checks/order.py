"""Without positions attention does not know order: reorder the tokens, and the outputs are reordered alike."""

from __future__ import annotations

import torch

from companion.clinic import visit as v
from companion.clinic.visit import Visit

__all__: list[str] = []


def order(visit: Visit) -> None:
    """Rotate the tokens by one, and swap two."""
    p = visit.patient
    if visit.positions and p.kind == "self" and _blind(visit):
        symptom = "the last token's output stays as it was when those before it are reordered"
        visit.fault("positions-missing", v.ORDER, symptom, 0.0, 1.0)
        return
    if visit.causal_options == {}:
        visit.skip(v.ORDER, "it is causal, so order matters")
        return
    gap = 0.0
    base = p.run(p.tokens)
    keys = torch.roll(torch.arange(p.keys, device=p.device), 1)
    keys[[0, 1]] = keys[[1, 0]]
    if p.kind == "self":
        moved, wanted = p.run(p.tokens._replace(query=p.tokens.query[:, keys])), base[:, keys]
    else:
        turned = p.tokens._replace(key=_along(p.tokens.key, keys), value=_along(p.tokens.value, keys))
        moved, wanted = p.run(turned), base
    gap = p.apart(moved, wanted)
    if not p.changed(moved, wanted).any():
        visit.ok(
            v.ORDER,
            "reordered tokens give the same outputs, reordered"
            if p.kind == "self"
            else "the order of the keys does not matter",
        )
    elif visit.positions is False:
        visit.fault("not-equivariant", v.ORDER, "reordered tokens give other outputs", gap, 0.0)
    else:
        visit.facts.append("positions: inside")
        visit.skip(
            v.ORDER,
            f"order matters (by {gap:.3g}): it has positions inside; say positions=False if it should have none",
        )


def _blind(visit: Visit) -> bool:
    """Whether the last token, which sees all others even in a causal module, does not notice their order."""
    p = visit.patient
    turned = torch.arange(p.keys, device=p.device)
    turned[:-1] = turned[:-1].roll(1)
    moved = p.tokens._replace(query=p.tokens.query[:, turned])
    return not bool(p.changed(*(p.run(t)[:, -1:] for t in (p.tokens, moved))).any())


def _along(x: torch.Tensor | None, order: torch.Tensor) -> torch.Tensor | None:
    return None if x is None else x[..., order, :]
