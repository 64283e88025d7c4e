"""What form of mask does it take, what does True mean, and does what it hides stay hidden?

The form is found by trying all; then a random mask must hide exactly what it should, pair by pair.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.checks.whose import whose
from companion.clinic.forms import NUMBERS, Form, shapes_for
from companion.clinic.patient import Patient
from companion.clinic.reaction import M, react
from companion.clinic.signature import USUAL
from companion.clinic.visit import Visit

__all__: list[str] = []


def masks(visit: Visit) -> None:
    """Each argument that takes a mask."""
    p = visit.patient
    names = arguments(p)
    if not names:
        for title in (v.PADDING, v.BEFORE):
            if title not in visit._silent((title,)):
                continue
            visit.skip(title, "it takes no mask")
        return
    said = len(visit.findings)
    known: dict[str, str] = {}
    for name in names:
        known[name] = _argument(visit, name)
        if visit.blocked:
            return
    if p.kind == "cross" and len(visit.findings) == said:
        whose(visit, known)
    if v.PADDING in visit._silent((v.PADDING,)):
        tried = ", ".join(f"{name} ({what})" for name, what in known.items())
        visit.untold(v.PADDING, f"no mask of the usual forms hides a key: {tried}")
    if v.BEFORE in visit._silent((v.BEFORE,)):
        if visit.forms:
            visit.ok(v.BEFORE, "with a mask each query's weights still sum to one")
        else:
            visit.skip(v.BEFORE, "no mask of the usual forms hides a key")


def arguments(p: Patient) -> tuple[str, ...]:
    """The arguments that may take a mask."""
    if p.adapter.mask is not None:
        return (p.adapter.mask,)
    return p.signature.masks if p.signature.readable else USUAL


def _argument(visit: Visit, name: str) -> str:
    """Examine one argument; say in a word what came of it."""
    p = visit.patient
    reactions: dict[Form, str] = {}
    good: list[Form] = []
    shapes = (p.adapter.mask_shape,) if p.adapter.mask_shape else shapes_for(name)
    for numbers in NUMBERS:
        for shape in shapes:
            answer = react(p, name, shape, numbers)
            if answer is None:
                continue
            form = Form(name, shape, numbers, answer.split(": ")[-1])
            reactions[form] = answer
            if ":" not in answer and answer not in ("ignored", "leaks", "nothing"):
                good.append(form)
        if good:
            break
    if good:
        if good[0].meaning == "is added" and any(f.numbers == "bool" and r == "leaks" for f, r in reactions.items()):
            visit.facts.append(f"{name}: booleans hide nothing, they are added as 0 and 1: give it 0 and −∞")
        _good(visit, [f for f in good if f.meaning == good[0].meaning])
        return "hides"
    odd = next((r for r in reactions.values() if ":" in r), None)
    if odd is not None:
        _odd(visit, name, odd, next(f for f, r in reactions.items() if r == odd))
        return odd.partition(":")[0]
    if "leaks" in reactions.values():
        form = next(f for f, r in reactions.items() if r == "leaks")
        if name in (*USUAL, p.adapter.mask):
            gap = _gap(p, form)
            symptom = f"{name} changes the output, but in no form does it hide a key: changing a hidden one still shows"
            visit.fault("padding-leak", v.PADDING, symptom, gap, 0.0)
        return "changes the output, hides no key"
    if reactions:
        if p.kind != "cross" and name in (*USUAL, p.adapter.mask) and not p.library:
            symptom = f"{name} is taken and changes nothing: what it should hide is seen"
            visit.fault("padding-leak", v.PADDING, symptom, _gap(p, next(iter(reactions))), 0.0)
        return "ignored"
    return "refused"


def _good(visit: Visit, forms: list[Form]) -> None:
    """A mask that hides keys: note its form, hold it to what was said, and ask it about every pair."""
    p, form = visit.patient, forms[0]
    forms = [f for f in forms if _for_each_entry(p, f)] or forms
    form = forms[0]
    visit.forms[form.argument] = forms
    visit.facts.append(str(form))
    told = p.adapter.mask_true
    if told is not None and told != form.meaning and "is added" not in (told, form.meaning):
        gap = _gap(p, form)
        symptom = f"{form.argument}: True should mean {told!r}, and does mean {form.meaning!r}"
        visit.fault("mask-polarity", v.PADDING, symptom, gap, 0.0)
        return
    table = _table(visit, forms)
    if table is None:
        return
    chosen, allowed = table
    seen = p.visibility(p.tokens, **chosen.make(allowed, p.dtype, p.sizes.H))
    apart = (
        ~torch.eye(p.sizes.L, p.keys, dtype=torch.bool, device=p.device)
        if p.kind == "self"
        else torch.ones_like(allowed[0])
    )
    may = allowed & (visit.seen if visit.seen is not None else torch.ones_like(allowed))
    leaks, lost, freed = seen & ~allowed & apart, ~seen & may & apart, seen & allowed & ~may & apart
    if freed.any() and not leaks.any():
        _replaces(visit, chosen, int(freed.sum()))
    elif leaks.any():
        hidden = int((~allowed & apart).sum())
        symptom = f"with a random {form.argument} that hides {hidden} pairs, {int(leaks.sum())} of them still matter"
        visit.fault("padding-leak", v.PADDING, symptom, float(leaks.sum()), 0.0)
    elif lost.any():
        visit.note(v.PADDING, f"{form.argument} also hides {int(lost.sum())} pairs that it should let attend")
    else:
        hidden, free = int((~may & apart).sum()), int((may & apart).sum())
        visit.ok(v.PADDING, f"{form.argument}: of {hidden} hidden pairs none matters, and all {free} others do")


def _replaces(visit: Visit, form: Form, count: int) -> None:
    """A mask that switches off the causal one: meant so where it is a whole table, a leak where it is padding."""
    p = visit.patient
    symptom = f"where {form.argument} is given, it takes the causal mask's place: {count} later tokens are seen"
    if p.library or form.shape not in ("(B, S)", "(B, 1, 1, S)"):
        visit.note(v.PADDING, f"{symptom}; give it a mask that is causal too")
        visit.ok(v.PADDING, f"{form.argument}: no hidden pair matters")
    else:
        visit.fault("future-leak", v.FUTURE, symptom, float(count), 0.0)


def _table(visit: Visit, forms: list[Form]) -> tuple[Form, Tensor] | None:
    """A mask that hides much, in the most telling form there is: each query sees itself, or key 0."""
    p = visit.patient
    B, L, S = p.sizes.B, p.sizes.L, p.keys
    coin = torch.rand(B, L, S, generator=p.generator).to(p.device) < 0.5
    coin |= torch.eye(L, S, dtype=torch.bool, device=p.device) if p.kind == "self" else torch.zeros_like(coin)
    coin[..., 0] = True
    row = torch.ones(B, 1, S, dtype=torch.bool, device=p.device)
    for b in range(B):
        row[b, :, S - 1 - b % (S - 1) :] = False
    if visit.unseen is not None and p.kind == "self":
        # Through several layers one sees what those see whom one sees: keys hidden from all but themselves stay hidden.
        coin = row | torch.eye(L, S, dtype=torch.bool, device=p.device)
    for allowed in (coin, coin[:1].expand_as(coin), row.expand(B, L, S)):
        for form in forms:
            if form.fits(allowed):
                return form, allowed
    return None


def _for_each_entry(p: Patient, form: Form) -> bool:
    """Whether what hides a key in entry 0 leaves it in the others."""
    if form.shape == "(L, S)":
        return True
    allowed = torch.ones(p.sizes.B, p.sizes.L, p.keys, dtype=torch.bool, device=p.device)
    allowed[0, :, M] = False
    option = form.make(allowed, p.dtype, p.sizes.H)
    changed = p.changed(p.run(p.tokens, **option), p.run(p.tokens.with_key(p.other, M), **option))
    if p.kind == "self":
        changed[:, M] = False
    return not changed[0].any() and bool(changed[1:].any())


def _odd(visit: Visit, name: str, reaction: str, form: Form) -> None:
    gap = _gap(visit.patient, form)
    kind, _, meaning = reaction.partition(": ")
    if kind == "queries":
        symptom = f"{name} for key {M} changes the output of query {M} and no other: key {M} stays in sight of all"
        visit.fault("mask-on-queries", v.PADDING, symptom, gap, 0.0, blocks=True)
    else:
        symptom = (
            f"with {name} ({meaning}), tokens that are all alike give another output: weights no longer sum to one"
        )
        visit.fault("mask-after-softmax", v.BEFORE, symptom, _share(visit.patient, form), 1.0, blocks=True)


def _gap(p: Patient, form: Form) -> float:
    """How much outputs change with a key that this form is said to hide."""
    allowed = torch.ones(p.sizes.B, p.sizes.L, p.keys, dtype=torch.bool, device=p.device)
    allowed[..., M] = False
    told = p.adapter.mask_true
    form = form._replace(meaning=told) if told is not None and form.meaning != "is added" else form
    option = form.make(allowed, p.dtype, p.sizes.H)
    rows = [i for i in range(p.sizes.L) if p.kind != "self" or i != M]
    return p.apart(*(p.run(t, **option)[:, rows] for t in (p.tokens, p.tokens.with_key(p.other, M))))


def _share(p: Patient, form: Form) -> float:
    """The share of the weight that is left when one key of S is hidden after the softmax, all scores alike."""
    return (p.keys - 1) / p.keys if form else 1.0
