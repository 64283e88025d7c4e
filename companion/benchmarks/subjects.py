"""What is measured, and what it is measured against, each as ``(query, key, value) -> output``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from companion.backends import attend, why_not
from companion.benchmarks.settings import NotHereError, Settings
from companion.masks import sliding_window

__all__: list[str] = []

Subject = Callable[..., Tensor]
"""``(query, key, value) -> output``; all but ``plain_blocks`` take ``causal`` too."""

PYTORCH = "F.scaled_dot_product_attention"
PLAIN_BLOCK = 512


def pytorch(query: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
    """PyTorch's own, which picks its fastest kernel: on a CPU, flash."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


def naive(query: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
    """The formula as it stands, with all ``L x S`` scores in memory."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (B, H, L, S)
    if causal:
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(-1) @ value


def plain_blocks(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Block by block of keys, by the online softmax, and left to autograd, which keeps every block for the backward."""
    query = query / math.sqrt(query.shape[-1])
    largest = query.new_full((*query.shape[:-1], 1), -math.inf)
    total = torch.zeros_like(largest)
    output = torch.zeros_like(query)
    for start in range(0, key.shape[-2], PLAIN_BLOCK):
        block = slice(start, start + PLAIN_BLOCK)
        scores = query @ key[..., block, :].transpose(-2, -1)  # (B, H, L, block)
        now = torch.maximum(largest, scores.amax(-1, keepdim=True))
        shrink, terms = torch.exp(largest - now), torch.exp(scores - now)
        total = total * shrink + terms.sum(-1, keepdim=True)
        output = output * shrink + terms @ value[..., block, :]
        largest = now
    return output / total


def find(who: str, settings: Settings) -> Subject:
    """A subject by its name: as the measurement of memory in another process has to name it."""
    kind, _, name = who.partition(":")
    if kind == "backend":
        return partial(attend, backend=name)
    if kind == "window":
        return partial(attend, mask=sliding_window(settings.sizes.window))
    named: dict[str, Subject] = {"pytorch": pytorch, "naive": naive, "plain blocks": plain_blocks, "attend": attend}
    return named[kind]


def unavailable(backend: str, device: torch.device) -> str | None:
    """Why a backend cannot run on a device, whatever is asked of it; None if it can."""
    try:
        return why_not(backend, device=device)
    except ValueError:
        return f"there is no backend {backend!r} in this version."


def need(backend: str, inputs: Sequence[Tensor], causal: bool = False) -> None:
    """Refuse, in the backend's own words, what it cannot serve.

    Raises:
        NotHereError: it is not there, or it says why not.
    """
    reason = unavailable(backend, inputs[0].device)
    if reason is None:
        reason = why_not(backend, *inputs, causal=causal)
    if reason is not None:
        raise NotHereError(reason)


def forward(subject: Subject, inputs: Sequence[Tensor]) -> Callable[[], object]:
    """A run of the subject alone, as in evaluation."""

    def run() -> object:
        with torch.no_grad():
            return subject(*inputs)

    return run


def forward_backward(
    subject: Callable[..., Tensor], inputs: Sequence[Tensor], extra: Sequence[Tensor] = ()
) -> Callable[[], object]:
    """A run of the subject and of its gradients, with respect to the inputs and to ``extra``."""
    wanted = [*dict.fromkeys([*inputs, *extra])]
    with torch.no_grad():
        shape = subject(*inputs)
    upstream = torch.ones_like(shape) / shape.shape[-1]

    def run() -> object:
        return torch.autograd.grad(subject(*inputs), wanted, upstream)

    return run


def flops(settings: Settings, length: int, *, causal: bool = False, backward: bool = False) -> float:
    """Of the two products of attention: ``4 B H L S D``, half of it if causal, and 2.5 times as much again backward."""
    once = 4 * settings.sizes.heads * length * length * settings.sizes.width / (2 if causal else 1)
    return once * (3.5 if backward else 1)
