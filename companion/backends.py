"""One signature for all attention, and the kernels that can serve it.

``attend`` checks its input, picks a backend, and returns what ``scaled_dot_product_attention`` would return as its
output. A backend is one function, registered under a name, with one more that says in words why it cannot serve a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from companion import check
from companion.attention import reference
from companion.call import Call
from companion.kernels import auto, chunked, flash, flex, plain, sdpa
from companion.masks import Mask
from companion.typing import Float

__all__ = ["attend", "available", "chosen", "register", "why_not"]

Run = Callable[[Call], Tensor]
"""A checked call in, ``(B, H, L, E)`` out."""

WhyNot = Callable[[torch.device, Call | None], str | None]
"""Why this backend cannot work on this device or, given a call, serve it; ``None`` if it can."""


class Backend(NamedTuple):
    run: Run
    why_not: WhyNot


_REGISTRY: dict[str, Backend] = {}
_AUTO = Backend(auto.run, lambda device, call: None)


def register(name: str, run: Run, why_not: WhyNot) -> None:
    """Add a backend, or replace one.

    Args:
        name: what ``attend(backend=name)`` calls it; not ``"auto"``.
        run: takes a checked :class:`~companion.call.Call`, returns ``(B, H, L, E)``. It must give zeros to a query
            that may see nothing.
        why_not: takes a device and a call or ``None``, returns a sentence, or ``None`` where it can serve.

    Raises:
        TypeError: a name that is no string, or a function that cannot be called.
        ValueError: the name ``"auto"``.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    if name == "auto":
        raise ValueError("name must not be 'auto', which chooses among the others")
    for label, function in (("run", run), ("why_not", why_not)):
        if not callable(function):
            raise TypeError(f"{label} must be callable, got {type(function).__name__}")
    _REGISTRY[name] = Backend(run, why_not)


def available(device: torch.device | str = "cpu") -> list[str]:
    """The backends that can work on a device; what one call asks of them, ``why_not`` says.

    Args:
        device: such as ``"cpu"`` or ``"cuda"``.

    Returns:
        Names, in the order of registration.

    Raises:
        TypeError: ``device`` is neither a ``torch.device`` nor a str.
        ValueError: no such kind of device.

    Example:
        >>> available("cpu")[:3]  # beyond those, it depends on what is installed
        ['reference', 'math', 'flash']
    """
    place = check.device("device", device)
    return [name for name, backend in _REGISTRY.items() if backend.why_not(place, None) is None]


def why_not(
    backend: str,
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    device: torch.device | str = "cpu",
) -> str | None:
    """Say why a backend cannot serve, in a sentence.

    Args:
        backend: its name; ``"auto"`` can serve whatever is well formed.
        query: with ``key``, ``value`` and the rest, the call to serve, as for ``attend``; without them the question
            is about the device alone.
        key: see ``query``.
        value: see ``query``.
        mask: see ``query``.
        bias: see ``query``.
        causal: see ``query``.
        scale: see ``query``.
        dropout_p: see ``query``.
        device: asked about when no call is given.

    Returns:
        A sentence, or ``None`` if the backend can serve.

    Raises:
        ValueError: no such backend, or only part of a call is given.

    Example:
        >>> why_not("cudnn")
        'cudnn runs on NVIDIA GPUs only, not on cpu.'
    """
    chosen = find(backend)
    place = check.device("device", device)
    if query is None and key is None and value is None:
        return chosen.why_not(place, None)
    if query is None or key is None or value is None:
        raise ValueError("why_not needs query, key and value together, or none of them")
    call = Call.of(query, key, value, mask, bias=bias, causal=causal, scale=scale, dropout_p=dropout_p)
    return chosen.why_not(call.device, None) or chosen.why_not(call.device, call)


