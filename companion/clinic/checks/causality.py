"""Who sees whom? Change a token: an output that came before it must not notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.patient import Patient, Refused
from companion.clinic.visit import Visit

__all__: list[str] = []


def causality(visit: Visit) -> None:
    """By default, by a flag, by a mask: whichever it has."""
    p = visit.patient
    visit.seen = p.visibility(p.tokens)
    if p.kind == "cross":
        visit.skip(v.FUTURE, "a context has no future")
        return
    pattern = _pattern(visit, {})
    if pattern != "all":
        visit.facts.append("causal: by itself")
        visit.causal_options = {}
        _judge(visit, pattern, {}, "")
        return
    for name in _flags(visit):
        if _by_flag(visit, name):
            return
    visit.facts.append("causal: not by itself" + ("" if visit.causal else ", sees every token"))
    if not visit.causal:
        visit.skip(v.FUTURE, "each query sees every key: say causal=True if it should not")


def by_mask(visit: Visit) -> None:
    """Where it should be causal, and is only if it is told so by a mask."""
    p = visit.patient
    if visit.causal_options is not None:
        return
    allowed = torch.ones(p.sizes.L, p.keys, dtype=torch.bool, device=p.device).tril(p.keys - p.sizes.L)
    allowed = allowed.expand(p.sizes.B, -1, -1)
    form = next((f for forms in visit.forms.values() for f in forms if f.fits(allowed)), None)
    if form is None:
        if visit.causal:
            _future_seen(visit, {}, "it takes neither a flag nor a mask that would make it causal")
        return
    options = form.make(allowed, p.dtype, p.sizes.H)
    if visit.causal is False:
        return
    visit.causal_options = options
    if visit.causal:
        pattern = pattern_of(visit, p.visibility(p.tokens, **options), options)
        _judge(visit, pattern, options, f"given a causal mask as {form.argument}, ")


def pattern_of(visit: Visit, seen: Tensor, options: dict[str, Any]) -> str:
    """Which diagonals are seen: causal, all, one ahead, not itself, reversed, none, or just some."""
    p = visit.patient
    L, S = p.sizes.L, p.keys
    offset = torch.arange(S, device=seen.device) - torch.arange(L, device=seen.device).unsqueeze(1) - (S - L)
    if not seen[:, offset != 0].any():
        return "none"
    # The first query or the last may see nothing, and then, where hiding is done with a number, all alike.
    inner = seen[:, 1:-1]
    ahead = {int(d) for d in offset[1:-1][inner.any(0)] if d > 0}
    behind = {int(d) for d in offset[1:-1][inner.any(0)] if d < 0}
    if not ahead:
        if _blind_to_itself(visit, seen, options):
            return "not itself"
        return "some" if bool(seen[:, offset > 0].any()) else "causal"
    if not behind:
        return "reversed"
    if bool(seen[:, offset != 0].all()):
        return "all"
    return "one ahead" if ahead == {1} else "some"


def _blind_to_itself(visit: Visit, seen: Tensor, options: dict[str, Any]) -> bool:
    """Whether no query sees its own key. Token 1 sees at most two keys: without its own, nothing of it counts."""
    p = visit.patient
    if p.kind == "function":
        own = seen.diagonal(p.keys - p.sizes.L, 1, 2)
        return not bool(own.any())
    if visit.axes is not None:
        number, queries, keys = visit.axes
        weights = p.watched(p.tokens, **options)[1].events[number].weights.movedim((queries, keys), (-2, -1))
        return bool((weights.diagonal(dim1=-2, dim2=-1)[..., 1:] == 0).all())
    return not bool(seen[:, 1, 1].any())


def _judge(visit: Visit, pattern: str, options: dict[str, Any], given: str) -> None:
    p = visit.patient
    if pattern == "causal":
        _by_gradient(visit, options, given)
        return
    if pattern == "none":
        symptom = f"{given}changing a token changes no other token's output"
        visit.fault("no-attention", v.FUTURE, symptom, 0.0, 1.0, blocks=True)
        return
    gap = _future_gap(visit, options)
    if pattern == "one ahead":
        symptom = f"{given}changing token t + 1 changes the output at t, changing token t + 2 does not"
        visit.fault("causal-off-by-one", v.FUTURE, symptom, 1.0, 0.0)
    elif pattern == "not itself":
        symptom = f"{given}the token at t has no weight in its own output: it sees tokens before it only"
        visit.fault("causal-off-by-one", v.FUTURE, symptom, -1.0, 0.0)
    elif pattern == "reversed":
        symptom = f"{given}the output at t changes with tokens after t, and with none before it"
        visit.fault("mask-polarity", v.FUTURE, symptom, gap, 0.0, blocks=True)
    elif pattern == "all" or visit.causal:
        _future_seen(visit, options, given + "an output changes with later tokens")
    else:
        count = int(visit.seen.any(0).sum()) if visit.seen is not None else 0
        visit.note(
            v.FUTURE,
            f"of {p.sizes.L * p.keys} pairs {count} see each other, in a pattern that is neither causal nor full",
        )


def _future_seen(visit: Visit, options: dict[str, Any], symptom: str) -> None:
    visit.fault("future-leak", v.FUTURE, symptom, _future_gap(visit, options), 0.0)


def _future_gap(visit: Visit, options: dict[str, Any]) -> float:
    """How much the first output changes with the last token."""
    p = visit.patient
    base, moved = (p.run(t, **options)[:, : p.sizes.L - 1] for t in (p.tokens, p.tokens.with_key(p.other, p.keys - 1)))
    return p.apart(base, moved)


def _by_gradient(visit: Visit, options: dict[str, Any], given: str) -> None:
    """The same asked of the gradient, which sees what a change of this size might not."""
    p = visit.patient
    if p.kind != "self":
        visit.ok(v.FUTURE, f"{given}changing a token changes no output before it")
        return
    middle = p.sizes.L // 2
    with torch.enable_grad():
        x = p.tokens.query.clone().requires_grad_()
        y = p.run(p.tokens._replace(query=x), **options)
        early = y[:, :middle].nan_to_num().sum()
        gradient = torch.autograd.grad(early, x, allow_unused=True)[0] if y.requires_grad else None
    leak = 0.0 if gradient is None else float(gradient[:, middle:].abs().nan_to_num().max())
    if leak > p.tolerance(p.tokens.query):
        symptom = f"{given}the gradient of the outputs before token {middle} reaches the tokens from there on"
        visit.fault("future-leak", v.FUTURE, symptom, leak, 0.0)
    else:
        visit.ok(v.FUTURE, f"{given}changing a token changes no output before it, and no gradient comes from there")


def _flags(visit: Visit) -> tuple[str, ...]:
    p = visit.patient
    return (p.adapter.causal,) if p.adapter.causal else p.signature.flags


def _by_flag(visit: Visit, name: str) -> bool:
    p = visit.patient
    options = {name: True}
    try:
        seen = p.visibility(p.tokens, **options)
    except Refused:
        return False
    pattern = _pattern(visit, options)
    if pattern == "all":
        return False
    visit.facts.append(f"causal: by {name}=True")
    visit.causal_options = options
    _judge(visit, pattern, options, f"with {name}=True ")
    if p.kind == "function" and pattern == "causal" and first_aligned(p, seen):
        says = f"with L < S, {name}=True lets query i see keys 0 to i, not to S − L + i: it is not for a cache"
        visit.note(v.FUTURE, says)
    return True


def _pattern(visit: Visit, options: dict[str, Any]) -> str:
    """Who sees whom; of a function with as many keys as queries, which leaves no doubt about the diagonal."""
    p = visit.patient
    square = _square(p) if p.kind == "function" else None
    if square is None:
        return pattern_of(visit, p.visibility(p.tokens, **options), options)
    return pattern_of(Visit(square), square.visibility(square.tokens, **options), options)


def first_aligned(p: Patient, seen: Tensor) -> bool:
    """Whether query i sees keys 0 to i and no other."""
    wanted = torch.ones(p.sizes.L, p.keys, dtype=torch.bool, device=seen.device).tril()
    return bool((seen == wanted).all())


def _square(p: Patient) -> Patient | None:
    """The same function with as many keys as queries."""
    twin = replace(p, sizes=p.sizes._replace(S=p.sizes.L))
    try:
        twin.run(twin.tokens)
    except Refused:
        return None
    return twin
