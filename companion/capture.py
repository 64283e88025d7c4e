"""An x-ray of attention: record the weights of every layer while a model runs, and leave no trace.

A fast kernel never makes the weights, so there is nothing to hand out; they are computed beside it, from what the layer
was given. The model's own answer comes from its own kernel, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from companion import check, hf_attention
from companion.cache import KVCache
from companion.multihead import MultiHeadAttention

__all__ = ["Captured", "capture"]


class Captured(Mapping[str, list[Tensor]]):
    """What was recorded: layer by layer, call by call.

    A mapping from a layer's name to its weights, one tensor ``(B, H, L, S)`` a call; names in the order of the model,
    of layers that have been called.

    Args:
        names: of the layers that are recorded.

    Attributes:
        names: of all layers that are recorded, called or not.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._calls: dict[str, list[Tensor]] = {name: [] for name in names}

    def last(self, pattern: str = "*") -> list[Tensor]:
        """The weights of each layer's last call, in the order of the model: as ``rollout`` and ``head_scores`` want.

        Args:
            pattern: which layers, by name, with ``*`` for anything: ``"encoder.*"``, ``"*.cross_attention"``.

        Returns:
            One tensor a layer that was called.

        Raises:
            TypeError: ``pattern`` is no str.
            ValueError: no layer that was called has such a name.
        """
        wanted = _checked_pattern("pattern", pattern)
        chosen = [self._calls[name][-1] for name in self if fnmatchcase(name, wanted)]
        if not chosen:
            raise ValueError(f"pattern must fit a layer that was called: {', '.join(self) or 'none yet'}; {pattern!r}")
        return chosen

    def clear(self) -> None:
        """Forget what was recorded so far."""
        for calls in self._calls.values():
            calls.clear()

    def __getitem__(self, name: str) -> list[Tensor]:
        if not self._calls.get(name):
            raise KeyError(f"{name!r}; called were {', '.join(self) or 'none yet'}")
        return self._calls[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, calls in self._calls.items() if calls)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Captured({', '.join(f'{name}: {len(calls)}' for name, calls in self._calls.items())})"


def capture(
    model: nn.Module, *, only: str = "*", to: torch.device | str | None = None, detach: bool = True
) -> AbstractContextManager[Captured]:
    """Record the attention weights of a model, of this package or of ``transformers``, without changing it.

    Self- and cross-attention, encoder and decoder, whole texts and decoding with a cache (one tensor a step). Outputs
    are bit for bit those without it; weights, gradients, modes and the random generator are untouched, and so is the
    library's choice of attention. Weights are those before dropout, with mask, causality, positions and bias in them.
    Captures may be nested.

    Args:
        model: a module with :class:`~companion.multihead.MultiHeadAttention` modules inside, or modules of
            ``transformers`` that attend with ``"sdpa"`` or ``"eager"``.
        only: which layers to record, by name, with ``*`` for anything: the others cost nothing.
        to: where to keep the weights, such as ``"cpu"``; where they are made, if not given. Each costs
            ``B * H * L * S`` numbers.
        detach: keep no graph. ``False`` lets the weights be differentiated back to inputs and parameters; the output
            is no function of them, since it came from its own kernel (but for the library's eager attention).

    Returns:
        A context manager; ``as`` gives the record, which fills as the model runs and is kept afterwards.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no attention in the model that could be recorded, no layer by such a name, a compiled model, or an
            attention of ``transformers`` that does not say what it does.

    Example:
        >>> from companion.models import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, d_model=8, num_heads=2, num_layers=1))
        >>> with capture(model) as record:
        ...     logits = model(torch.tensor([[1, 2, 3]]))
        >>> {name: calls[0].shape for name, calls in record.items()}
        {'decoder.blocks.0.attention': torch.Size([1, 2, 3, 3])}
    """
    modules = attention_modules(model)
    wanted = _checked_pattern("only", only)
    chosen = {name: module for name, module in modules.items() if fnmatchcase(name, wanted)}
    if not chosen:
        raise ValueError(f"only must fit an attention layer of the model: {', '.join(modules)}; got {only!r}")
    place = None if to is None else check.device("to", to)
    check.flag("detach", detach)
    for name, module in chosen.items():
        if not isinstance(module, MultiHeadAttention) and hf_attention.implementation(module) not in ("sdpa", "eager"):
            raise ValueError(
                f"model must attend with 'sdpa' or 'eager' for its weights to be recorded, but {name} has "
                f"{hf_attention.implementation(module)!r}; call model.set_attn_implementation('sdpa')"
            )
    return _capture(chosen, place, detach)