def chosen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> str:
    """Say which backend ``"auto"`` takes for a call, and why.

    Args:
        query: with ``key``, ``value`` and the rest, the call, as for ``attend``.
        key: see ``query``.
        value: see ``query``.
        mask: see ``query``.
        bias: see ``query``.
        causal: see ``query``.
        scale: see ``query``.
        dropout_p: see ``query``.

    Returns:
        The name, a colon, and the reason.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: arguments that do not fit.

    Example:
        >>> x = torch.zeros(1, 2, 16, 8)
        >>> chosen(x, x, x, causal=True)
        "flash: causal is a flag to PyTorch's kernels."
    """
    return auto.chosen(Call.of(query, key, value, mask, bias=bias, causal=causal, scale=scale, dropout_p=dropout_p))


def attend(
    query: Float[Tensor, "*batch L D"],
    key: Float[Tensor, "*kv_batch S D"],
    value: Float[Tensor, "*kv_batch S E"],
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    backend: str = "auto",
) -> Float[Tensor, "*batch L E"]:
    r"""Attention, fast: the numbers of ``scaled_dot_product_attention`` without its weights.

    .. math:: O = \operatorname{softmax}(s\, Q K^\top + \text{bias})\, V

    Args:
        query: ``(..., H, L, D)``, or ``(L, D)``.
        key: ``(..., G, S, D)``, with ``H % G == 0``; or ``(S, D)``.
        value: ``(..., G, S, E)``, or ``(S, E)``.
        mask: boolean, ``True`` where a query may attend, or a :class:`~companion.masks.Mask`.
        bias: added to the scaled scores.
        causal: let query i see keys up to ``S - L + i`` only: the last query stands at the last key. Composes with
            ``mask``.
        scale: multiplies the scores; ``None`` is ``1 / sqrt(D)``.
        dropout_p: the probability with which a weight is dropped. Pass 0 in evaluation.
        backend: ``"auto"``, the fastest that can serve the call, or one of ``available()``. What ``"auto"`` takes, and
            why, ``chosen`` says: PyTorch's kernels where no table of ``L x S`` is needed or it is small, else ``flex``
            on a GPU of compute capability 8 and up, else ``chunked``; in ``torch.compile`` on a CPU, the table.

    Returns:
        ``(..., L, E)``. A query that may see nothing gets zeros, with zero gradient. On a CPU, NaN or infinity in a
        key or value reaches the queries that may see it, and no other; on CUDA a fused kernel may spread it.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: arguments that do not fit, no such backend, or one that cannot serve this call.

    Example:
        >>> q = k = torch.zeros(2, 4)
        >>> attend(q, k, torch.tensor([[0.0], [1.0]]), causal=True)
        tensor([[0.0000],
                [0.5000]])

    Source: Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762).
    """
    if backend == "auto" and mask is None and bias is None and dropout_p == 0.0 and type(dropout_p) is float:
        output = plain.run(query, key, value, causal, scale)
        if output is not None:
            return output
    call = Call.of(query, key, value, mask, bias=bias, causal=causal, scale=scale, dropout_p=dropout_p)
    named = find(backend)
    if named is not _AUTO:  # which serves every call
        reason = named.why_not(call.device, None) or named.why_not(call.device, call)
        if reason is not None:
            raise ValueError(f"backend {backend!r} cannot serve this call: {reason}")
    return call.restore(named.run(call))


def find(name: str) -> Backend:
    """The backend of that name, or what chooses among them; an error that lists them if there is none."""
    if not isinstance(name, str):
        raise TypeError(f"backend must be a str, got {type(name).__name__}")
    if name == "auto":
        return _AUTO
    if name not in _REGISTRY:
        raise ValueError(f"backend must be 'auto' or one of {', '.join(_REGISTRY)}; got {name!r}")
    return _REGISTRY[name]


register("reference", lambda call: reference(call).output, lambda device, call: None)
for _name in sdpa.KERNELS:
    register(_name, sdpa.runner(_name), sdpa.refuser(_name))
for _name, _kernel in (("flex", flex), ("triton", flash), ("chunked", chunked)):
    register(_name, _kernel.run, _kernel.why_not)
