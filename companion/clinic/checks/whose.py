"""In cross-attention: is it the context's padding that hides the context's keys?"""

from __future__ import annotations

from dataclasses import replace

from companion.clinic import visit as v
from companion.clinic.forms import NUMBERS, shapes_for
from companion.clinic.patient import Patient, Refused
from companion.clinic.reaction import M, react
from companion.clinic.signature import of_context
from companion.clinic.visit import Visit

__all__: list[str] = []


def whose(visit: Visit, known: dict[str, str]) -> None:
    """In cross-attention: is it the context's mask that hides the context's keys?"""
    p = visit.patient
    own = [n for n in known if of_context(n)] or ([*known] if len(known) == 1 else [])
    if not own or any(known[n] == "hides" for n in own):
        return
    square = _square(p)
    for name in known:
        # With as many queries as keys: what the mask of x, (B, L), does to the keys.
        answers = [react(square, name, shape, n) for n in NUMBERS for shape in shapes_for(name)] if square else []
        if name not in own and any(a in ("may attend", "is hidden", "is added") for a in answers if a):
            symptom = f"{own[0]} hides nothing of the context; {name}, which is for x, does"
            visit.fault("wrong-padding", v.PADDING, symptom, float(_square_gap(square, own[0])), 0.0)
            return
    for name in own:
        rows = [react(p, name, shape, n, keys=p.sizes.L) for n in NUMBERS for shape in ("(B, S)", "(B, 1, 1, S)")]
        if any(a and a.startswith("queries") for a in rows):
            symptom = f"{name} of x's length changes the outputs of the queries that it marks, and hides no key"
            visit.fault("mask-on-queries", v.PADDING, symptom, 1.0, 0.0)
            return
        if square and any(a and a.startswith("queries") for a in [react(square, name, "(B, S)", n) for n in NUMBERS]):
            symptom = f"{name} changes the outputs of the queries that it marks, and hides no key"
            visit.fault("mask-on-queries", v.PADDING, symptom, 1.0, 0.0)
            return
        if square and any(
            react(square, name, s, n) in ("may attend", "is hidden", "is added")
            for n in NUMBERS
            for s in shapes_for(name)
        ):
            symptom = (
                f"{name} hides keys only where the context is as long as x: a mask of x's shape is used on its keys"
            )
            visit.fault("wrong-padding", v.PADDING, symptom, 1.0, 0.0)
            return
    for name in own:
        if known[name] == "ignored":
            symptom = f"{name} is taken and changes nothing: padding in the context is seen"
            visit.fault("padding-leak", v.PADDING, symptom, float(_square_gap(p, name)), 0.0)
            return


def _square(p: Patient) -> Patient | None:
    """The same module with a context as long as x."""
    twin = replace(p, sizes=p.sizes._replace(S=p.sizes.L))
    try:
        twin.run(twin.tokens)
    except Refused:
        return None
    return twin


def _square_gap(p: Patient | None, name: str) -> float:
    if p is None:
        return 1.0
    return p.apart(p.run(p.tokens), p.run(p.tokens.with_key(p.other, M)))
