"""A query that may see nothing: neither NaN, nor the mean of what is hidden, nor a NaN on the way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.forms import Form
from companion.clinic.patient import Patient
from companion.clinic.visit import Visit

__all__: list[str] = []


def empty(visit: Visit) -> None:
    """Hide all keys from the queries of entry 0, or from query 0."""
    p = visit.patient
    forms = [form for forms in visit.forms.values() for form in forms]
    if not forms:
        visit.skip(v.EMPTY, "it takes no mask that could hide everything" if not visit.forms else "no form of mask")
        _gradients(visit, {}, [])
        return
    for form in {f.argument: f for f in reversed(forms)}.values():
        options, rows = _hide_all(p, form)
        trouble = _trouble(p, options, rows)
        if trouble is None:
            continue
        kind, gap = trouble
        symptom = {
            "nan": f"with all hidden by {form.argument}, the output is NaN",
            "mean": f"with all hidden by {form.argument}, the output changes with the hidden keys: it is their mean",
        }[kind]
        if p.library:
            visit.note(v.EMPTY, f"{symptom}; the library's documented way, so no fault: guard against it")
        else:
            visit.fault("empty-row", v.EMPTY, symptom, gap, 0.0)
        return
    visit.ok(v.EMPTY, "with all hidden the output is finite, and changes with no hidden key")
    form = forms[0]
    options, _ = _hide_all(p, form)
    _gradients(visit, options, [form.argument])


def _hide_all(p: Patient, form: Form) -> tuple[dict[str, Tensor], Tensor]:
    """A mask that hides everything from some rows, and which: ``(B, L)``."""
    allowed = torch.ones(p.sizes.B, p.sizes.L, p.keys, dtype=torch.bool, device=p.device)
    allowed[0] = False
    if not form.fits(allowed):
        allowed = torch.ones_like(allowed)
        allowed[:, 0] = False
    return form.make(allowed, p.dtype, p.sizes.H), ~allowed.any(-1)


def _trouble(p: Patient, options: dict[str, Any], rows: Tensor) -> tuple[str, float] | None:
    y = p.run(p.tokens, **options)
    if not y[rows].isfinite().all():
        return "nan", float("nan")
    changed, gap = torch.zeros_like(rows), 0.0
    for m in range(p.keys):
        moved = p.run(p.tokens.with_key(p.other, m), **options)
        here = p.changed(y, moved) & rows
        if p.kind == "self":
            here[:, m] = False  # its own query, which a residual lets through
        if here.any():
            gap = max(gap, p.apart(y[here], moved[here]))
        changed |= here
    return ("mean", gap) if changed.any() else None


def _gradients(visit: Visit, options: dict[str, Any], given: list[str]) -> None:
    """Of all that is finite, with respect to the inputs."""
    p = visit.patient
    with torch.enable_grad():
        inputs = p.tokens.map(lambda x: x.clone().requires_grad_())
        y = p.run(inputs, **options)
        if not y.requires_grad:
            visit.untold(v.GRADIENTS, "no gradient comes back from the output")
            return
        total = y[y.isfinite()].sum()
        wanted = [x for x in inputs if x is not None]
        found = [g for g in torch.autograd.grad(total, wanted, allow_unused=True) if g is not None]
    if all(g.isfinite().all() for g in found):
        visit.ok(v.GRADIENTS, "with a row that is all hidden" if given else "without a mask")
    elif y.isfinite().all():
        how = f"with all hidden by {given[0]}" if given else "without a mask"
        symptom = f"{how} the output is finite, and its gradient is not"
        if p.library:
            visit.note(v.GRADIENTS, symptom)
        else:
            visit.fault("gradient-nan", v.GRADIENTS, symptom, float("nan"), 0.0)
    else:
        visit.skip(v.GRADIENTS, "the output is not finite to begin with")
