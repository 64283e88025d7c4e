r"""Which inputs made the score what it is? Walk from a baseline to the input, and add up the gradient on the way.

.. math:: a_i = (x_i - x'_i) \int_0^1 \frac{\partial f}{\partial x_i}\bigl(x' + t\,(x - x')\bigr)\, dt,
   \qquad \sum_i a_i = f(x) - f(x')

The sum is the fundamental theorem of calculus along the straight line, and is called *completeness*: nothing of the
difference is left over. A gradient at the input alone has no such account; where the score saturates it is zero,
whatever the input did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from companion import check
from companion.attention import at_least_float32
from companion.typing import Float

__all__ = ["Attributions", "integrated_gradients", "token_attributions"]

METHODS = ("gauss", "midpoint")


class Attributions(NamedTuple):
    """What each input has contributed.

    Attributes:
        attributions: in the shape of the inputs.
        difference: ``f(x) - f(x')``, in the shape of the score, ``(B,)`` or ``()``.
        error: the sum of the attributions less the difference: 0 but for rounding and for what the steps miss. Where it
            is not small, take more steps.
    """

    attributions: Tensor
    difference: Tensor
    error: Tensor

    @property
    def tokens(self) -> Tensor:
        """One number a token: the sum over the last dim, ``(B, L, M)`` to ``(B, L)``."""
        return self.attributions.sum(-1)


def integrated_gradients(
    function: Callable[[Tensor], Tensor],
    inputs: Float[Tensor, "*shape"],
    baseline: Float[Tensor, "*base"] | None = None,
    *,
    steps: int = 32,
    method: str = "gauss",
) -> Attributions:
    """Share out the difference that the inputs make among them.

    The integral becomes a weighted sum of gradients at ``steps`` points. Gauss-Legendre's points are exact where the
    score is a polynomial of degree up to ``2 * steps`` along the way, and good wherever it is smooth; where it has
    kinks (relu), midpoints do as well.

    Args:
        function: from ``x`` to a score for each entry of the batch, ``(B,)``, which looks at no other entry; or to one
            score for all, ``()``. It must give the same answer each time: no dropout.
        inputs: ``x``, such as ``(B, L, M)``.
        baseline: ``x'``, where "nothing" is, broadcast to the shape of ``inputs``; zeros if not given.
        steps: how many gradients are taken.
        method: ``"gauss"`` or ``"midpoint"``.

    Returns:
        Attributions, in the shape of ``inputs``, the difference, and the error. Float32 at least; no gradients of
        parameters are touched.

    Raises:
        TypeError: an argument of the wrong kind, or a function that returns no floating-point tensor.
        ValueError: shapes that do not fit, or a score that does not depend on the inputs.

    Example:
        >>> product = lambda x: x.prod(-1)  # of 3 and 4, from (1, 0): the line is (1 + 2t) * 4t
        >>> integrated_gradients(product, torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 0.0]), steps=1)[:2]
        (tensor([[4., 8.]]), tensor([12.]))

    Source: Sundararajan et al., "Axiomatic Attribution for Deep Networks", 2017 (arXiv:1703.01365), section 3.
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}")
    x = check.floating("inputs", inputs).detach()
    start = _checked_baseline(baseline, x)
    points, shares = _points(steps, method)
    with torch.no_grad():
        end = _checked_score(function(x.clone()), x)
        difference = at_least_float32(end) - at_least_float32(_checked_score(function(start.clone()), x))
    total = torch.zeros_like(at_least_float32(x))
    for point, share in zip(points, shares, strict=True):
        total += share * _gradient(function, start + point * (x - start))
    attributions = total * (at_least_float32(x) - at_least_float32(start))
    summed = attributions.sum() if difference.dim() == 0 else attributions.flatten(1).sum(-1)
    return Attributions(attributions, difference, summed - difference)


