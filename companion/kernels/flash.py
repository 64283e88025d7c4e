r"""Flash attention, written in Triton: exact attention that never holds the weights.

.. math:: O = \operatorname{softmax}(s\, Q K^\top)\, V, \qquad \mathrm{lse}_i = \log \sum_j e^{s\, q_i \cdot k_j}

Plain attention writes an ``L x S`` matrix to memory and reads it back, and most of the time waits for memory. Here a
block of queries stays on the chip while the keys pass by: see ``flash_forward.py``, and ``flash_backward.py`` for the
gradients. On a GPU Triton compiles the kernels, on a CPU its interpreter runs them step by step, for reading and tests.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from companion import check
from companion.attention import reference
from companion.call import Call
from companion.kernels import flash_launch
from companion.kernels.guard import is_nothing, without_broken
from companion.masks import padding, sliding_window
from companion.typing import Float

__all__ = ["flash_attention"]

WIDEST = 256
"""The widest head whose blocks a GPU has room for."""


def flash_attention(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*kv_batch S D"],
    value: Float[Tensor, "*kv_batch S E"],
    *,
    causal: bool = False,
    window: int | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    return_logsumexp: bool = False,
) -> Float[Tensor, "*batch L E"] | tuple[Float[Tensor, "*batch L E"], Float[Tensor, "*batch L"]]:
    """Attention by the Triton kernels of this package.

    Args:
        query: ``(..., H, L, D)``, or ``(L, D)``; float16, bfloat16 (from Ampere on) or float32; ``D`` up to 256.
        key: ``(..., G, S, D)``, with ``H % G == 0``; or ``(S, D)``.
        value: ``(..., G, S, E)``, or ``(S, E)``; ``E`` up to 256.
        causal: let query i see keys up to ``S - L + i`` only: the last query stands at the last key.
        window: how many keys a query sees. Causal, it sees itself and the ``window - 1`` keys before it, as by
            ``sliding_window(window)``; else ``window - 1`` keys on each side too, as by ``sliding_window(window,
            causal=False)``.
        lengths: how many keys each batch entry has, ``(B,)``, where padding comes last; the rows of padded queries
            hold numbers to be ignored. Several leading dims count as one, ``B`` their product. On the GPU already, it
            costs no wait, and a length past ``S`` counts as ``S``.
        scale: multiplies the scores; ``None`` is ``1 / sqrt(D)``.
        return_logsumexp: return the log-sum-exp of the scores too.

    Returns:
        ``(..., L, E)``, in the dtype of ``query``; with ``return_logsumexp`` also ``(..., L)``, float32, in natural
        units. A query that may see nothing gets zeros and a log-sum-exp of minus infinity, with zero gradient. Both
        can be differentiated, once. On a CPU, NaN or infinity in a key or value reaches the queries that may see it,
        and no other; on CUDA it may spread to any query of its head.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: shapes, devices or numbers that do not fit; or the kernel cannot run here, and why.

    Example:
        >>> q = k = torch.zeros(2, 4)
        >>> flash_attention(q, k, torch.tensor([[0.0], [1.0]]), causal=True)  # with TRITON_INTERPRET=1
        tensor([[0.0000],
                [0.5000]])

    Source: Dao, "FlashAttention-2", 2023 (arXiv:2307.08691).
    """
    check.flag("causal", causal)
    check.flag("return_logsumexp", return_logsumexp)
    mask = None if window is None else sliding_window(check.integer("window", window), causal=causal)
    if lengths is not None:
        counts = check.int_or_bool("lengths", lengths)
        if counts.dtype is torch.bool:
            raise TypeError("lengths must be integers (B,), got torch.bool")
        ragged = padding(counts)
        mask = ragged if mask is None else ragged & mask
    call = Call.of(query, key, value, mask, causal=causal, scale=scale)
    reason = why_not(call.device, None) or why_not(call.device, call)
    if reason is not None:
        raise ValueError(f"flash_attention cannot serve this call: {reason}")
    output, logsumexp = _attention(call)
    return (call.restore(output), call.restore(logsumexp)) if return_logsumexp else call.restore(output)


def run(call: Call) -> Tensor:
    """Serve a checked call: ``(B, H, L, E)``."""
    return _attention(call)[0]


def why_not(device: torch.device, call: Call | None) -> str | None:
    """Why the Triton kernels cannot work on this device or, given a call, serve it; ``None`` if they can."""
    if device.type not in ("cpu", "cuda"):
        return f"triton runs on CUDA, and on the CPU in its interpreter, not on {device}."
    if not _is_installed():
        return "triton is not installed: on Linux, pip install triton."
    if device.type == "cpu" and not (os.environ.get("TRITON_INTERPRET") and flash_launch.is_interpreted()):
        return (
            "triton runs on a CPU only in its interpreter, and reads once whether to use it: set TRITON_INTERPRET=1 "
            "before Python starts, or in os.environ before anything imports triton."
        )
    if device.type == "cuda":
        if not torch.cuda.is_available():
            return "triton needs a CUDA device, and PyTorch finds none here."
        generation = flash_launch.capability(device)
        if generation < (7, 0):
            return f"triton needs a GPU of compute capability 7.0 or later, and this one has {_dotted(generation)}."
    return None if call is None else _refuses(call)


def _refuses(call: Call) -> str | None:
    dtype, widest = call.query.dtype, max(call.query.shape[-1], call.value.shape[-1])
    if dtype is torch.float64:
        return "triton takes float32, float16 and bfloat16, got torch.float64."
    if call.dropout_p:
        return f"triton has no dropout here, got dropout_p={call.dropout_p}."
    if call.bias is not None:
        return "triton takes no bias here."
    if not call.bounds().exact:
        return "triton takes masks that are causal(), sliding_window(), padding(lengths) or several of them by &, only."
    if widest > WIDEST:
        return f"triton takes heads up to {WIDEST} wide here, got {widest}."
    if call.device.type == "cuda" and (generation := flash_launch.capability(call.device)) < (8, 0):
        has = f"this GPU has {_dotted(generation)}"
        if dtype is torch.bfloat16:
            return f"triton needs compute capability 8.0 for bfloat16, and {has}; use float16."
        if dtype is torch.float32 and widest > WIDEST // 2:
            return f"triton needs compute capability 8.0 for float32 heads over {WIDEST // 2} wide, and {has}."
    return None


def _attention(call: Call) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of a checked call. Nothing in, nothing broken spread: see ``guard.py``."""
    if is_nothing(call):
        result = reference(call)
        return result.output, result.logsumexp
    call, broken = without_broken(call)
    before, after, lengths, _ = call.bounds()
    if lengths is not None and lengths.device != call.device:
        lengths = lengths.to(call.device, non_blocking=True)
    output, logsumexp = flash_forward(call.query, call.key, call.value, lengths, before, after, call.scale)
    if broken is not None:
        output = output.masked_fill(broken.unsqueeze(-1), math.nan)
        logsumexp = logsumexp.masked_fill(broken, math.nan)
    return output, logsumexp


