"""Step by step with a cache must equal all at once. If not: are positions stuck, or off, or keys out of sight?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.patient import OutOfTime, Patient, Refused
from companion.clinic.tokens import Tokens
from companion.clinic.visit import Visit
from companion.clinic.watch import Event, Watch

__all__: list[str] = []

Step = Callable[[Tensor, Any, dict[str, Any]], tuple[Tensor, Any]]
"""New tokens, the cache so far (None at first), options of the call: outputs, and the cache."""
_FIRST = 2


def cached(visit: Visit) -> None:
    """Several ways to cut the sequence into steps."""
    p = visit.patient
    if p.kind != "self":
        visit.skip(v.CACHED, "it is no self-attention")
        return
    if p.signature.cache is None and p.adapter.cached is None:
        visit.skip(v.CACHED, "it takes no cache")
        return
    if visit.causal_options is None:
        visit.skip(v.CACHED, "it is not causal, so no step could know what comes")
        return
    step = stepper(visit)
    if step is None:
        visit.untold(v.CACHED, f"how its {p.signature.cache} works was not found out: give Adapter(cached=...)")
        return
    L = p.sizes.L
    x = p.tokens.query
    full = p.run(p.tokens, **_options(visit, L, L))
    for cuts in ([_FIRST] + [1] * (L - _FIRST), [1] * L, [L - 2, 2], [1, L - 1]):
        y = steps(visit, step, x, cuts)
        if not p.changed(full, y).any():
            continue
        name, symptom = _cause(visit, step, x, full, cuts)
        if p.library:
            visit.note(
                v.CACHED,
                f"in steps of {', '.join(map(str, cuts))} tokens: {symptom}; so this library's model gives it a mask",
            )
        else:
            visit.fault(name, v.CACHED, symptom, p.apart(full, y), 0.0)
        return
    visit.ok(v.CACHED, "four ways of cutting the sequence into steps all equal the whole")


def steps(visit: Visit, step: Step, x: Tensor, cuts: list[int]) -> Tensor:
    """The outputs of one way of cutting."""
    state, outputs, seen = None, [], 0
    for n in cuts:
        y, state = step(x[:, seen : seen + n].contiguous(), state, _options(visit, n, seen + n))
        outputs.append(y)
        seen += n
    return torch.cat(outputs, 1)


def _cause(visit: Visit, step: Step, x: Tensor, full: Tensor, cuts: list[int]) -> tuple[str, str]:
    p, L, new = visit.patient, visit.patient.sizes.L, cuts[-1]
    last = steps(visit, step, x, cuts)[:, -1]
    # Counted from the first key, the last of n new queries sees keys 0 to n − 1, and those before it are out of sight.
    unseen = x.clone()
    unseen[:, new : L - 1] = p.other.query[:, new : L - 1]
    if new < L - 1 and not p.changed(last[:, None], steps(visit, step, unseen, cuts)[:, -1:]).any():
        return "causal-alignment", f"the last of {new} new tokens sees the first {new} keys only, of {L}"
    if cuts[0] != _FIRST or new != 1:
        return "cached-differs", "steps of one token are right, steps of several are not"
    swapped = x.clone()
    swapped[:, [_FIRST, _FIRST + 1]] = x[:, [_FIRST + 1, _FIRST]]
    blind = not p.changed(last[:, None], steps(visit, step, swapped, cuts)[:, -1:]).any()
    whole = p.run(Tokens(swapped), **_options(visit, L, L))[:, -1:]
    if blind and p.changed(full[:, -1:], whole).any():
        return (
            "cache-offset",
            "swapping two tokens that came step by step changes nothing later: they stand at one position",
        )
    shift = _shift(visit, step, x)
    if shift:
        return (
            "position-off-by-one",
            f"a step's scores are those of a token {abs(shift)} position {'later' if shift > 0 else 'earlier'}",
        )
    return "cached-differs", "the sequence in steps, with a cache, is not the sequence at once"


def _shift(visit: Visit, step: Step, x: Tensor) -> int:
    """By how many places a step's query is off: which uncached scores are its, further on or further back."""
    p = visit.patient
    n = 3
    try:
        _, state = step(x[:, :n].contiguous(), None, _options(visit, n, n))
        with Watch() as watch:
            step(x[:, n : n + 1].contiguous(), state, _options(visit, 1, n + 1))
        got = _row(watch.events, 1, n + 1)
        for shift in (0, 1, -1):
            gap = p.other.query[:, :1] if shift > 0 else x[:, :0]
            kept = n if shift >= 0 else n - 1
            placed = torch.cat([x[:, :kept], gap, x[:, n : n + 1]], 1)
            length = placed.shape[1]
            with Watch() as watch:
                p.run(Tokens(placed), **_options(visit, length, length))
            want = _row(watch.events, length, length)
            if got is not None and want is not None and _same(p, got[..., :kept], want[..., :kept]):
                return shift
    except Refused:
        return 0
    return 0


