"""What a callable's signature says about how to call it: which argument is a mask, a flag, a context, a cache."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn import functional as F

__all__: list[str] = []

_QKV = (("q", "query", "queries"), ("k", "key", "keys"), ("v", "value", "values"))
_CONTEXT = re.compile(
    r"^(context|ctx|memory|encoder_\w+|enc_\w+|encoded|kv|key_value\w*|cond|condition|cross|source|src|y)$"
)
_MASK = re.compile(r"mask|^pad(ding)?$|^allowed$|^valid$|^real$|^visible$")
_NO_MASK = re.compile(r"^head_mask|layer_head_mask|^(use|apply|with|return|need|is)_|_(prob|type|value|fn|mod)$")
_CAUSAL = ("causal", "is_causal", "use_causal_mask", "causal_mask")
_CACHE = ("cache", "kv_cache", "past_key_values", "past_key_value", "past", "past_kv", "layer_past")
# What cannot be read, or is written in C.
_KNOWN = {F.scaled_dot_product_attention: "query key value attn_mask=None is_causal=False enable_gqa=False".split()}
USUAL = ("mask", "attn_mask", "attention_mask", "key_padding_mask", "padding_mask", "pad_mask")


@dataclass(frozen=True)
class Signature:
    """Arguments by their roles; ``closed`` if it takes no others."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    masks: tuple[str, ...]
    flags: tuple[str, ...]
    context: str | None
    cache: str | None
    qkv: bool
    readable: bool = True
    closed: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """What must be given and is no mask."""
        return tuple(name for name in self.required if name not in self.masks)


def read(thing: Callable[..., Any], mask: str | None = None) -> Signature:
    """Sort a callable's arguments; ``mask`` is one, whatever its name says."""
    for known, words in _KNOWN.items():
        if thing is known:
            names = tuple(word.partition("=")[0] for word in words)
            return Signature(names, names[:3], ("attn_mask",), ("is_causal",), None, None, True, closed=True)
    target = thing.forward if isinstance(thing, nn.Module) else thing
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return Signature((), (), (), (), None, None, not isinstance(thing, nn.Module), readable=False)
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = tuple(p.name for p in plain)
    required = tuple(p.name for p in plain if p.default is p.empty)
    flags = tuple(p.name for p in plain if p.name in _CAUSAL and isinstance(p.default, bool))
    masks = tuple(n for n in names[1:] if n == mask or (_MASK.search(n) and not _NO_MASK.search(n) and n not in flags))
    qkv = len(names) >= 3 and all(
        name.lower().split("_")[0].rstrip("s") in (*kinds, *(k.rstrip("s") for k in kinds))
        for name, kinds in zip(names[:3], _QKV, strict=True)
    )
    needed = [name for name in required if name not in masks]
    qkv |= len(needed) == 3 and not any(_CONTEXT.match(name) for name in needed[1:])
    context = next((n for n in names[1:] if _CONTEXT.match(n) and n not in masks), None)
    if context is None and len(needed) == 2 and not qkv:
        context = needed[1]
    cache = next((n for n in names[1:] if n in _CACHE), None)
    closed = all(p.kind is not p.VAR_KEYWORD for p in parameters)
    return Signature(names, required, masks, flags, None if qkv else context, cache, qkv, closed=closed)


def of_context(name: str) -> bool:
    """Whether a mask's name says that it belongs to the context, not to x."""
    return bool(re.search(r"memory|context|ctx|enc|src|source|key|kv|cross", name)) and not re.match(
        r"tgt|target|trg|dec|query|q_|x_|self", name
    )