@cache
def _is_installed() -> bool:
    return find_spec("triton") is not None


def _dotted(generation: tuple[int, int]) -> str:
    return ".".join(map(str, generation))


# --- To PyTorch the kernels are two operators, which torch.compile takes whole, and of which autograd is told ---

_GIVEN = "Tensor query, Tensor key, Tensor value, Tensor? lengths, SymInt? before, SymInt? after, float scale"
_SAVED = "Tensor output, Tensor logsumexp, Tensor grad_output, Tensor grad_logsumexp"


@torch.library.custom_op("companion::flash_forward", mutates_args=(), schema=f"({_GIVEN}) -> (Tensor, Tensor)")
def flash_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Tensor | None,
    before: int | None,
    after: int | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Output ``(B, H, L, E)`` and log-sum-exp ``(B, H, L)``."""
    return flash_launch.forward(query, key, value, lengths, (before, after, scale))


@torch.library.custom_op(
    "companion::flash_backward", mutates_args=(), schema=f"({_GIVEN}, {_SAVED}) -> (Tensor, Tensor, Tensor)"
)
def flash_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Tensor | None,
    before: int | None,
    after: int | None,
    scale: float,
    output: Tensor,
    logsumexp: Tensor,
    grad_output: Tensor,
    grad_logsumexp: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value."""
    saved, grads = (output, logsumexp), (grad_output, grad_logsumexp)
    return flash_launch.backward(query, key, value, lengths, (before, after, scale), saved, grads)


@flash_forward.register_fake
def _forward_shapes(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    output = query.new_empty(*query.shape[:3], value.shape[3])
    return output, query.new_empty(query.shape[:3], dtype=torch.float32)


@flash_backward.register_fake
def _backward_shapes(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in (query, key, value))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, lengths, *ctx.numbers = inputs
    ctx.save_for_backward(query, key, value, lengths, *output)


def _backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, lengths, output, logsumexp = ctx.saved_tensors
    given = flash_backward(query, key, value, lengths, *ctx.numbers, output, logsumexp, *grads)
    return (*given, None, None, None, None)


def _twice(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "flash_attention can be differentiated once only; companion.scaled_dot_product_attention has every derivative"
    )


flash_forward.register_autograd(_backward, setup_context=_save)
flash_backward.register_autograd(_twice)
