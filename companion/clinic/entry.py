"""The doctor's front door: find out how to call the patient, run the checks, write the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from companion import check
from companion.clinic import care, signature
from companion.clinic import visit as v
from companion.clinic.adapter import Adapter
from companion.clinic.admission import admit
from companion.clinic.checks.basics import entries, steady, untouched
from companion.clinic.checks.cached import cached
from companion.clinic.checks.causality import by_mask, causality
from companion.clinic.checks.empty import empty
from companion.clinic.checks.functions import function
from companion.clinic.checks.groups import groups
from companion.clinic.checks.half import half
from companion.clinic.checks.layout import heads as layout
from companion.clinic.checks.masks import masks
from companion.clinic.checks.order import order
from companion.clinic.checks.softmax import once, softmax
from companion.clinic.patient import OutOfTime, Patient, Refused
from companion.clinic.report import Report
from companion.clinic.visit import Visit

__all__ = ["doctor"]

_SMALL = 512
_HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads")


def doctor(
    module: Callable[..., Any],
    *,
    d_model: int,
    causal: bool | None = None,
    num_heads: int | None = None,
    cross: bool | None = None,
    positions: bool | None = None,
    adapter: Adapter | None = None,
    length: int | None = None,
    fresh: bool = True,
    seed: int = 0,
    time_limit: float = 60.0,
) -> Report:
    r"""Examine any attention: change one token at a time, and see whose output notices.

    .. math:: \text{healthy:}\quad A_{ij} = 0 \text{ where } i \text{ may not see } j, \qquad \sum_j A_{ij} = 1

    A module of ``(B, L, M)``, with or without a context, or a function of ``q, k, v``. How it wants to be called, what
    form of mask it takes and what ``True`` means in it is found out by trying. It is examined in a copy, in float64
    where it can be, with small random inputs; ``module`` is left as it was, and so are all random states.

    Args:
        module: a module, or a function. A class or a factory must be called first.
        d_model: ``M``, the width of the inputs. A function gets heads of ``M / H``.
        causal: whether it should be causal; None to find out. With True, a module that sees the future is at fault
            even if nothing inside it was meant to hide it.
        num_heads: ``H``; what the module says, or 4 for a function, if not given.
        cross: examine it with a context only (True) or without (False); both where it can, if not given.
        positions: whether order should matter to it; None to find out.
        adapter: how to call it, where that cannot be found out.
        length: ``L``, for a module that takes one length only.
        fresh: give the copy new random weights. Those of a trained module may be so sure that they hide a fault.
        seed: of the inputs.
        time_limit: seconds after which what is left is skipped.

    Returns:
        A :class:`~companion.clinic.report.Report`: ``ok``, ``findings``, ``outcomes``; it prints as a table, shows as
        HTML in a notebook, and turns into JSON. A module that cannot be called is reported in its ``trouble``.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: numbers that do not fit.

    Example:
        >>> import torch
        >>> report = doctor(lambda q, k, v: torch.softmax(q @ k.mT, dim=-1) @ v, d_model=16)
        >>> report.ok, report.findings[0].name
        (False, 'scale-missing')
        >>> report.findings[0].expected  # heads of 4: 1 / √4
        0.5
    """
    start = time.monotonic()
    _check_module(module)
    module = care.as_written(module)
    width = check.integer("d_model", d_model)
    for name, flag in (("causal", causal), ("cross", cross), ("positions", positions)):
        if flag is not None:
            check.flag(name, flag)
    if adapter is not None:
        _check_adapter(adapter, module)
    if length is not None:
        check.integer("length", length, minimum=4)
    check.flag("fresh", fresh)
    if check.integer("seed", seed, minimum=0) >= 2**63:
        raise ValueError(f"seed must be less than 2**63, got {seed}")
    deadline = start + check.positive("time_limit", time_limit)
    heads = _heads(module, width, num_heads)
    name = _name(module)
    with care.kept(module), care.quiet(small=width <= _SMALL) as said:
        try:
            made = admit(module, adapter or Adapter(), cross, width, heads, length, fresh, seed, deadline, name)
            told = num_heads or _told_heads(module)
            visits = [_examine(p, causal, positions, told, n > 0) for n, p in enumerate(made)]
            report = _report(name, visits, said.getvalue(), start)
        except Refused as refusal:
            report = Report(name, trouble=f"{refusal}{_hint(refusal, width)}", seconds=time.monotonic() - start)
        except OutOfTime:
            report = Report(
                name, trouble=f"one call took longer than time_limit={time_limit:g} s", seconds=time.monotonic() - start
            )
    return report


def _check_module(module: object) -> None:
    if isinstance(module, type):
        raise TypeError(f"module must be a module or a function, got the class {module.__name__}: make one first")
    if not callable(module):
        raise TypeError(f"module must be a module or a function, got {type(module).__name__}")


def _check_adapter(adapter: object, module: Callable[..., Any]) -> None:
    """An argument that the adapter names must be one."""
    if not isinstance(adapter, Adapter):
        raise TypeError(f"adapter must be an Adapter, got {type(adapter).__name__}")
    signed = signature.read(module)
    for word in ("mask", "causal"):
        name = getattr(adapter, word)
        if name is not None and adapter.call is None and signed.closed and name not in signed.names:
            has = ", ".join(signed.names) or "none"
            raise ValueError(f"{word} must be an argument of the module, which has {has}; got {name!r}")


def _hint(refusal: Refused, width: int) -> str:
    """What to try if a first call was refused."""
    if " it raised " not in str(refusal):
        return ""
    return f"; is d_model={width} its width? Adapter(inputs=..., call=...), or --inputs, says how else to call it"


def _told_heads(module: Any) -> int | None:
    for name in _HEADS:
        told = care.attribute(module, name)
        if isinstance(told, int) and not isinstance(told, bool) and told > 0:
            return told
    return None


def _heads(module: Any, width: int, given: int | None) -> int:
    if given is not None:
        heads = check.integer("num_heads", given)
        if width % heads and not isinstance(module, nn.Module):
            raise ValueError(f"d_model={width} must be a multiple of num_heads={heads}")
        return heads
    told = _told_heads(module)
    if told is not None:
        return told
    return next((h for h in (4, 2, 3) if width % h == 0 and width // h >= 2), 1)


def _name(module: Any) -> str:
    if isinstance(module, nn.Module):
        return type(module).__name__
    return str(care.attribute(module, "__qualname__") or care.attribute(module, "__name__") or type(module).__name__)


def _examine(p: Patient, causal: bool | None, positions: bool | None, heads: int | None, again: bool) -> Visit:
    """All checks; of a module that was examined already in another role, those that its role bears on."""
    visit = Visit(p, causal, positions, heads)
    y = p.run(p.tokens)
    if not y.isfinite().any():
        share = float((~y.isfinite()).double().mean())
        visit.fault(
            "nan-at-once", v.STEADY, "for finite random inputs, without a mask, no output is finite", share, 0.0, True
        )
    visit.facts.append(_called(p))
    inner = [((v.AXIS, v.ONCE, v.ROWS, v.SCALE), function)] if p.kind == "function" else [((v.AXIS, v.ROWS), softmax)]
    checks = [
        ((v.STEADY,), steady),
        ((v.UNTOUCHED,), untouched),
        ((v.BATCH, v.PLACES), entries),
        ((v.ONCE,), once),
        ((v.SPLIT, v.MERGE), layout),
        *inner,
        ((v.FUTURE,), causality),
        ((v.PADDING, v.BEFORE), masks),
        ((v.FUTURE,), by_mask),
        ((v.EMPTY, v.GRADIENTS), empty),
        ((v.HALF,), half),
        ((v.ORDER,), order),
        ((v.GROUPS,), groups),
        ((v.CACHED,), cached),
        ((v.SCALE,), _scale_of_module),
    ]
    visit.run(
        [
            each
            for each in checks
            if not again or each[1] not in (steady, untouched, half, groups, order, _scale_of_module)
        ]
    )
    visit.follows("empty-row", "fill-overflow")
    visit.follows("gradient-nan", "empty-row")
    return visit


def _scale_of_module(visit: Visit) -> None:
    if visit.patient.kind != "function":
        visit.untold(v.SCALE, "inside a module it cannot be told from the weights: W_Q could hold any factor")


def _called(p: Patient) -> str:
    arguments = {"self": "x, x, x" if p.qkv else "x", "cross": "x, context, context" if p.qkv else "x, context"}
    shape = "(B, L, M)" if p.batch_first else "(L, B, M)"
    if p.kind == "function":
        shape = {2: "(B, H, L, D)", 1: "(B, L, D)", 0: "(L, D)"}[p.lead]
    sizes = ", ".join(
        f"{k}={x}" for k, x in zip("BLSMH", p.sizes, strict=True) if k not in ("S", "H") or p.kind != "self"
    )
    return f"called as f({arguments.get(p.kind, 'q, k, v')}) of {shape}: {sizes}, {str(p.dtype).removeprefix('torch.')}"


def _report(name: str, visits: list[Visit], said: str, start: float) -> Report:
    main, *rest = visits
    outcomes, findings, facts = list(main.outcomes), list(main.findings), list(main.facts)
    for other in rest:
        role = "with a context" if other.patient.kind == "cross" else "among its own tokens"
        facts += [f"{role}: {fact}" for fact in other.facts]
        outcomes += [replace(outcome, check=f"{role}: {outcome.check}") for outcome in other.outcomes]
        findings += [f for f in other.findings if all(f.name != known.name for known in findings)]
    if said.strip():
        facts.append(f"it printed or warned: {len(said.splitlines())} lines, kept from the screen")
    return Report(name, tuple(facts), tuple(outcomes), tuple(findings), seconds=time.monotonic() - start)
