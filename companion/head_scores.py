r"""What does a head do? One number for each pattern that heads are known to fall into.

For query i a pattern names one key, :math:`t(i)`. A head's score is the attention that it pays there, on average over
the queries for which there is such a key:

.. math:: \text{score}_h = \frac{1}{|Q|} \sum_{(b, i) \in Q} A_{b, h, i, t(i)}

A head that does nothing else scores 1, in a causal model too, since queries without such a key are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from companion import check
from companion.attention import at_least_float32
from companion.rollout import checked_layers
from companion.typing import Bool, Float, Int

__all__ = ["head_scores"]

POSITIONAL = ("previous", "first", "diagonal")
REPEATING = ("induction", "duplicate")
Weights = Float[Tensor, "B H L L"] | Float[Tensor, "layers B H L L"] | Sequence[Float[Tensor, "B H L L"]]


@overload
def head_scores(
    weights: Weights, kind: str, *, tokens: Tensor | None = ..., real: Tensor | None = ...
) -> Float[Tensor, "layers H"]: ...


@overload
def head_scores(
    weights: Weights, kind: None = ..., *, tokens: Tensor | None = ..., real: Tensor | None = ...
) -> dict[str, Float[Tensor, "layers H"]]: ...


def head_scores(
    weights: Weights,
    kind: str | None = None,
    *,
    tokens: Int[Tensor, "B L"] | None = None,
    real: Bool[Tensor, "B L"] | None = None,
) -> Float[Tensor, "layers H"] | dict[str, Float[Tensor, "layers H"]]:
    """Score each head of each layer for a pattern, or for all of them.

    =============  =================================================  ==============================================
    kind           the key t(i) that is looked for                    queries that count
    =============  =================================================  ==============================================
    ``previous``   i − 1                                              all but an entry's first
    ``first``      the entry's first token (a *sink*)                 all but an entry's first
    ``diagonal``   i                                                  all but an entry's first
    ``duplicate``  j, the token's last occurrence before i            those whose token occurred before
    ``induction``  j + 1: what came after it the last time            the same, but where j + 1 = i
    =============  =================================================  ==============================================

    An entry's first token is left out where it has no choice: a causal head can but look at itself there. To know what
    a score is worth, compare it with chance: a head that spreads evenly over the past gives 1 / (i + 1) to any key.

    Args:
        weights: self-attention's, ``(B, H, L, L)``: one layer's, or those of several layers with as many heads.
        kind: which pattern; if not given, all three that need no tokens, and with ``tokens`` all five.
        tokens: ids, ``(B, L)``, for ``induction`` and ``duplicate``: random ones, repeated, make the cleanest test
            (:mod:`companion.tasks` has them).
        real: ``True`` for a real token, ``(B, L)``. Queries and keys of padding do not count; "first" and "previous"
            are among the real tokens.

    Returns:
        ``(layers, H)``, from 0 to 1, in float32 at least; without ``kind``, one for each kind, by name.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: shapes that do not fit, an unknown kind, or no query that counts.

    Example:
        >>> previous = torch.tensor([[[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]]])
        >>> head_scores(previous, "previous")  # 1 of token 1, 1/2 of token 2
        tensor([[0.7500]])

    Source: Elhage et al., "A Mathematical Framework for Transformer Circuits", 2021; Olsson et al., "In-context
    Learning and Induction Heads", 2022 (arXiv:2209.11895); Xiao et al., "Efficient Streaming Language Models with
    Attention Sinks", 2023 (arXiv:2309.17453).
    """
    layers = _checked_weights(weights)
    shape = (layers[0].shape[0], layers[0].shape[-1])
    if kind is not None:
        check.one_of("kind", kind, POSITIONAL + REPEATING)
    kept = _checked_real(real, shape, layers[0].device)
    ids = None if tokens is None else _checked_tokens(tokens, shape, layers[0].device)
    if kind in REPEATING and ids is None:
        raise ValueError(f"tokens must be given for kind={kind!r}, got None")
    kinds = (kind,) if kind else POSITIONAL + (() if ids is None else REPEATING)
    scores = {each: torch.stack([_score(x, *_target(each, ids, kept)) for x in layers]) for each in kinds}
    return scores if kind is None else scores[kind]


def _score(weights: Tensor, target: Tensor, counts: Tensor) -> Tensor:
    """The mean weight on ``target (B, L)`` over the queries that count: ``(B, H, L, L)`` to ``(H,)``."""
    index = target[:, None, :, None].expand(-1, weights.shape[1], -1, 1)  # (B, H, L, 1)
    found = at_least_float32(weights).gather(-1, index).squeeze(-1)  # (B, H, L)
    return found.masked_fill(~counts.unsqueeze(1), 0.0).sum((0, 2)) / counts.sum()


def _target(kind: str, ids: Tensor | None, real: Tensor) -> tuple[Tensor, Tensor]:
    """The key that each query is asked about, and whether there is one: both ``(B, L)``."""
    here = torch.arange(real.shape[1], device=real.device).expand(real.shape)
    order = real.cumsum(-1)
    before = _last(real, here)  # the last real token before each
    later = real & (order > 1)
    if kind == "previous":
        target, counts = before, later
    elif kind == "first":
        target, counts = (order == 1).long().argmax(-1, keepdim=True).expand(real.shape), later
    elif kind == "diagonal":
        target, counts = here, later
    else:
        assert ids is not None
        pairs = (ids.unsqueeze(-1) == ids.unsqueeze(-2)) & real.unsqueeze(-1) & real.unsqueeze(-2)  # (B, L, L)
        pairs = pairs & (here.unsqueeze(-2) < here.unsqueeze(-1))  # key before query
        last = torch.where(pairs, here.unsqueeze(-2), -1).amax(-1)
        target, counts = last, last >= 0
        if kind == "induction":  # the real token after the last occurrence
            target = _next(real, here).gather(-1, last.clamp(min=0))
            counts = counts & (target < here)
    if not bool(counts.any()):
        lack = "has no token that occurs again" if kind in REPEATING else "has fewer than two real tokens"
        raise ValueError(f"kind={kind!r} needs a query with such a key, but each entry {lack}")
    return torch.where(counts, target, 0), counts


def _last(real: Tensor, here: Tensor) -> Tensor:
    """The position of the last real token before each; −1 for none."""
    at = torch.where(real, here, -1).cummax(-1).values
    return torch.nn.functional.pad(at[:, :-1], (1, 0), value=-1)


def _next(real: Tensor, here: Tensor) -> Tensor:
    """The position of the next real token after each; the length for none."""
    length = real.shape[1]
    at = torch.where(real, here, length).flip(-1).cummin(-1).values.flip(-1)
    return torch.nn.functional.pad(at[:, 1:], (0, 1), value=length)


def _checked_weights(weights: object) -> list[Tensor]:
    layers = checked_layers("weights", [weights] if isinstance(weights, Tensor) and weights.dim() < 5 else weights)
    for i, x in enumerate(layers):
        if x.dim() != 4:
            raise ValueError(f"weights must be (B, H, L, L), got shape {check.shape(x)} in layer {i}")
        if x.shape != layers[0].shape:
            raise ValueError(
                f"weights of all layers must have one shape, got {check.shape(layers[0])} and {check.shape(x)}"
            )
    if not layers[0].shape[-1] or not layers[0].shape[0]:
        raise ValueError(f"weights must hold at least one token, got shape {check.shape(layers[0])}")
    return layers


def _checked_real(real: object, shape: tuple[int, int], device: torch.device) -> Tensor:
    if real is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    table = check.tensor("real", real)
    if table.dtype is not torch.bool:
        raise TypeError(f"real must be boolean, True for a real token, got {table.dtype}")
    return _placed("real", table, shape, device)


def _checked_tokens(tokens: object, shape: tuple[int, int], device: torch.device) -> Tensor:
    return _placed("tokens", check.integers("tokens", tokens), shape, device)


def _placed(name: str, table: Tensor, shape: tuple[int, int], device: torch.device) -> Tensor:
    if check.shape(table) != shape:
        raise ValueError(f"{name} must have shape (B, L) = {shape}, as the weights have, got {check.shape(table)}")
    if table.device != device:
        raise ValueError(f"{name} must be on the device of the weights, {device}, got {table.device}")
    return table