def token_attributions(
    model: nn.Module,
    score: Callable[[], Tensor],
    *,
    baseline: Tensor | int | None = None,
    lookup: int = 0,
    embedding: nn.Module | None = None,
    steps: int = 32,
    method: str = "gauss",
) -> Attributions:
    """Integrated gradients of a model that reads tokens: over their embeddings.

    Works for this package's models and for those of ``transformers``, as they stand: what the token embedding returns
    is replaced while ``score`` runs. Positions, padding and all else stay those of the tokens.

    Args:
        model: in eval mode.
        score: runs the model and returns one score an entry, ``(B,)``: such as ``lambda: model(ids)[:, -1, 5]``, the
            logit of token 5 as the next.
        baseline: an id, whose embedding is everywhere the baseline (a padding or mask token); or a tensor that
            broadcasts to ``(B, L, M)``; zeros if not given. Where the first thing to meet an embedding is a norm, zeros
            are a cliff: the norm blows up whatever is a little off zero, nearly all happens within the first step, and
            the error shows it. Take a token there.
        lookup: which use of the embedding, if it is used several times in a run. In an encoder-decoder 0 is the source,
            1 the target.
        embedding: the module; if not given, ``model.embedding.tokens`` or what ``model.get_input_embeddings()`` says.
        steps: see ``integrated_gradients``.
        method: see ``integrated_gradients``.

    Returns:
        Attributions ``(B, L, M)``, whose ``tokens`` are ``(B, L)``; the difference ``(B,)``; the error ``(B,)``. Tokens
        that the score does not see, such as padding, get zeros.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a model in training mode or without an embedding, no such lookup, or what ``integrated_gradients``
            refuses.

    Example:
        >>> from companion.models import DecoderOnly, TransformerConfig
        >>> model, ids = DecoderOnly(TransformerConfig(vocab_size=9, d_model=8)).eval(), torch.tensor([[1, 2, 3]])
        >>> done = token_attributions(model, lambda: model(ids)[:, -1, 5])
        >>> done.tokens.shape, bool(done.error.abs() < 1e-4)
        (torch.Size([1, 3]), True)
    """
    check.module("model", model)
    if any(module.training for module in model.modules()):
        raise ValueError("model must be in eval mode, or dropout changes the score at each step; call model.eval()")
    if not callable(score):
        raise TypeError(f"score must be callable without arguments, got {type(score).__name__}")
    check.integer("lookup", lookup, minimum=0)
    table = _embedding(model) if embedding is None else embedding
    if not isinstance(table, nn.Module):
        raise TypeError(f"embedding must be a torch.nn.Module, got {type(table).__name__}")
    _points(steps, method)
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x.detach())
        return x

    with torch.no_grad():
        _replaced(table, score, note)
    if lookup >= len(found):
        raise ValueError(f"lookup must be less than the {len(found)} uses of the embedding in a run, got {lookup}")
    if isinstance(baseline, int):
        baseline = _row(table, baseline)

    def run(x: Tensor) -> Tensor:
        uses = iter(range(len(found)))
        return _replaced(table, score, lambda y: x if next(uses) == lookup else y)

    return integrated_gradients(run, found[lookup], baseline, steps=steps, method=method)


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.enable_grad():
        at = x.detach().requires_grad_()
        score = _checked_score(function(at), at)
        if not score.requires_grad:
            raise ValueError("function must depend on its input by differentiable steps, but no gradient comes back")
        (gradient,) = torch.autograd.grad(score.sum(), at, allow_unused=True)
    if gradient is None:
        raise ValueError("function must depend on its input by differentiable steps, but no gradient comes back")
    return at_least_float32(gradient)


def _points(steps: int, method: str) -> tuple[list[float], list[float]]:
    """Where the gradient is taken, between 0 and 1, and what share each has."""
    count = check.integer("steps", steps)
    if check.one_of("method", method, METHODS) == "midpoint":
        return [(i + 0.5) / count for i in range(count)], [1 / count] * count
    import numpy as np

    points, shares = np.polynomial.legendre.leggauss(count)  # between −1 and 1, shares of 2
    return ((points + 1) / 2).tolist(), (shares / 2).tolist()


def _checked_baseline(baseline: object, x: Tensor) -> Tensor:
    if baseline is None:
        return torch.zeros_like(x)
    start = check.floating("baseline", baseline).detach()
    check.same_dtype(baseline=start, inputs=x)
    check.same_device(baseline=start, inputs=x)
    try:
        return start.expand(x.shape)
    except RuntimeError:
        raise ValueError(
            f"baseline must broadcast to the shape of inputs, {check.shape(x)}, got {check.shape(start)}"
        ) from None


def _checked_score(score: object, x: Tensor) -> Tensor:
    if not isinstance(score, Tensor) or not score.is_floating_point():
        kind = score.dtype if isinstance(score, Tensor) else type(score).__name__
        raise TypeError(f"function must return a floating-point tensor, got {kind}")
    if score.dim() and (x.dim() == 0 or check.shape(score) != check.shape(x)[:1]):
        raise ValueError(
            f"function must return one score an entry, {check.shape(x)[:1]}, or one in all, (), "
            f"got shape {check.shape(score)}"
        )
    return score


def _replaced(table: nn.Module, score: Callable[[], Tensor], replace: Callable[[Tensor], Tensor]) -> Tensor:
    """The score, with what the embedding returns replaced."""

    def hook(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
        return replace(output)

    handle = table.register_forward_hook(hook)
    try:
        return score()
    finally:
        handle.remove()


def _embedding(model: nn.Module) -> nn.Module:
    ours = getattr(getattr(model, "embedding", None), "tokens", None)
    if isinstance(ours, nn.Module):
        return ours
    find = getattr(model, "get_input_embeddings", None)
    theirs = find() if callable(find) else None
    if not isinstance(theirs, nn.Module):
        raise ValueError(
            f"model must have model.embedding.tokens or get_input_embeddings(), got {type(model).__name__}; "
            "pass its token embedding as embedding"
        )
    return theirs


def _row(table: nn.Module, token: int) -> Tensor:
    """The embedding of one token, as the module gives it."""
    number = check.integer("baseline", token, minimum=0)
    weight = getattr(table, "weight", None)
    if isinstance(weight, Tensor) and number >= weight.shape[0]:
        raise ValueError(f"baseline must be an id from 0 to {weight.shape[0] - 1}, got {number}")
    where = None if weight is None else weight.device
    with torch.no_grad():
        row: Tensor = table(torch.tensor([[number]], device=where))  # (1, 1, M)
    return row
