r"""From a dictionary to attention: three ways to look something up, and the score that came before the dot product.

A dictionary returns the value of the one key that equals the query. A *hard* lookup returns the value of the key that
matches best. A *soft* lookup returns a mix of all values, each by how well its key matches, and can be learned, since
the mix changes smoothly with the query.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from companion import check
from companion.attention import at_least_float32, logsumexp, scaled_dot_product_attention, stable_softmax
from companion.call import Call
from companion.typing import AttentionOutput, Float

__all__ = ["additive_score", "hard_lookup", "kernel_regression", "soft_lookup"]

_LOG_KERNELS = {
    "gaussian": lambda u: -0.5 * u**2,
    "laplace": lambda u: -u.abs(),
    "boxcar": lambda u: u.masked_fill(u <= 1, 0.0).masked_fill(u > 1, -math.inf),
    # Log of what is inside alone: at the edge its slope is infinite, which would make gradients NaN.
    "epanechnikov": lambda u: torch.log1p(-(u.masked_fill(u >= 1, 0.0) ** 2)).masked_fill(u >= 1, -math.inf),
}


def hard_lookup(
    query: Float[Tensor, "*batch L D"], key: Float[Tensor, "*batch S D"], value: Float[Tensor, "*batch S E"]
) -> AttentionOutput:
    r"""Return the value of the best key.

    .. math:: o_i = v_{j^*}, \qquad j^* = \arg\max_j \; q_i \cdot k_j

    Args:
        query: ``(..., L, D)``.
        key: ``(..., S, D)``.
        value: ``(..., S, E)``.

    Returns:
        ``output (..., L, E)``; ``weights (..., L, S)``, a single 1 a row (the first of equals); as ``logsumexp`` the
        best score, its limit as the temperature goes to zero. No gradient reaches query or key: the winner does not
        move when they move a little. With ``S = 0`` the output is zeros; a NaN among a query's scores makes its
        row NaN.

    Raises:
        TypeError: no floating-point tensors, or of several dtypes.
        ValueError: shapes or devices that do not fit.

    Example:
        >>> keys, values = torch.eye(2), torch.tensor([[10.0], [20.0]])
        >>> hard_lookup(torch.tensor([[0.4, 0.6]]), keys, values).output
        tensor([[20.]])
    """
    _check(query, key, value)
    scores = at_least_float32(query) @ at_least_float32(key).transpose(-2, -1)  # (..., L, S)
    weights = torch.zeros_like(scores, dtype=query.dtype)
    if not key.shape[-2]:
        return AttentionOutput(weights @ value, weights, scores.new_full(scores.shape[:-1], -math.inf))
    best = scores.max(-1)
    winner = best.indices.unsqueeze(-1)  # (..., L, 1)
    weights = weights.scatter(-1, winner, 1.0)
    output = torch.take_along_dim(value, winner, dim=-2)  # taken, not weighed: 0 x NaN would be NaN
    undecided = best.values.isnan().unsqueeze(-1)
    return AttentionOutput(
        output.masked_fill(undecided, math.nan), weights.masked_fill(undecided, math.nan), best.values
    )


def soft_lookup(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*batch S D"],
    value: Float[Tensor, "*batch S E"],
    temperature: float = 1.0,
) -> AttentionOutput:
    r"""Mix all values, each by how well its key matches.

    .. math:: a_{ij} = \operatorname{softmax}_j\!\left(\frac{q_i \cdot k_j}{T}\right), \qquad o_i = \sum_j a_{ij} v_j

    Args:
        query: ``(..., L, D)``.
        key: ``(..., S, D)``.
        value: ``(..., S, E)``.
        temperature: ``T``, positive. Near 0 it is the hard lookup; large, the plain mean of the values. With
            ``sqrt(D)`` it is scaled dot-product attention.

    Returns:
        ``output (..., L, E)``, ``weights (..., L, S)``, ``logsumexp (..., L)``.

    Raises:
        TypeError: no floating-point tensors, of several dtypes, or a temperature that is no number.
        ValueError: shapes or devices that do not fit, or a temperature that is not positive.

    Example:
        >>> keys, values = torch.eye(2), torch.tensor([[10.0], [20.0]])
        >>> soft_lookup(torch.zeros(1, 2), keys, values).output  # matches nothing better than the rest: the mean
        tensor([[15.]])
    """
    scale = 1.0 / check.positive("temperature", temperature)
    _check(query, key, value)
    return scaled_dot_product_attention(query, key, value, scale=scale)


def kernel_regression(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*batch S D"],
    value: Float[Tensor, "*batch S E"],
    bandwidth: float = 1.0,
    kernel: str = "gaussian",
) -> AttentionOutput:
    r"""Nadaraya-Watson regression: a soft lookup by nearness, forty years before attention had its name.

    .. math::

       o_i = \sum_j \frac{\kappa\!\left(\lVert q_i - k_j \rVert / h\right)}
       {\sum_l \kappa\!\left(\lVert q_i - k_l \rVert / h\right)} \, v_j

    Args:
        query: where to estimate, ``(..., L, D)``.
        key: where something was observed, ``(..., S, D)``.
        value: what was observed there, ``(..., S, E)``.
        bandwidth: ``h``, positive, in the units of query and key: how far a neighbour counts.
        kernel: ``"gaussian"``, ``"laplace"``, ``"boxcar"`` or ``"epanechnikov"``.

    Returns:
        ``output (..., L, E)``, ``weights (..., L, S)``, and as ``logsumexp (..., L)`` the log of the kernels' sum. A
        query that no kernel reaches gets zeros.

    Raises:
        TypeError: no floating-point tensors, of several dtypes, a bandwidth that is no number, or a kernel that is
            no str.
        ValueError: shapes or devices that do not fit, a bandwidth that is not positive, or an unknown kernel.

    Example:
        >>> x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([[10.0], [20.0]])
        >>> kernel_regression(torch.tensor([[1.0]]), x, y).output  # as near to one as to the other
        tensor([[15.]])

    Source: Nadaraya, "On Estimating Regression", 1964; Watson, "Smooth Regression Analysis", 1964.
    """
    _check(query, key, value)
    width = check.positive("bandwidth", bandwidth)
    if not isinstance(kernel, str):
        raise TypeError(f"kernel must be a str, got {type(kernel).__name__}")
    if kernel not in _LOG_KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(_LOG_KERNELS)}; got {kernel!r}")
    offsets = at_least_float32(query).unsqueeze(-2) - at_least_float32(key).unsqueeze(-3)  # (..., L, S, D)
    scores = _LOG_KERNELS[kernel](torch.linalg.vector_norm(offsets, dim=-1) / width)  # (..., L, S)
    weights = stable_softmax(scores)
    output = weights @ at_least_float32(value)
    return AttentionOutput(output.to(value.dtype), weights.to(value.dtype), logsumexp(scores))


def additive_score(
    query: Float[Tensor, "*batch L Dq"],
    key: Float[Tensor, "*batch S Dk"],
    W_q: Float[Tensor, "Dq A"],
    W_k: Float[Tensor, "Dk A"],
    v: Float[Tensor, " A"],
) -> Float[Tensor, "*batch L S"]:
    r"""Score a pair by a small network in place of a dot product, as attention first did.

    .. math:: z_{ij} = v \cdot \tanh(q_i W_q + k_j W_k)

    Args:
        query: ``(..., L, Dq)``.
        key: ``(..., S, Dk)``: query and key may differ in width.
        W_q: ``(Dq, A)``.
        W_k: ``(Dk, A)``.
        v: ``(A,)``.

    Returns:
        Scores, ``(..., L, S)``. Memory grows with ``L * S * A``, where a dot product needs ``L * S``.

    Raises:
        TypeError: no floating-point tensors, or of several dtypes.
        ValueError: shapes or devices that do not fit.

    Example:
        >>> one = torch.ones(1, 1)
        >>> additive_score(one, -one, one, one, torch.ones(1))  # tanh(1 - 1)
        tensor([[0.]])

    Source: Bahdanau, Cho and Bengio, 2014 (arXiv:1409.0473), appendix A.1.2.
    """
    named = {"query": query, "key": key, "W_q": W_q, "W_k": W_k, "v": v}
    for name, x in named.items():
        check.floating(name, x)
    check.same_dtype(**named)
    check.same_device(**named)
    check.min_rank("query", query, 2, "(..., L, Dq)")
    check.min_rank("key", key, 2, "(..., S, Dk)")
    if query.shape[:-2] != key.shape[:-2]:
        raise ValueError(
            f"query and key must have the same leading dims, got {check.shape(query)} and {check.shape(key)}"
        )
    if v.dim() != 1:
        raise ValueError(f"v must have shape (A,), got {check.shape(v)}")
    for name, x, width in (("W_q", W_q, query.shape[-1]), ("W_k", W_k, key.shape[-1])):
        if check.shape(x) != (width, v.shape[0]):
            raise ValueError(f"{name} must have shape {(width, v.shape[0])}, got {check.shape(x)}")
    hidden = torch.tanh((query @ W_q).unsqueeze(-2) + (key @ W_k).unsqueeze(-3))  # (..., L, S, A)
    return hidden @ v


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    """What attention asks, and as many heads of keys as of queries."""
    Call.of(query, key, value)
    if query.shape[:-2] != key.shape[:-2]:
        raise ValueError(
            "query and key must have the same leading dims (no grouped heads here), got shapes "
            f"{check.shape(query)} and {check.shape(key)}"
        )
