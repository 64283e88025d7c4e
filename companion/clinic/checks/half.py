"""float16 ends at 65504, and −1e9 does not fit: is everything still finite, masked and unmasked?"""

from __future__ import annotations

from typing import Any

import torch

from companion.clinic import visit as v
from companion.clinic.patient import Patient, Refused
from companion.clinic.visit import Visit

__all__: list[str] = []


def half(visit: Visit) -> None:
    """The same calls in float16 and in bfloat16."""
    p = visit.patient
    reasons = []
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        try:
            twin = p.cast(dtype)
            twin.run(twin.tokens)
        except Refused as refusal:
            if "overflow" in str(refusal):
                visit.fault("fill-overflow", v.HALF, f"in {name}: {refusal}", _fill(visit, p), torch.finfo(dtype).max)
                return
            reasons.append(f"it does not run in {name} here: {refusal}")
            continue
        if _broken(visit, p, twin, name):
            return
    if len(reasons) == 2:
        visit.untold(v.HALF, reasons[0])
    else:
        visit.ok(v.HALF, "float16 and bfloat16 are finite, masked and not" + "".join(f"; {r}" for r in reasons))


def _broken(visit: Visit, p: Patient, twin: Patient, name: str) -> bool:
    for label, options in _calls(visit, p):
        full = p.run(p.tokens, **options)
        low = {k: x.to(twin.dtype) if _float(x) else x for k, x in options.items()}
        for key, x in options.items():
            if _float(x):  # the smallest number of float64 is −∞ in half precision
                low[key] = (
                    x.clamp(min=torch.finfo(twin.dtype).min).to(twin.dtype) if x.isfinite().all() else x.to(twin.dtype)
                )
        try:
            y = twin.run(twin.tokens, **low)
        except Refused as refusal:
            if "overflow" in str(refusal):
                symptom = f"in {name}{label}: {refusal}"
                visit.fault("fill-overflow", v.HALF, symptom, _fill(visit, p), torch.finfo(twin.dtype).max)
                return True
            continue
        if not y[full.isfinite()].isfinite().all():
            cause = "fill-overflow" if label else "half-overflow"
            symptom = f"in {name}{label} the output is not finite, and in float64 it is"
            visit.fault(cause, v.HALF, symptom, float("nan"), float(full[full.isfinite()].abs().max()))
            return True
    return False


def _fill(visit: Visit, p: Patient) -> float:
    """The largest finite number among the scores of any call: that of the fill."""
    events = [event for _, options in _calls(visit, p) for event in p.watched(p.tokens, **options)[1].events]
    scores = [event.scores.abs()[event.scores.isfinite()] for event in events]
    return max((float(x.max()) for x in scores if x.numel()), default=float("nan"))


def _calls(visit: Visit, p: Patient) -> list[tuple[str, dict[str, Any]]]:
    """Plain, causal, and with one key hidden by each mask."""
    calls: list[tuple[str, dict[str, Any]]] = [("", {})]
    if visit.causal_options:
        calls.append((" with a causal mask", visit.causal_options))
    allowed = torch.ones(p.sizes.B, p.sizes.L, p.keys, dtype=torch.bool, device=p.device)
    allowed[..., -1] = False
    for forms in visit.forms.values():
        calls.append((f" with {forms[0].argument}", forms[0].make(allowed, p.dtype, p.sizes.H)))
    return calls


def _float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()
