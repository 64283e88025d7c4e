"""The patient leaves as it came: what is examined is a copy, and whatever else a call might touch is put back."""

from __future__ import annotations

import copy
import functools
import io
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

__all__: list[str] = []


def attribute(thing: Any, name: str, default: Any = None) -> Any:
    """What an attribute holds; the default also where asking for it raises, as a property may."""
    try:
        return getattr(thing, name, default)
    except Exception:
        return default


def as_written(thing: Any) -> Any:
    """What was compiled, before it was: a compiled module tells nothing of its arguments."""
    return attribute(thing, "_orig_mod") or attribute(thing, "_torchdynamo_orig_callable") or thing


def modules_in(thing: Any, depth: int = 3) -> list[nn.Module]:
    """The modules that a callable holds: itself, what it is bound to, what a partial or a closure carries."""
    if isinstance(thing, nn.Module):
        return [thing]
    if depth == 0:
        return []
    held: list[Any] = []
    if isinstance(thing, functools.partial):
        held += [thing.func, *thing.args, *thing.keywords.values()]
    held += [x for x in (getattr(thing, "__self__", None), getattr(thing, "__wrapped__", None)) if x is not None]
    for cell in getattr(thing, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return [module for each in held for module in modules_in(each, depth - 1)]


def copied(thing: Callable[..., Any]) -> Callable[..., Any] | None:
    """An independent copy, or None where there can be none."""
    try:
        twin: Callable[..., Any] = copy.deepcopy(thing)
    except Exception:
        return None
    theirs, ours = modules_in(twin), modules_in(thing)
    return None if any(a is b for a in theirs for b in ours) else twin


@contextmanager
def kept(thing: Any) -> Iterator[None]:
    """Put back every module that a callable holds: modes, values, gradients, what requires one."""
    modules = list({id(m): m for root in modules_in(thing) for m in root.modules()}.values())
    every = [t for m in modules for t in (*m._parameters.values(), *m._buffers.values())]
    tensors = list({id(t): t for t in every if t is not None and not is_lazy(t)}.values())
    modes = [m.training for m in modules]
    values = [t.detach().clone() if t.device.type != "meta" else t for t in tensors]
    grads = [(t.grad, None if t.grad is None else t.grad.clone(), t.requires_grad) for t in tensors]
    try:
        yield
    finally:
        for m, mode in zip(modules, modes, strict=True):
            m.training = mode
        for t, value, (grad, grad_value, requires) in zip(tensors, values, grads, strict=True):
            with torch.no_grad():
                if t.device.type != "meta" and not torch.equal(t, value):
                    t.copy_(value)
                if grad is not None and grad_value is not None:
                    grad.copy_(grad_value)
            t.grad = grad
            t.requires_grad_(requires)


@contextmanager
def quiet(small: bool = False) -> Iterator[io.StringIO]:
    """Put back all random states and switches, and keep what is printed or warned; ``small``: one thread will do."""
    said = io.StringIO()
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    fast, threads = torch.backends.mha.get_fastpath_enabled(), torch.get_num_threads()
    try:
        if small:  # several threads take longer to meet than such a product takes, on a busy machine a hundred times
            torch.set_num_threads(1)
        # The fast path of nn.MultiheadAttention is one fused operation, which shows none of its steps.
        torch.backends.mha.set_fastpath_enabled(False)
        with ExitStack() as stack:
            for each in (warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said)):
                stack.enter_context(each)
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.no_grad())
            for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
                stack.enter_context(torch.autocast(device, enabled=False))
            if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
                # What was compiled is examined as it was written, or the compiler would compile the doctor too.
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            warnings.simplefilter("ignore")
            yield said
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.set_num_threads(threads)
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


def freshen(module: nn.Module, generator: torch.Generator) -> None:
    """Give a copy's matrices new random values of a moderate size, and its vectors a nudge.

    What is examined is the code. Trained weights may saturate the softmax, and a start at zero hides everything. A
    table of two values, such as a mask that was stored as a parameter, is left alone.
    """
    with torch.no_grad():
        for parameter in {id(p): p for p in module.parameters()}.values():
            if not parameter.is_floating_point() or not parameter.numel() or not parameter.isfinite().all():
                continue
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter)
            if parameter.dim() < 2:
                parameter.add_(0.1 * noise)
            elif parameter.unique().numel() != 2:
                inputs = min(parameter.shape[-2:]) if parameter.dim() == 2 else parameter.shape[-2]
                parameter.copy_(noise / max(inputs, 1) ** 0.5)
