"""What a function of q, k and v really computes: its weights are read off with values that are one key each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from companion.clinic import visit as v
from companion.clinic.patient import Patient, Refused
from companion.clinic.tokens import Tokens, draw
from companion.clinic.visit import Visit

__all__: list[str] = []


def weights_of(p: Patient, tokens: Tokens) -> Tensor:
    """``(B, H, L, S)``: with values e_j, output i is weight (i, j)."""
    assert tokens.value is not None
    E, S = tokens.value.shape[-1], tokens.keys
    eye = torch.eye(S, dtype=p.dtype, device=p.device)
    parts = []
    for start in range(0, S, E):
        block = torch.zeros(S, E, dtype=p.dtype, device=p.device)
        width = min(E, S - start)
        block[:, :width] = eye[:, start : start + width]
        y = p.run(tokens._replace(value=block.expand_as(tokens.value).contiguous()))
        parts.append(y.unflatten(-1, (tokens.query.shape[1], E)).transpose(1, 2)[..., :width])
    return torch.cat(parts, -1)


def function(visit: Visit) -> None:
    """Axis, number and sums of the softmax, and the scale."""
    p = visit.patient
    weights = weights_of(p, p.tokens)
    if not weights.isfinite().any():
        visit.untold(v.ROWS, "values of zero and one give NaN")
        return
    rows, columns = weights.nan_to_num().sum(-1), weights.nan_to_num().sum(-2)
    bound = 64 * p.eps * p.keys
    rows = rows[rows != 0]
    off = float(rows.sub(1).abs().max()) if rows.numel() else 1.0
    if off > bound:
        _uneven(visit, weights, rows, columns, bound)
        return
    visit.ok(v.AXIS, "each query's weights sum to one")
    visit.ok(v.ROWS, f"each query's weights sum to one, to {off:.1e}")
    scale, error = slope(weights, scores_of(p.tokens))
    if error > 1e-6 and _twice(visit, weights):
        return
    visit.ok(
        v.ONCE,
        "the logarithms of the weights are the scores, but for a constant" if error <= 1e-6 else "weights sum to one",
    )
    if error > 1e-6:
        visit.untold(
            v.SCALE, f"the weights are no softmax of scaled dot products (off by {error:.2g}): another score, or a bias"
        )
        return
    _scale(visit, scale)


def scores_of(tokens: Tokens) -> Tensor:
    """``Q Kᵀ``, ``(B, H, L, S)``."""
    assert tokens.key is not None
    return tokens.query @ tokens.key.mT


def slope(weights: Tensor, scores: Tensor) -> tuple[float, float]:
    """The s in ``log A = s · scores + a constant a row``, and how far that is from true."""
    seen = weights > 1e-100
    count = seen.sum(-1, keepdim=True).clamp(min=1)
    logs = weights.clamp(min=1e-300).log().masked_fill(~seen, 0.0)
    x = scores.masked_fill(~seen, 0.0)
    logs = (logs - logs.sum(-1, keepdim=True) / count).masked_fill(~seen, 0.0)
    x = (x - x.sum(-1, keepdim=True) / count).masked_fill(~seen, 0.0)
    s = float((logs * x).sum() / (x * x).sum())
    return s, float((logs - s * x).abs().max() / (1 + logs.abs().max()))


def _uneven(visit: Visit, weights: Tensor, rows: Tensor, columns: Tensor, bound: float) -> None:
    """Rows that do not sum to one: columns that do, or weight taken away afterwards."""
    p = visit.patient
    if float(columns.sub(1).abs().max()) <= bound:
        symptom = f"each key's weights sum to one over the queries; each query's sum to {_range(rows)}"
        visit.fault("softmax-over-queries", v.AXIS, symptom, float(rows[0]), 1.0, blocks=True)
        return
    scores = scores_of(p.tokens)
    if float(weights.sum(1).sub(1).abs().max()) <= bound or float(weights.sum(0).sub(1).abs().max()) <= bound:
        symptom = "the weights sum to one along the heads or the batch, not over the keys"
        visit.fault("softmax-over-queries", v.AXIS, symptom, float(rows[0]), 1.0, blocks=True)
        return
    scale, error = slope(weights, scores)
    whole = (scale * scores).softmax(-1)
    if error <= 1e-6 and float(((weights - whole) * (weights > 0)).abs().max()) <= 1e-9:
        symptom = f"some weights of an unmasked softmax are set to zero: a query's sum to {_range(rows)}"
        visit.fault("mask-after-softmax", v.BEFORE, symptom, float(rows.min()), 1.0, blocks=True)
        return
    visit.fault(
        "rows-sum",
        v.ROWS,
        f"a query's weights sum to between {float(rows.min()):.3f} and {float(rows.max()):.3f}",
        float(rows[0]),
        1.0,
        blocks=True,
    )


def _twice(visit: Visit, weights: Tensor) -> bool:
    """Whether the logarithms of the weights are weights themselves."""
    p = visit.patient
    S = weights.shape[-1]
    if not bool((weights > 0).all()):
        return False
    inner = weights.log()
    inner = inner - (inner.sum(-1, keepdim=True) - 1) / S  # up to a constant, of which the sum decides
    if float(inner.min()) < -1e-9:
        return False
    _, error = slope(inner.clamp(min=1e-300), scores_of(p.tokens))
    if error > 1e-6:
        return False
    symptom = "the logarithms of the weights are the softmax of the scores, not the scores"
    visit.fault("softmax-twice", v.ONCE, symptom, 2.0, 1.0, blocks=True)
    return True


def _scale(visit: Visit, scale: float) -> None:
    p = visit.patient
    M, D = p.sizes.M, p.tokens.query.shape[-1]
    want = 1 / math.sqrt(D)
    if _near(scale, want):
        visit.ok(v.SCALE, f"{scale:.4f} = 1/√{D}")
        return
    second = _elsewhere(p)
    fixed = second is not None and _near(scale, second[1])
    names = {
        "scale-missing": lambda d: 1.0,
        "scale-1-over-d": lambda d: 1 / d,
        "scale-sqrt-d-model": lambda d: 1 / math.sqrt(M),
    }
    fits = [n for n, f in names.items() if _near(scale, f(D)) and (second is None or _near(second[1], f(second[0])))]
    if not fits and fixed and visit.heads is None and _divisor(scale, M):
        d = round(1 / scale**2)
        visit.untold(
            v.SCALE, f"it is {scale:.4f} = 1/√{d} for every width: right for heads of {d}; say num_heads={M // d} if so"
        )
        return
    says = {"scale-1-over-d": f"1/{D}", "scale-sqrt-d-model": f"1/√{M}, √d_model"}
    name = fits[0] if fits else "scale-other"
    which = ", so there is no scale" if name == "scale-missing" else f" = {says[name]}" if name in says else ""
    symptom = f"from the logarithms of the weights, the scores are multiplied by {scale:.4f}{which}"
    visit.fault(name, v.SCALE, symptom, scale, want)


def _elsewhere(p: Patient) -> tuple[int, float] | None:
    """The scale for heads of another width and the same ``d_model``: tells 1/D from 1/√d_model where D² is d_model."""
    if p.lead != 2:
        return None
    H = next((h for h in (2, 1, 8, 4, 3) if p.sizes.M % h == 0 and h != p.sizes.H), None)
    if H is None:
        return None
    tokens = draw("function", p.sizes._replace(H=H), p.generator, p.dtype, p.device)
    try:
        scale, error = slope(weights_of(p, tokens), scores_of(tokens))
    except Refused:
        return None
    return (p.sizes.M // H, scale) if error <= 1e-6 else None


def _range(sums: Tensor) -> str:
    return f"between {float(sums.min()):.3f} and {float(sums.max()):.3f}"


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-5 * max(abs(a), abs(b))


def _divisor(scale: float, M: int) -> bool:
    if scale <= 0:
        return False
    d = round(1 / scale**2)
    return 1 < d < M and M % d == 0 and _near(scale, 1 / math.sqrt(d))
