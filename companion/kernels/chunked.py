"""Attention by tiles as an operation of autograd: it keeps its inputs, its output and one number a row.

Left to autograd, the steps of online softmax would keep every tile of weights until the backward pass, which is what
tiles were to avoid. So the backward pass is written by hand (``companion.tiles``), and works the weights out again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from companion import tiles
from companion.attention import reference
from companion.call import Call
from companion.kernels.guard import is_nothing, without_broken
from companion.mask import Mask

__all__: list[str] = []

Tile = tuple[int, int]
NO_SECOND_DERIVATIVE = (
    "chunked attention has no second derivative: its backward pass keeps no weights to differentiate. "
    "Use attend(..., backend='reference'), or drop create_graph=True."
)
MAPPED_MASK = (
    "A Mask that holds a tensor which torch.func.vmap maps over cannot be asked from inside chunked attention; "
    "pass the table, mask.dense(B, H, L, S), or map over the table."
)


def why_not(device: torch.device, call: Call | None) -> str | None:
    """Why tiles cannot serve: what is dropped would have to be dropped again in the backward pass."""
    if call is not None and call.dropout_p:
        return f"chunked has no dropout, got dropout_p={call.dropout_p}."
    return None


def run(call: Call) -> Tensor:
    """Serve a checked call: ``(B, H, L, E)``."""
    return attention(call)[0]


def attention(call: Call, tile: Tile | None = None) -> tuple[Tensor, Tensor]:
    """Output ``(B, H, L, E)`` in the query's dtype, and log-sum-exp ``(B, H, L)``, float32 at least."""
    # Loops over tiles, unrolled by torch.compile, would be a graph that takes long to make and gains nothing.
    serve = torch.compiler.disable(_served) if torch.compiler.is_compiling() else _served
    return serve(call, tile)


def _served(call: Call, tile: Tile | None) -> tuple[Tensor, Tensor]:
    if is_nothing(call):
        out = reference(call)
        return out.output, out.logsumexp
    call, broken = without_broken(_Asked(**vars(call)))
    output, logsumexp = _apply(call, tile)
    if broken is not None:
        output, logsumexp = output.masked_fill(broken.unsqueeze(-1), math.nan), logsumexp.masked_fill(broken, math.nan)
    return output, logsumexp


class _Asked(Call):
    """A call that asks its mask tile by tile who would meet a NaN."""

    def _sees(self, keys: Tensor) -> Tensor:
        if self.mask is None:
            return super()._sees(keys)
        # With zeros for queries and keys, all that a query sees weighs alike: does any of it hold a 1?
        zero = self.query.new_zeros((), dtype=torch.float32)
        query, key = zero.expand(*self.query.shape[:3], 1), zero.expand(*keys.shape, 1)
        shares, _ = _apply(replace(self, query=query, key=key, value=keys.unsqueeze(-1).float(), bias=None), None)
        return shares.squeeze(-1) > 0


def _apply(call: Call, tile: Tile | None) -> tuple[Tensor, Tensor]:
    options = (call.causal, call.scale, tile)
    output, logsumexp = _Attention.apply(call.query, call.key, call.value, call.bias, call.mask, *options)
    return output, logsumexp


class _Attention(Function):
    """Forward; arguments are those of ``_call``."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        call, tile = _call(*inputs)
        output, logsumexp = tiles.forward(call, tile)
        return output.to(call.query.dtype), logsumexp

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, mask, causal, scale, tile = inputs
        table = mask if isinstance(mask, Tensor) else None
        ctx.save_for_backward(*tensors, table, *output)
        ctx.options = (None if table is not None else mask, causal, scale, tile)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor | None, grad_logsumexp: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_output is None and grad_logsumexp is None:
            return (None,) * 8
        query, key, value, bias, table, output, logsumexp = ctx.saved_tensors
        mask, *options = ctx.options
        if grad_output is None:
            grad_output = torch.zeros_like(output)
        grads = _Gradients.apply(
            output,
            logsumexp,
            grad_output,
            grad_logsumexp,
            ctx.needs_input_grad[3],
            *(query, key, value, bias, mask if table is None else table, *options),
        )
        return *grads, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _one_by_one(_Attention.apply, info.batch_size, in_dims, inputs)


class _Gradients(Function):
    """Backward, a function of its own, so that it can be mapped, and can say why it has no derivative."""

    @staticmethod
    def forward(
        output: Tensor,
        logsumexp: Tensor,
        grad_output: Tensor,
        grad_logsumexp: Tensor | None,
        bias_grad: bool,
        *inputs: Any,
    ) -> tuple[Tensor | None, ...]:
        call, tile = _call(*inputs)
        grads = tiles.backward(call, output, logsumexp, grad_output, grad_logsumexp, tile, bias_grad=bias_grad)
        given = (call.query, call.key, call.value, call.bias)
        return tuple(
            None if grad is None or x is None else grad.to(x.dtype) for grad, x in zip(grads, given, strict=True)
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        raise RuntimeError(NO_SECOND_DERIVATIVE)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return _one_by_one(_Gradients.apply, info.batch_size, in_dims, inputs)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | Mask | None,
    causal: bool,
    scale: float,
    tile: Tile | None,
) -> tuple[Call, Tile | None]:
    """A call from its parts, which autograd wants to see one by one."""
    return Call(query, key, value, mask, bias, causal, scale, 0.0, tuple(query.shape[:2])), tile


def _one_by_one(
    apply: Callable[..., tuple[Any, ...]], size: int, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """``torch.func.vmap`` as a loop: a mask that knows of B batch entries would not fit a batch folded into B."""
    results = []
    for i in range(size):
        one = (x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(inputs, in_dims, strict=True))
        try:
            results.append(apply(*one))
        except RuntimeError as error:
            if not any(isinstance(x, Mask) for x in inputs):
                raise
            raise RuntimeError(f"{error}\n{MAPPED_MASK}") from error
    stacked = tuple(None if each[0] is None else torch.stack(each) for each in zip(*results, strict=True))
    return stacked, tuple(None if x is None else 0 for x in stacked)
