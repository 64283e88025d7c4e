"""What does one form of mask do? One mask, True for key m alone, and two changes: of key m, and of another key n.

If what is True is hidden, the outputs ignore m and notice n; if it may attend, they notice m and ignore n.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.clinic.forms import filled, shaped
from companion.clinic.patient import Patient, Refused

__all__: list[str] = []

M, N = 1, 0
"""The key of the mask, and another before it, which a causal module sees too."""


def react(p: Patient, name: str, shape: str, numbers: str, keys: int | None = None) -> str | None:
    """What one form of mask does; None if it is refused.

    The answers: a meaning (``"may attend"``, ``"is hidden"``, ``"is added"``); ``"queries: …"`` where it hides queries
    and no key; ``"after: …"`` where it takes weight away after the softmax; ``"ignored"``; ``"leaks"``: changes
    something and hides nothing; ``"nothing"``: no key is seen.
    """
    B, L, S = p.sizes.B, p.sizes.L, p.keys if keys is None else keys
    only = torch.zeros(B, L, S, dtype=torch.bool, device=p.device)
    only[..., M] = True
    added = numbers in ("-inf", "min")
    option = {name: filled(shaped(~only if added else only, shape, p.sizes.H), numbers, p.dtype)}
    try:
        masked = p.run(p.tokens, **option)
        by_m, by_n = (p.changed(masked, p.run(p.tokens.with_key(p.other, k), **option)) for k in (M, N))
    except Refused:
        return None
    base = _unmasked(p)
    effect = torch.ones_like(by_m) if base is None else p.changed(base, masked)
    if p.kind == "self":
        by_m[:, [M, N]] = by_n[:, [M, N]] = False
    if not effect.any():
        return "ignored"
    if by_n.any() and not by_m.any():
        # With one key hidden each query has others: a NaN then is no hiding, as where scores are multiplied by −∞.
        if base is not None and (base.isfinite() & ~masked.isfinite()).any():
            return "leaks"
        return "is added" if added else "is hidden"
    if by_m.any() and not by_n.any() and not added:
        return "may attend"
    rest = torch.ones(L, dtype=torch.bool, device=p.device)
    rest[M] = False
    if effect[:, M].any() and not effect[:, rest].any():
        return "queries: is added" if added else "queries: is hidden"
    if not effect[:, M].any() and effect[:, rest].all() and not added:
        return "queries: may attend"
    if not by_m.any() and not by_n.any():
        return "nothing"
    if base is None or added:
        return "leaks"
    alike = p.tokens.alike()
    if not rows_differ(p) and p.changed(p.run(alike), p.run(alike, **option)).any():
        full = {name: filled(shaped(torch.ones_like(only), shape, p.sizes.H), numbers, p.dtype)}
        return "after: may attend" if not p.changed(base, p.run(p.tokens, **full)).any() else "after: is hidden"
    return "leaks"


def _unmasked(p: Patient) -> Tensor | None:
    """The output without a mask, if it will do without."""
    try:
        return p.run(p.tokens)
    except Refused:
        return None


def rows_differ(p: Patient, **options: Tensor) -> bool:
    """Whether tokens that are all alike get different outputs: they cannot, where each row's weights sum to one."""
    tokens = p.tokens.alike()
    if p.kind == "cross":
        query = tokens.query
        tokens = tokens._replace(query=query[:, :1].expand_as(query).contiguous())
    y = p.run(tokens, **options)
    y = y[:, ~y.isnan().any(-1).any(0)]
    return bool(p.changed(y, y[:, -1:].expand_as(y)).any())