def _row(events: list[Event], length: int, keys: int) -> Tensor | None:
    """The last query's scores."""
    fits = [e.scores for e in events if tuple(e.scores.shape[-2:]) == (length, keys)]
    return fits[0][..., -1, :] if fits else None


def _same(p: Patient, a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a - b).abs() <= p.tolerance(a, b)).all())


def _options(visit: Visit, length: int, keys: int) -> dict[str, Any]:
    """What makes a call with so many new tokens, and so many in all, causal."""
    p, options = visit.patient, visit.causal_options or {}
    if not any(isinstance(x, Tensor) for x in options.values()):
        return options
    allowed = torch.ones(length, keys, dtype=torch.bool, device=p.device).tril(keys - length)
    allowed = allowed.expand(p.sizes.B, -1, -1)
    form = next(f for forms in visit.forms.values() for f in forms if f.argument in options and f.fits(allowed))
    return form.make(allowed, p.dtype, p.sizes.H)


def stepper(visit: Visit) -> Step | None:
    """Find out how the cache is passed: an object that is filled, or what came back the last time."""
    p = visit.patient
    told = p.adapter.cached
    if told is not None:
        return lambda x, state, options: _told(p, told, x, state)
    name = p.signature.cache
    assert name is not None
    for make in _objects(p):
        kind = _Filled(p, name, make)
        if _works(visit, kind):
            return kind
    back = _Returned(p, name)
    return back if _works(visit, back) else None


def _works(visit: Visit, step: Step) -> bool:
    """Whether a second step sees the first."""
    p = visit.patient
    try:
        ends = []
        for x in (p.tokens.query, torch.cat([p.other.query[:, :_FIRST], p.tokens.query[:, _FIRST:]], 1)):
            _, state = step(x[:, :_FIRST].contiguous(), None, _options(visit, _FIRST, _FIRST))
            ends.append(step(x[:, _FIRST : _FIRST + 1].contiguous(), state, _options(visit, 1, _FIRST + 1))[0])
    except OutOfTime:
        raise
    except Exception:
        return False
    return bool(p.changed(*ends).any())


def _told(p: Patient, cached: Callable[..., Any], x: Tensor, state: Any) -> tuple[Tensor, Any]:
    try:
        y, state = cached(p.function, x, state)
    except Exception as error:
        raise Refused(
            f"the adapter's cached raised {type(error).__name__}: {' '.join(str(error).split()):.200}"
        ) from error
    return p.output(y, Tokens(x)), state


def _objects(p: Patient) -> list[Callable[[], Any]]:
    from companion.cache import KVCache

    made: list[Callable[[], Any]] = [lambda: KVCache(64, 8), dict, list]
    if type(p.function).__module__.startswith("transformers"):
        from transformers import DynamicCache

        made.insert(0, DynamicCache)
    return made


class _Filled:
    """A cache that each call fills."""

    def __init__(self, patient: Patient, name: str, make: Callable[[], Any]) -> None:
        self.patient, self.name, self.make = patient, name, make

    def __call__(self, x: Tensor, state: Any, options: dict[str, Any]) -> tuple[Tensor, Any]:
        state = self.make() if state is None else state
        return self.patient.run(Tokens(x), **(options | {self.name: state})), state


class _Returned:
    """A cache that each call returns, beside the output."""

    def __init__(self, patient: Patient, name: str) -> None:
        self.patient, self.name = patient, name
        self.extra = {"use_cache": True} if "use_cache" in patient.signature.names else {}

    def __call__(self, x: Tensor, state: Any, options: dict[str, Any]) -> tuple[Tensor, Any]:
        tokens = Tokens(x)
        returned = self.patient.raw(tokens, **(options | self.extra | {self.name: state}))
        if not isinstance(returned, (tuple, list)) or len(returned) < 2:
            raise Refused("no cache came back")
        rest = (
            returned[1]
            if len(returned) == 2
            else next((r for r in returned[1:] if isinstance(r, (tuple, list, dict))), None)
        )
        return self.patient.output(returned, tokens), rest