@contextmanager
def _capture(modules: dict[str, nn.Module], place: torch.device | None, detach: bool) -> Iterator[Captured]:
    record = Captured(list(modules))
    ours, theirs = split(modules)

    def keep(name: str, compute: Callable[[], Tensor]) -> None:
        with torch.no_grad() if detach else nullcontext():
            weights = compute()
        weights = weights.detach() if detach else weights
        record._calls[name].append(weights if place is None else weights.to(place))

    with ExitStack() as undo:
        for name, module in ours.items():
            undo.callback(module.register_forward_pre_hook(partial(_hook, name, keep), with_kwargs=True).remove)
        undo.enter_context(hf_attention.wrapped(theirs, lambda name, attend: _recording(name, attend, keep)))
        yield record


Keep = Callable[[str, Callable[[], Tensor]], None]


def _hook(name: str, keep: Keep, module: MultiHeadAttention, arguments: Any, options: dict[str, Any]) -> None:
    keep(name, lambda: _weights(module, arguments, options))


def _weights(module: MultiHeadAttention, arguments: Any, options: dict[str, Any]) -> Tensor:
    """What ``need_weights`` would return, asked beforehand: without dropout, and without adding to a cache."""
    options = options | {"need_weights": True}
    if isinstance(options.get("cache"), KVCache):
        options["cache"] = _Peek(options["cache"])
    training = module.training
    module.training = False  # of this module alone: its dropout would draw random numbers
    try:
        weights: Tensor = module.forward(*arguments, **options)[1]
    finally:
        module.training = training
    return weights


class _Peek(KVCache):
    """A cache that answers as another would, and leaves it alone."""

    def __init__(self, cache: KVCache) -> None:
        self.__dict__.update(cache.__dict__)

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        held = self._layers[self._index(layer)]
        if held is None:
            return key, value
        old_key, old_value = held.held()
        return torch.cat([old_key, key], dim=-2), torch.cat([old_value, value], dim=-2)

    def keep(self, layer: int, make: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        held = self._layers[self._index(layer)]
        return make() if held is None else held.held()


def _recording(name: str, attend: hf_attention.Attend, keep: Keep) -> hf_attention.Attend:
    """The library's function, and its weights kept: those that it returns, where no dropout has been at them."""

    def run(module: nn.Module, *arguments: Any, **options: Any) -> tuple[Tensor, Any]:
        output, weights = attend(module, *arguments, **options)
        returned = isinstance(weights, Tensor) and not (module.training and options.get("dropout"))
        keep(name, lambda: weights if returned else hf_attention.weights(module, *arguments, **options))
        return output, weights

    return run


def attention_modules(model: object) -> dict[str, nn.Module]:
    """All attention of a model that can be taken in hand, by name, in its order; an error that says why if none can."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise ValueError(
                f"model must not be compiled, which passes hooks by, but {name or 'it'} is; take the model as it was "
                "before torch.compile"
            )
        if isinstance(module, MultiHeadAttention):
            found[name or type(module).__name__] = module
        elif hf_attention.is_attention(module):
            if hf_attention.goes_by_itself(module):
                raise ValueError(
                    f"model must attend by its attention interface, but {name} has reorder_and_upcast_attn=True in "
                    "eager attention; call model.set_attn_implementation('sdpa')"
                )
            found[name or type(module).__name__] = module
    if not found:
        raise ValueError(
            "model must have MultiHeadAttention modules of this package, or attention of transformers' kind, got "
            f"{type(model).__name__} with neither; convert PyTorch's modules by companion.convert.from_torch"
        )
    return found


def split(modules: dict[str, nn.Module]) -> tuple[dict[str, MultiHeadAttention], dict[str, nn.Module]]:
    """Ours and theirs."""
    ours = {name: module for name, module in modules.items() if isinstance(module, MultiHeadAttention)}
    return ours, {name: module for name, module in modules.items() if name not in ours}


def _checked_pattern(name: str, pattern: object) -> str:
    if not isinstance(pattern, str):
        raise TypeError(f"{name} must be a str, got {type(pattern).__name__}")
    return pattern
