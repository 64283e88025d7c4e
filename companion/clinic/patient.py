"""One way of calling a module, and the bounds within which two of its outputs are the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from companion import check
from companion.clinic.adapter import Adapter
from companion.clinic.care import copied, modules_in
from companion.clinic.signature import Signature
from companion.clinic.tokens import Sizes, Tokens, draw
from companion.clinic.watch import Watch

__all__: list[str] = []


class Refused(Exception):
    """The module would not take a call, or answered with something else; the text says so in a sentence."""


class OutOfTime(Exception):
    """The visit has lasted long enough."""


@dataclass
class Patient:
    """A module, or its copy, and how to call it.

    Attributes:
        function: what is called.
        name: what it is called in the report.
        kind: ``"self"``: x; ``"cross"``: x and a context; ``"function"``: q, k, v, a head's width each.
        qkv: whether queries, keys and values are three arguments.
        lead: of a function: how many leading dims its inputs have, 2 for ``(B, H, L, D)``.
        library: whether its author is a library, whose documented ways are no faults.
    """

    function: Callable[..., Any]
    name: str
    signature: Signature
    adapter: Adapter
    kind: str
    sizes: Sizes
    dtype: torch.dtype
    device: torch.device
    deadline: float
    seed: int = 0
    qkv: bool = False
    lead: int = 2
    batch_first: bool = True
    library: bool = False
    base: dict[str, Any] = field(default_factory=dict)
    eps: float = torch.finfo(torch.float64).eps

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)
        self.tokens, self.other = (self.draw() for _ in range(2))

    def draw(self) -> Tokens:
        """New random inputs."""
        return draw(self.kind, self.sizes, self.generator, self.dtype, self.device)

    @property
    def keys(self) -> int:
        """``S``, which is ``L`` in self-attention."""
        return self.tokens.keys

    def cast(self, dtype: torch.dtype) -> Patient:
        """The same module in another dtype: a copy's copy."""
        twin = copied(self.function)
        for module in modules_in(twin):
            module.to(dtype)
        base = {k: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for k, x in self.base.items()}
        other = replace(self, function=self.function if twin is None else twin, dtype=dtype, base=base)
        other.tokens, other.other = (x.map(lambda t: t.to(dtype)) for x in (self.tokens, self.other))
        return other

    def raw(self, tokens: Tokens, **options: Any) -> Any:
        """Call it; whatever it returns."""
        if time.monotonic() > self.deadline:
            raise OutOfTime
        options = self.base | options
        inputs = list(self._arguments(tokens, options))
        # It gets copies: what it writes into its input must not reach the next experiment. One tensor stays one.
        made = {id(x): x.clone() for x in (*inputs, *options.values()) if isinstance(x, Tensor)}
        inputs = [made[id(x)] for x in inputs]
        options = {name: made.get(id(x), x) for name, x in options.items()}
        return self._call(inputs, options)

    def overwrites(self) -> float:
        """How much a call changes its own input."""
        options = dict(self.base)
        tokens = self.tokens.map(torch.clone)
        inputs = list(self._arguments(tokens, options))
        given = [x for x in (*inputs, *options.values()) if isinstance(x, Tensor) and x.is_floating_point()]
        before = [x.clone() for x in given]
        self._call(inputs, options)
        gap = max(float((x - old).nan_to_num().abs().max()) for x, old in zip(given, before, strict=True))
        for x, old in zip(given, before, strict=True):
            x.copy_(old)
        return gap

    def _call(self, inputs: list[Tensor], options: dict[str, Any]) -> Any:
        try:
            if self.adapter.call is not None:
                return self.adapter.call(self.function, *inputs, **options)
            return self.function(*inputs, **options)
        except (OutOfTime, Refused):
            raise
        except (Exception, SystemExit) as error:
            shapes = ", ".join(str(check.shape(x)) for x in inputs)
            said = " ".join(str(error).split()).rstrip(".")
            raise Refused(f"called with {shapes} it raised {type(error).__name__}: {said:.200}") from error

    def run(self, tokens: Tokens, **options: Any) -> Tensor:
        """Call it; the output as ``(B, L, F)``."""
        return self.output(self.raw(tokens, **options), tokens)

    def watched(
        self, tokens: Tokens, which: int | None = None, do: Tensor | None = None, **options: Any
    ) -> tuple[Tensor, Watch]:
        """Call it and look inside."""
        with Watch(which, do) as watch:
            y = self.run(tokens, **options)
        return y, watch

    def output(self, returned: Any, tokens: Tokens) -> Tensor:
        """The output among what was returned, as ``(B, L, F)``."""
        if self.adapter.output is not None:
            try:
                returned = self.adapter.output(returned)
            except Exception as error:
                said = " ".join(str(error).split())
                raise Refused(f"the adapter's output raised {type(error).__name__}: {said:.200}") from error
        batch, length = tokens.query.shape[0], tokens.query.shape[-2]
        for x in _tensors(returned):
            if not x.is_floating_point():
                continue
            if self.kind != "function":
                shaped = x if self.batch_first or x.dim() != 3 else x.transpose(0, 1)
                if shaped.dim() == 3 and shaped.shape[:2] == (batch, length):
                    return shaped.detach() if not torch.is_grad_enabled() else shaped
                continue
            full = x[(None,) * (4 - x.dim())] if self.lead == 0 and x.dim() == 2 else x
            full = full.unsqueeze(1) if self.lead == 1 and full.dim() == 3 else full
            if full.dim() == 4 and full.shape[:3] == (batch, tokens.query.shape[1], length):
                return full.transpose(1, 2).flatten(2)  # (B, H, L, E) -> (B, L, H·E)
            if full.dim() == 3 and full.shape[:2] == (batch, length):
                return full
        wanted = (
            f"({batch}, {length}, …)" if self.kind != "function" else f"{check.shape(tokens.query)[:-1]} and a width"
        )
        if self.kind != "function" and not self.batch_first:
            wanted = f"({length}, {batch}, …)"
        shapes = [str(check.shape(x)) + _kind(x) for x in _tensors(returned)]
        what = f"tensors of shape {', '.join(shapes)}" if shapes else f"a {type(returned).__name__} without a tensor"
        hint = "" if self.adapter.output is not None else "; Adapter(output=...) says which part is the output"
        raise Refused(f"it returned {what}, and none is {wanted} of floats{hint}")

    def tolerance(self, *outputs: Tensor) -> float:
        """How far apart two outputs may be that are the same in exact arithmetic.

        A sum of n terms is off by at most n rounding errors of its largest term, and a handful of such sums follow one
        another; 256 is generous for them, and far below what any experiment changes.
        """
        terms = self.sizes.M + self.sizes.S + self.sizes.D
        finite = [x[x.isfinite()].abs().max().item() for x in outputs if x.isfinite().any()]
        return 256 * terms * self.eps * max([1e-3, *finite])

    def changed(self, a: Tensor, b: Tensor) -> Tensor:
        """Which rows differ beyond rounding, ``(B, L)``; NaN equals NaN."""
        same = ((a - b).abs() <= self.tolerance(a, b)) | (a == b) | (a.isnan() & b.isnan())
        return ~same.all(-1)

    def apart(self, a: Tensor, b: Tensor) -> float:
        """The largest finite difference."""
        gap = (a - b).abs()
        gap = gap[gap.isfinite()]
        return float(gap.max()) if gap.numel() else float("nan")

    def visibility(self, tokens: Tokens, **options: Any) -> Tensor:
        """Whose output changes when key m does: ``(B, L, S)``. In self-attention the diagonal says little."""
        base = self.run(tokens, **options)
        seen = [self.changed(base, self.run(tokens.with_key(self.other, m), **options)) for m in range(tokens.keys)]
        return torch.stack(seen, -1)

    def sees_itself(self) -> bool:
        """Beside a context, does x look at its own tokens too?"""
        base, moved = (self.run(t) for t in (self.tokens, self.tokens.with_query(self.other, 0)))
        return bool(self.changed(base, moved)[:, 1:].any())

    def with_fixed_context(self) -> Patient:
        """The self-attention of a module that has cross-attention too: its context is one, and stays."""
        assert self.tokens.key is not None
        assert self.signature.context is not None
        context = self.tokens.key[:1].expand_as(self.tokens.key).contiguous()
        return replace(self, kind="self", base=self.base | {self.signature.context: context})

    def _arguments(self, tokens: Tokens, options: dict[str, Any]) -> tuple[Tensor, ...]:
        if self.kind == "function":
            drop = {2: lambda x: x, 1: lambda x: x.squeeze(1), 0: lambda x: x[0, 0]}[self.lead]
            return tuple(drop(x) for x in tokens if x is not None)
        x, context = tokens.query, tokens.key
        if not self.batch_first:
            x, context = (
                x.transpose(0, 1).contiguous(),
                None if context is None else context.transpose(0, 1).contiguous(),
            )
        if self.qkv:
            key = x if context is None else context
            return (x, key, key)
        if context is None:
            return (x,)
        if self.adapter.call is None and self.signature.context is not None:
            options[self.signature.context] = context
            return (x,)
        return (x, context)


def _kind(x: Tensor) -> str:
    return "" if x.is_floating_point() else f" of {str(x.dtype).removeprefix('torch.')}"


def _tensors(returned: Any) -> list[Tensor]:
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, dict):  # a model's output in Hugging Face's form is one too
        return [x for x in returned.values() if isinstance(x, Tensor)]
    if isinstance(returned, (tuple, list)):
        return [x for x in returned if isinstance(x, Tensor)]
    return []
