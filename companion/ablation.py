"""What does a head do for the model? Take it out, and see what the model can no longer do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from companion import check, hf_attention
from companion.capture import attention_modules, split
from companion.multihead import MultiHeadAttention

__all__ = ["ablate_heads"]

WAYS = ("zero", "mean")


def ablate_heads(
    model: nn.Module, heads: Mapping[int | str, Sequence[int]], *, by: str = "zero"
) -> AbstractContextManager[nn.Module]:
    r"""Run a model without some of its heads: their outputs are replaced before ``W_O`` mixes them.

    .. math:: Y = \operatorname{Concat}(O_1, \dots, 0, \dots, O_H)\, W_O

    Zero takes away all that a head says, also what it says to every token alike and the model counts on; the mean takes
    away only what differs from token to token.

    Args:
        model: with attention of this package or of ``transformers``, as for ``capture``.
        heads: for each layer, which heads. A layer is named as in ``capture``; by its number, from 0, where the
            model's layers differ by a number alone.
        by: ``"zero"``, or ``"mean"``: the head's own mean over the batch and the positions of the call, padding
            included. In a causal model that mean has seen the future; in a decoding step of one token it is the output
            itself.

    Returns:
        A context manager; ``as`` gives the model. Inside it runs without these heads, afterwards (after an error too)
        as before. No parameter is changed, so gradients can be taken inside.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no such layer or head, or a model whose attention cannot be taken in hand.

    Example:
        >>> x, mha = torch.ones(1, 2, 4), MultiHeadAttention(4, num_heads=2, bias=False)
        >>> with ablate_heads(mha, {0: [0, 1]}):
        ...     mha(x).abs().max()
        tensor(0., grad_fn=<MaxBackward1>)

    Source: Michel et al., "Are Sixteen Heads Really Better than One?", 2019 (arXiv:1905.10650); Voita et al., 2019
    (arXiv:1905.09418).
    """
    modules = attention_modules(model)
    check.one_of("by", by, WAYS)
    if not isinstance(heads, Mapping):
        raise TypeError(f"heads must be a mapping from layers to lists of heads, got {type(heads).__name__}")
    chosen: dict[str, set[int]] = {}
    for layer, some in heads.items():
        name = _name(layer, list(modules))
        chosen.setdefault(name, set()).update(_checked_heads(name, some, _num_heads(modules[name])))
    return _ablated(model, {name: modules[name] for name in chosen}, chosen, by)


@contextmanager
def _ablated(
    model: nn.Module, modules: dict[str, nn.Module], chosen: dict[str, set[int]], by: str
) -> Iterator[nn.Module]:
    ours, theirs = split(modules)

    def wrap(name: str, attend: hf_attention.Attend) -> hf_attention.Attend:
        def run(module: nn.Module, *arguments: Any, **options: Any) -> tuple[Tensor, Any]:
            output, weights = attend(module, *arguments, **options)
            return _without(output, chosen[name], by), weights

        return run

    with ExitStack() as undo:
        for name, module in ours.items():
            hook = partial(_before_projection, module.num_heads, chosen[name], by)
            undo.callback(module.W_O.register_forward_pre_hook(hook).remove)
        undo.enter_context(hf_attention.wrapped(theirs, wrap))
        yield model


def _before_projection(
    num_heads: int, heads: set[int], by: str, module: nn.Module, arguments: tuple[Tensor, ...]
) -> Tensor:
    (merged,) = arguments  # (..., L, H·D)
    split_up = merged.unflatten(-1, (num_heads, -1))  # (..., L, H, D)
    return _without(split_up, heads, by).flatten(-2)


def _without(output: Tensor, heads: set[int], by: str) -> Tensor:
    """Replace some heads of ``(..., L, H, D)``."""
    gone = torch.zeros(output.shape[-2], dtype=torch.bool, device=output.device)
    gone[sorted(heads)] = True
    if by == "zero":
        return output.masked_fill(gone.unsqueeze(-1), 0.0)  # not a product: 0 x NaN is NaN
    mean = output.mean(tuple(range(output.dim() - 2)), keepdim=True)
    return torch.where(gone.unsqueeze(-1), mean, output)


def _name(layer: object, names: list[str]) -> str:
    """A layer's name, by name or number."""
    if isinstance(layer, str):
        if layer not in names:
            raise ValueError(f"heads names a layer {layer!r}, but the model has {', '.join(names)}")
        return layer
    if isinstance(layer, bool) or not isinstance(layer, int):
        raise TypeError(f"heads must have layers as keys, ints or names, got {type(layer).__name__} ({layer!r})")
    if len({re.sub(r"\d+", "", name) for name in names}) > 1:
        raise ValueError(f"heads must name its layers, since a number could mean several: {', '.join(names)}")
    if not 0 <= layer < len(names):
        raise ValueError(f"heads has layer {layer}, but the model's layers are 0 to {len(names) - 1}")
    return names[layer]


def _checked_heads(name: str, heads: object, count: int) -> list[int]:
    if isinstance(heads, (str, bytes)) or not isinstance(heads, (Sequence, set, frozenset, range)):
        raise TypeError(f"heads must hold a sequence of ints for layer {name}, got {type(heads).__name__}")
    found = [check.integer(f"heads of layer {name}", head, minimum=0) for head in heads]
    if found and max(found) >= count:
        raise ValueError(f"heads of layer {name} must be 0 to {count - 1}, got {max(found)}")
    return found


def _num_heads(module: nn.Module) -> int:
    if isinstance(module, MultiHeadAttention):
        return module.num_heads
    count = hf_attention.num_heads(module)
    if count is None:
        raise ValueError(f"model must say how many heads {type(module).__qualname__} has, by num_attention_heads")
    return count
