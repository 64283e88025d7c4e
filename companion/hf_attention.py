"""What ``transformers``' models attend with, taken in hand for a while.

Their attention modules look a function up in a table, by the name in the config, at each call. While a model is watched
the table's entry is another function, which calls the first and hands on what it returns. Configs, modules, weights and
names stay as they are; calls of other models pass through.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

__all__: list[str] = []

TABLE, EAGER = "ALL_ATTENTION_FUNCTIONS", "eager_attention_forward"
Attend = Callable[..., tuple[Tensor, Any]]
"""``(module, query, key, value, mask, **options)`` to the output ``(B, L, H, D)`` and weights, or None."""


def is_attention(module: nn.Module) -> bool:
    """Whether a module takes its attention from the table."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and TABLE in code.co_names and _from_file(module, TABLE) is not None


def implementation(module: nn.Module) -> Any:
    """The name by which it looks, such as ``"sdpa"``."""
    return getattr(getattr(module, "config", None), "_attn_implementation", None)


def goes_by_itself(module: nn.Module) -> bool:
    """Whether it passes the table by: GPT-2's option to take scores in float32, in eager attention."""
    return bool(getattr(module, "reorder_and_upcast_attn", False)) and implementation(module) == "eager"


def num_heads(module: nn.Module) -> int | None:
    """``H``, where the module or its config says it under a usual name."""
    for holder in (module, getattr(module, "config", None)):
        for name in ("num_attention_heads", "num_heads", "n_heads"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


@contextmanager
def wrapped(modules: dict[str, nn.Module], wrap: Callable[[str, Attend], Attend]) -> Iterator[None]:
    """Let ``wrap(name, attend)`` stand for what the modules attend with."""
    names = {id(module): name for name, module in modules.items()}
    entries = {(id(table), key): (table, key) for table, key in map(_entry, modules.values())}
    with ExitStack() as undo:
        for table, key in entries.values():
            before = table.get(key)
            table[key] = _watch(before, names, wrap)
            undo.callback(_restore, table, key, before)
        yield


def _watch(before: Attend | None, names: dict[int, str], wrap: Callable[[str, Attend], Attend]) -> Attend:
    def attend(module: nn.Module, *arguments: Any, **options: Any) -> tuple[Tensor, Any]:
        plain = before or eager(module)
        name = names.get(id(module))
        return (plain if name is None else wrap(name, plain))(module, *arguments, **options)

    return attend


def _restore(table: Any, key: Any, before: Attend | None) -> None:
    del table[key]
    if table.get(key) is not before:  # an entry of this table alone, which ours had taken the place of
        table[key] = before


def _entry(module: nn.Module) -> tuple[Any, Any]:
    return _from_file(module, TABLE), implementation(module)


def eager(module: nn.Module) -> Attend:
    """The function beside the module's class that attends in plain steps, and returns weights."""
    function: Attend | None = _from_file(module, EAGER)
    if function is None:
        raise ValueError(f"{type(module).__qualname__} has no {EAGER} beside it, which would say what its weights are")
    return function


def _from_file(module: nn.Module, name: str) -> Any:
    """What a module's class, or one that it descends from, finds under a name in its file."""
    for kind in type(module).__mro__:
        found = getattr(sys.modules.get(kind.__module__), name, None)
        if found is not None:
            return found
    return None


def weights(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor:
    """The weights ``(B, H, L, S)`` of a call, before dropout, by the module's own eager function."""
    allowed = None
    if mask is None:
        causal = options.get("is_causal")
        if causal is None:
            causal = getattr(module, "is_causal", True)
        if implementation(module) == "sdpa" and causal and query.shape[-2] > 1:
            # As PyTorch's kernel has it: from the first key on.
            allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    elif mask.dtype is torch.bool:
        allowed = mask
    if allowed is not None:
        mask = torch.zeros_like(allowed, dtype=query.dtype).masked_fill(~allowed, torch.finfo(query.dtype).min)
        mask = mask[(None,) * (4 - mask.dim())]
    found: Tensor = eager(module)(module, query, key, value, mask, **(options | {"dropout": 0.0}))[1]
    # Eager attention spreads a row that may see nothing over all keys; PyTorch's kernel gives it nothing.
    return found if allowed is None else found.masked_fill(~allowed, 0.0)
