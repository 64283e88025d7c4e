"""Find out how a module is called: with what inputs, in what dtype, and whether the answer is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from companion.clinic import care, signature
from companion.clinic.adapter import Adapter
from companion.clinic.forms import NUMBERS, Form, shapes_for
from companion.clinic.patient import Patient, Refused
from companion.clinic.reaction import react
from companion.clinic.tokens import Sizes
from companion.clinic.watch import Watch

__all__: list[str] = []

_LIBRARIES = {"torch", "transformers"}


def admit(
    module: Callable[..., Any],
    adapter: Adapter,
    cross: bool | None,
    width: int,
    heads: int,
    length: int | None,
    fresh: bool,
    seed: int,
    deadline: float,
    name: str,
) -> list[Patient]:
    """Find ways to call it: the main one, and with a context where that is another."""
    tensors = [t for m in care.modules_in(module) for t in (*m.parameters(), *m.buffers())]
    if any(is_lazy(t) for t in tensors):
        raise Refused(
            "it has parameters that are not made yet: call it once, so that its lazy layers take their shapes"
        )
    if any(t.device.type == "meta" for t in tensors):
        raise Refused(
            "it is on the meta device, where there are no numbers: move it with to_empty() and give it weights"
        )
    device = next((t.device for t in tensors), torch.device("cpu"))
    own = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
    signed = signature.read(module, adapter.mask)
    library = {
        str(m).split(".")[0] for m in (type(module).__module__, care.attribute(module, "__module__"))
    } & _LIBRARIES
    batch_first = _batch_first(module, bool(library)) if adapter.batch_first is None else adapter.batch_first
    ways = list(_ways(module, signed, adapter, cross))
    first: Refused | None = None
    made: list[Patient] = []
    for dtype in dict.fromkeys((torch.float64, own, torch.float32)):
        twin = _twin(module, dtype, fresh, seed)
        for kind, qkv, lead, square in ways:
            H = {2: heads, 1: 1, 0: 1}[lead]
            sizes = Sizes.of(width, heads, length)._replace(H=H)
            sizes = sizes._replace(B=1) if lead == 0 else sizes
            sizes = sizes._replace(S=sizes.L) if square else sizes
            p = Patient(
                twin, name, signed, adapter, kind, sizes, dtype, device, deadline, seed=seed, qkv=qkv, lead=lead,
                batch_first=batch_first, library=bool(library),
            )  # fmt: skip
            try:
                _try(p)
            except Refused as refusal:
                first = first or refusal
                continue
            made.append(p)
            if kind != "self" or cross is not None:
                break
        if made:
            only = made[0]
            if (
                only.kind == "cross"
                and not only.qkv
                and signed.context is not None
                and cross is not True
                and only.sees_itself()
            ):
                made.append(only.with_fixed_context())
            return made
    raise first or Refused("no way was found to call it")


def _ways(
    module: Any, signed: signature.Signature, adapter: Adapter, cross: bool | None
) -> Iterator[tuple[str, bool, int, bool]]:
    """Kind, whether q, k and v are three arguments, leading dims, whether S must be L: the likelier first."""
    functions = [("function", True, lead, square) for square in (False, True) for lead in (2, 1, 0)]
    weighty = isinstance(module, nn.Module) and next(module.parameters(), None) is not None
    inputs = adapter.inputs
    both = [] if cross is True else ["self"]
    if inputs == "q, k, v" or (inputs is None and signed.qkv):
        both += [] if cross is False else ["cross"]
        if weighty:
            yield from ((kind, True, 2, False) for kind in both)
        yield from functions
        return
    must = len(signed.needed) == 2 or inputs == "x, context"
    if not must and cross is not True:
        yield ("self", False, 2, False)
    if must or cross is True or (signed.context is not None and cross is None and inputs is None):
        yield ("cross", False, 2, False)
    if inputs is None and (not signed.readable or (not weighty and not isinstance(module, nn.Module))):
        yield from functions


def _batch_first(module: Any, library: bool) -> bool:
    """What it says itself; a library's layer says it in its attention."""
    inner = care.modules_in(module)[0].modules() if library and isinstance(module, nn.Module) else ()
    said = [care.attribute(m, "batch_first") for m in (module, *inner)]
    return next((x for x in said if isinstance(x, bool)), True)


def _twin(module: Callable[..., Any], dtype: torch.dtype, fresh: bool, seed: int) -> Callable[..., Any]:
    """A copy in evaluation and in another dtype, with fresh weights; what cannot be copied is taken as it is."""
    twin = care.copied(module)
    if twin is None:
        for each in care.modules_in(module):
            each.eval()
        return module
    for each in care.modules_in(twin):
        each.to(dtype).eval()
        if fresh:
            care.freshen(each, torch.Generator().manual_seed(seed + 1))
    return twin


def _try(p: Patient) -> None:
    """A first call: its dtypes, whether it gives numbers, whether they depend on anything."""
    for name in p.signature.required:
        if name in p.signature.masks:
            p.base[name] = None
    try:
        with Watch() as watch:
            y = p.run(p.tokens)
    except Refused:
        if not p.base or not _demanded(p):
            raise
        with Watch() as watch:
            y = p.run(p.tokens)
    p.eps = max(watch.eps, torch.finfo(p.dtype).eps, torch.finfo(y.dtype).eps)
    if p.kind == "cross" and not p.changed(y, p.run(p.tokens._replace(key=p.other.key))).any():
        raise Refused("its output does not change with the context")
    if y.isfinite().any() and not p.changed(y, p.run(p.other)).any():
        raise Refused("its output does not change with its input, so nothing can be measured: are its weights zero?")


def _demanded(p: Patient) -> bool:
    """A mask that must be given: find a form that hides nothing."""
    everything = torch.ones(p.sizes.B, p.sizes.L, p.keys, dtype=torch.bool, device=p.device)
    for name in list(p.base):
        for numbers in NUMBERS:
            for shape in shapes_for(name):
                answer = react(p, name, shape, numbers)
                if answer in ("may attend", "is hidden", "is added"):
                    p.base |= Form(name, shape, numbers, answer).make(everything, p.dtype, p.sizes.H)
                    return True
    return False
