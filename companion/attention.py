r"""Scaled dot-product attention, in five named steps.

.. math::

   \operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{D}}\right) V

This file is the reference: plain, exact, and slow on long inputs, since it holds every weight. ``companion.attend``
gives the same numbers fast, and every other implementation in the package is tested against this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from companion import check
from companion.call import Call
from companion.typing import AttentionOutput, Float

if TYPE_CHECKING:
    from companion.masks import Mask

__all__ = [
    "merge_heads",
    "repeat_kv",
    "scaled_dot_product_attention",
    "softmax_jacobian",
    "split_heads",
    "stable_softmax",
]


def stable_softmax(x: Float[Tensor, "*shape"], dim: int = -1) -> Float[Tensor, "*shape"]:
    r"""Turn scores into weights: positive, and summing to one along ``dim``.

    .. math:: a_j = \frac{e^{x_j - m}}{\sum_k e^{x_k - m}}, \qquad m = \max_k x_k

    Subtracting the maximum changes nothing, since softmax ignores a shift, and keeps ``exp`` from overflowing. Half
    precision is computed in float32 and cast back.

    Args:
        x: scores of any shape; minus infinity marks what must get no weight.
        dim: the axis that sums to one: the keys, which are the last axis of a score matrix.

    Returns:
        Weights, in the shape and dtype of ``x``. Where all scores along ``dim`` are minus infinity, or there are
        none, the weights are zeros, and so are their gradients. A NaN makes its row NaN.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``dim`` no int.
        ValueError: ``x`` has no axis ``dim``.

    Example:
        >>> stable_softmax(torch.tensor([0.0, math.log(3.0)]))  # 1 / (1 + 3) and 3 / (1 + 3)
        tensor([0.2500, 0.7500])
        >>> stable_softmax(torch.tensor([1000.0, 1000.0, -math.inf]))
        tensor([0.5000, 0.5000, 0.0000])

    Source: Bridle, "Probabilistic interpretation of feedforward classification network outputs", 1990.
    """
    axis = check.along("x", x, dim, "(..., S)")
    if x.shape[axis] == 0:
        return x.clone()
    scores = at_least_float32(x)
    largest = scores.detach().amax(axis, keepdim=True)
    # In a row with nothing to see, −inf − (−inf) would be NaN.
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    terms = torch.exp(scores - largest)
    total = terms.sum(axis, keepdim=True)
    return (terms / total.masked_fill(total == 0, 1.0)).to(x.dtype)


def softmax_jacobian(x: Float[Tensor, "*batch S"]) -> Float[Tensor, "*batch S S"]:
    r"""How each weight answers to each score.

    .. math:: \frac{\partial a_i}{\partial x_j} = a_i (\delta_{ij} - a_j), \qquad J = \operatorname{diag}(a) - a a^\top

    Args:
        x: scores, ``(..., S)``.

    Returns:
        The Jacobian of ``stable_softmax`` at ``x``, ``(..., S, S)``: symmetric, rows summing to zero. It vanishes as
        one weight nears 1.

    Raises:
        TypeError: ``x`` is no floating-point tensor.
        ValueError: ``x`` has no dims.

    Example:
        >>> softmax_jacobian(torch.tensor([0.0, 0.0]))
        tensor([[ 0.2500, -0.2500],
                [-0.2500,  0.2500]])
    """
    check.floating("x", x)
    check.min_rank("x", x, 1, "(..., S)")
    weights = stable_softmax(at_least_float32(x))
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return jacobian.to(x.dtype)


def split_heads(x: Float[Tensor, "*batch L M"], num_heads: int) -> Float[Tensor, "*batch H L D"]:
    """Cut the features of each position into ``num_heads`` pieces: ``(..., L, M)`` to ``(..., H, L, D)``.

    Args:
        x: features, ``(..., L, M)`` with ``M = H * D``.
        num_heads: ``H``.

    Returns:
        ``(..., H, L, D)``, a view. Head ``h`` holds features ``h * D`` to ``(h + 1) * D`` of every position.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``num_heads`` no int.
        ValueError: ``M`` is no multiple of ``num_heads``, or ``x`` has fewer than two dims.

    Example:
        >>> split_heads(torch.arange(8.0).view(2, 4), num_heads=2)[0]
        tensor([[0., 1.],
                [4., 5.]])
    """
    check.floating("x", x)
    check.min_rank("x", x, 2, "(..., L, M)")
    heads = check.integer("num_heads", num_heads)
    if x.shape[-1] % heads:
        raise ValueError(f"x has width {x.shape[-1]} (shape {check.shape(x)}), no multiple of num_heads={heads}")
    features = x.unflatten(-1, (heads, x.shape[-1] // heads))  # (..., L, H, D)
    return features.transpose(-2, -3)  # (..., H, L, D): a view alone would cut positions, not features


def merge_heads(x: Float[Tensor, "*batch H L D"]) -> Float[Tensor, "*batch L M"]:
    """Undo ``split_heads``: ``(..., H, L, D)`` to ``(..., L, M)``, with ``M = H * D``.

    Args:
        x: one output a head, ``(..., H, L, D)``.

    Returns:
        ``(..., L, H * D)``.

    Raises:
        TypeError: ``x`` is no floating-point tensor.
        ValueError: ``x`` has fewer than three dims.

    Example:
        >>> x = torch.arange(8.0).view(2, 4)
        >>> torch.equal(merge_heads(split_heads(x, 2)), x)
        True
    """
    check.floating("x", x)
    check.min_rank("x", x, 3, "(..., H, L, D)")
    return x.transpose(-2, -3).flatten(-2)


def repeat_kv(x: Float[Tensor, "*batch G S D"], num_heads: int) -> Float[Tensor, "*batch H S D"]:
    """Give each query head the key/value head of its group: ``(..., G, S, D)`` to ``(..., H, S, D)``.

    Args:
        x: keys or values, ``(..., G, S, D)``.
        num_heads: ``H``, the number of heads wanted in all (not the number of repeats).

    Returns:
        ``(..., H, S, D)``; head ``h`` is head ``h // (H // G)`` of ``x``: each is repeated in place, not tiled.

    Raises:
        TypeError: ``x`` is no floating-point tensor, or ``num_heads`` no int.
        ValueError: ``num_heads`` is no multiple of ``G``, or ``x`` has fewer than three dims.

    Example:
        >>> repeat_kv(torch.tensor([10.0, 20.0]).view(2, 1, 1), num_heads=4).flatten()
        tensor([10., 10., 20., 20.])

    Source: Ainslie et al., "GQA", 2023 (arXiv:2305.13245), section 2.2.
    """
    check.floating("x", x)
    check.min_rank("x", x, 3, "(..., G, S, D)")
    heads = check.integer("num_heads", num_heads)
    groups = x.shape[-3]
    if groups == 0 or heads % groups:
        raise ValueError(f"num_heads={heads} must be a multiple of the {groups} heads of x, shape {check.shape(x)}")
    if heads == groups:
        return x
    repeated = x.unsqueeze(-3).expand(*x.shape[:-2], heads // groups, *x.shape[-2:])  # (..., G, H/G, S, D)
    return repeated.flatten(-4, -3)  # (..., H, S, D)


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*kv_batch S D"],
    value: Float[Tensor, "*kv_batch S E"],
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> AttentionOutput:
    r"""Attention with its work shown: scores, scale, mask, softmax, weighted sum.

    .. math:: A = \operatorname{softmax}(s\, Q K^\top + \text{bias}), \qquad O = A V, \qquad s = 1/\sqrt{D}

    Args:
        query: ``(..., H, L, D)``, or ``(L, D)``.
        key: ``(..., G, S, D)`` with the same leading dims and ``H % G == 0``, or ``(S, D)``.
        value: ``(..., G, S, E)``, or ``(S, E)``.
        mask: who may look at whom: a boolean tensor, ``True`` where a query *may* attend, of shape ``(L, S)`` or with
            one dim for each of the scores' ``(..., H, L, S)``, each 1 or full, the last full; or a
            :class:`~companion.masks.Mask`.
        bias: added to the scaled scores, floating point, shaped as a mask may be.
        scale: multiplies the scores; ``None`` is ``1 / sqrt(D)``.
        dropout_p: the probability with which a weight is dropped. Pass 0 in evaluation.

    Returns:
        ``output (..., L, E)``, ``weights (..., L, S)`` before dropout, ``logsumexp (..., L)``. Softmax is computed in
        float32 at least; output and weights have the dtype of ``query``, the log-sum-exp is float32 at least.
        A query that may see nothing (or with ``S = 0``) gets zeros, with zero gradient. NaN or infinity in a key or
        value reaches the queries that may see it, as NaN, and no other.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: shapes, heads, devices or numbers that do not fit; the message says which and how.

    Example:
        >>> q, k, v = torch.zeros(1, 4), torch.zeros(3, 4), torch.tensor([[0.0], [1.0], [2.0]])
        >>> out = scaled_dot_product_attention(q, k, v)
        >>> out.output, out.logsumexp  # three equal weights: mean of the values, log 3
        (tensor([[1.]]), tensor([1.0986]))

    Source: Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.2.1.
    """
    call = Call.of(query, key, value, mask, bias=bias, scale=scale, dropout_p=dropout_p)
    out = reference(call)
    return AttentionOutput(*(call.restore(x) for x in out))


def _outside_autocast(function: Callable[[Call], AttentionOutput]) -> Callable[[Call], AttentionOutput]:
    """Autocast would take the float32 products back to half precision."""

    @wraps(function)
    def run(call: Call) -> AttentionOutput:
        device = call.device.type
        if not torch.amp.is_autocast_available(device):
            return function(call)
        with torch.autocast(device, enabled=False):
            return function(call)

    return run


@_outside_autocast
def reference(call: Call) -> AttentionOutput:
    """The five steps on a checked call, with all leading dims folded into one."""
    call, broken = call.without_broken_keys()
    query, key, value = map(at_least_float32, (call.query, call.key, call.value))
    key = repeat_kv(key, call.num_heads)  # (B, G, S, D) -> (B, H, S, D)
    value = repeat_kv(value, call.num_heads)  # (B, G, S, E) -> (B, H, S, E)

    # 1. Scores: how well does each query match each key?
    #    (B, H, L, D) x (B, H, D, S) -> (B, H, L, S)
    # 2. Scale the query, not the product, which could overflow first.
    scores = (query * call.scale) @ key.transpose(-2, -1)
    if call.bias is not None:
        scores = scores + call.bias.to(scores.dtype)
    # 3. Mask: what may not be seen is minus infinity away.
    allowed = call.allowed()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    # 4. Softmax over the keys: each row becomes shares of one.
    weights = stable_softmax(scores)
    # 5. Weighted sum of the values.
    #    (B, H, L, S) x (B, H, S, E) -> (B, H, L, E)
    kept = F.dropout(weights, call.dropout_p) if call.dropout_p else weights
    output = kept @ value

    result = AttentionOutput(output, weights, logsumexp(scores))
    if broken is not None:  # queries that may see a NaN or an infinity
        result = _with_nan(result, broken)
    dtype = call.query.dtype
    return result._replace(output=result.output.to(dtype), weights=result.weights.to(dtype))


def _with_nan(result: AttentionOutput, rows: Tensor) -> AttentionOutput:
    """Make rows ``(B, H, L)`` of a result NaN."""
    output, weights = (x.masked_fill(rows.unsqueeze(-1), math.nan) for x in (result.output, result.weights))
    return AttentionOutput(output, weights, result.logsumexp.masked_fill(rows, math.nan))


def at_least_float32(x: Tensor) -> Tensor:
    """What half precision would spoil is computed in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def logsumexp(scores: Tensor) -> Tensor:
    """``torch.logsumexp`` over the keys; minus infinity for an empty row, with zero gradient in place of NaN."""
    empty = (scores == -math.inf).all(-1)
    return scores.masked_fill(empty.unsqueeze(-1), 0.0).logsumexp(-1).masked_fill(empty, -math.inf)
