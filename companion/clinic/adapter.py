"""How a module wants to be called, where it cannot be found out by trying, or should not have to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from companion import check

__all__ = ["Adapter"]

INPUTS = ("x", "x, context", "q, k, v")
MEANINGS = ("may attend", "is hidden", "is added")
SHAPES = ("(L, S)", "(B, 1, L, S)", "(B, L, S)", "(B, 1, 1, S)", "(B, S)", "(B·H, L, S)")


@dataclass(frozen=True)
class Adapter:
    """What the doctor need not find out. All is optional.

    Args:
        call: ``call(module, *inputs, **options)`` in place of ``module(*inputs, **options)``.
        inputs: ``"x"`` for a module of ``(B, L, M)``, ``"x, context"`` for one that looks at ``(B, S, M)``,
            ``"q, k, v"`` for a function of ``(B, H, L, D)``.
        mask: the argument that takes a mask.
        mask_true: what ``True`` in it means: ``"may attend"`` or ``"is hidden"``; ``"is added"`` for floats added to
            the scores. Where this is said and the module does otherwise, that is a fault; without it, a thing to note.
        mask_shape: the mask's shape, such as ``"(L, S)"``, ``"(B, S)"`` or ``"(B, 1, 1, S)"``.
        causal: the argument that asks for causality, ``True`` or ``False``.
        output: ``output(returned)``: the output among what is returned.
        cached: ``cached(module, x, state) -> (y, state)``: a step with a cache, whose state starts as None.
        batch_first: whether inputs are ``(B, L, M)``; ``False`` for ``(L, B, M)``.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: an unknown word.

    Example:
        >>> Adapter(mask="attn_mask", mask_true="is hidden").mask_true
        'is hidden'
    """

    call: Callable[..., Any] | None = None
    inputs: str | None = None
    mask: str | None = None
    mask_true: str | None = None
    mask_shape: str | None = None
    causal: str | None = None
    output: Callable[[Any], Tensor] | None = None
    cached: Callable[[Any, Tensor, Any], tuple[Tensor, Any]] | None = None
    batch_first: bool | None = None

    def __post_init__(self) -> None:
        for name in ("call", "output", "cached"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"{name} must be callable, got {type(getattr(self, name)).__name__}")
        for name, words in (("inputs", INPUTS), ("mask_true", MEANINGS), ("mask_shape", SHAPES)):
            if getattr(self, name) is not None:
                check.one_of(name, getattr(self, name), words)
        for name in ("mask", "causal"):
            if getattr(self, name) is not None and not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a str, got {type(getattr(self, name)).__name__}")
        if self.batch_first is not None:
            check.flag("batch_first", self.batch_first)
