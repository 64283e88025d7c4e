"""The parity matrix: how far each way to attend is from float64, for every kind of mask, dtype, length and direction.

``test_parity.py`` measures it cell by cell, and records each. With ``PARITY=path`` set, what was recorded is written
there as JSON when the tests end, and ``tools/parity.py`` makes the book's page of it: ``make parity``. Under xdist each
worker writes a part, and the main process puts them together.
"""

import json
import math
import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from companion import MultiHeadAttention, attend, backends, why_not
from tests.companion.helpers import KINDS, Case, case, repeat, uniform

# The bounds of the design, for outputs; float64 against PyTorch's is 1e-12 there. In half precision what is rounded
# more often gets twice as much: gradients, by the forward run and by their own; modules, at their projections.
BOUNDS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
RELATIONS = {"L = S": (5, 5), "L < S": (4, 6), "L > S": (6, 3), "L = 1": (1, 6)}
DIRECTIONS = ("forward", "backward")
MODULES = ("MultiHeadAttention", "MultiHeadAttention with weights")
SLOW = ("flex", "triton")  # compiled, or interpreted: measured for all kinds only when the matrix is asked for
SAMPLE = (torch.float32, "L < S")
WIDTH = 8
ONE_DTYPE = "On a CPU a kernel is compiled for each case, so only float32 with L < S is measured."
NO_CASE = "There is no such case: with more queries than keys, the first queries belong to no document."


class Cell(NamedTuple):
    """One number, or the sentence that says why there is none."""

    path: str
    kind: str
    dtype: str
    relation: str
    direction: str
    error: float | None
    bound: float
    reason: str | None = None


RECORDED: list[Cell] = []


def wanted() -> Path | None:
    """Where the matrix is to be written, if it is."""
    name = os.environ.get("PARITY")
    return Path(name) if name else None


def paths() -> list[str]:
    """All ways to attend that there are, here or elsewhere."""
    return ["auto", *backends._REGISTRY, *MODULES]


def kinds(path: str) -> tuple[str, ...]:
    """The kinds of mask to be measured: one, where a path is slow and nobody asked for the matrix."""
    return KINDS if sampled(path) is None else ("padding & causal()",)


def sampled(path: str) -> tuple[torch.dtype, str] | None:
    """The one dtype and relation that are measured of a slow path unasked."""
    return SAMPLE if path in SLOW and wanted() is None else None


def bound(path: str, dtype: torch.dtype, direction: str) -> float:
    doubled = (path in MODULES) + (direction == "backward") if dtype.itemsize == 2 else 0
    return BOUNDS[dtype] * 2**doubled


def record(
    path: str, kind: str, dtype: torch.dtype, relation: str, direction: str, *,
    error: float | None = None, reason: str | None = None,
) -> Cell:  # fmt: skip
    cell = Cell(path, kind, name(dtype), relation, direction, error, bound(path, dtype, direction), reason)
    RECORDED.append(cell)
    return cell


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# --- one cell ---


def measure(path: str, kind: str) -> Iterator[Cell]:
    """All cells of a path and a kind of mask."""
    sample = sampled(path)
    for dtype in BOUNDS:
        for relation in RELATIONS:
            if sample is None or sample == (dtype, relation):
                for direction in DIRECTIONS:
                    yield one_cell(path, kind, dtype, relation, direction)


def one_cell(path: str, kind: str, dtype: torch.dtype, relation: str, direction: str) -> Cell:
    """The worst of two cases, one with shared heads, one with queries that see nothing."""
    here = (path, kind, dtype, relation, direction)
    if path == "flex" and (dtype, relation) != SAMPLE:
        return record(*here, reason=ONE_DTYPE)
    some = [each for each in (problem(kind, dtype, relation, plain) for plain in (True, False)) if each is not None]
    if not some:
        return record(*here, reason=NO_CASE)
    errors = []
    for each in some:
        module = module_for(each) if path in MODULES else None
        inputs = each.made[:3] if module is None else each.vectors
        tensors = [x.clone().requires_grad_(direction == "backward") for x in inputs]
        with torch.set_grad_enabled(direction == "backward"):
            if module is not None:
                output = module(*tensors, **each.made.options, need_weights=path == MODULES[1])
            else:
                refused = why_not(path, *tensors, **each.made.options)
                if refused is not None:
                    return record(*here, reason=refused)
                output = attend(*tensors, **each.made.options, backend=path)
        if isinstance(output, tuple):
            output, weights = output
            assert (weights[each.made.empty] == 0).all()
        elif module is None:
            assert (output[each.made.empty] == 0).all()
        want, gradients = in_float64(each, module is not None)
        if direction == "forward":
            errors.append(apart(output, want))
        else:
            found = torch.autograd.grad(output, tensors, push(want).to(dtype))
            errors.append(max(apart(one, two) for one, two in zip(found, gradients, strict=True)))
    return record(*here, error=max(errors))


class Problem(NamedTuple):
    """A call, and beside it what a module would get: ``x (B, L, M)``, ``context (B, S, M)``."""

    name: tuple[str, torch.dtype, str, bool]
    made: Case
    vectors: list[Tensor]


@cache
def problem(kind: str, dtype: torch.dtype, relation: str, plain: bool) -> Problem | None:
    length, keys = RELATIONS[relation]
    made = case(
        kind, length, keys, 2 if plain else 4, empty=not plain, dtype=dtype, width=WIDTH, seed=0 if plain else 1
    )
    if made is None:
        return None
    g = torch.Generator().manual_seed(2)
    batch, heads = made.query.shape[:2]
    vectors = [uniform(batch, n, heads * WIDTH, generator=g, dtype=dtype) for n in (length, keys)]
    return Problem((kind, dtype, relation, plain), made, vectors)


def module_for(problem: Problem) -> MultiHeadAttention:
    heads, groups = problem.made.query.shape[1], problem.made.key.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return MultiHeadAttention(heads * WIDTH, heads, num_kv_heads=groups).to(problem.made.query.dtype)


EXACT: dict[tuple[Any, ...], tuple[Tensor, tuple[Tensor, ...]]] = {}


def in_float64(problem: Problem, of_module: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The exact output, and the exact gradients of all inputs."""
    key = (*problem.name, of_module)
    if key not in EXACT:
        inputs = problem.vectors if of_module else problem.made[:3]
        exact = [x.double().clone().requires_grad_() for x in inputs]
        want = written_out(module_for(problem), problem.made, *exact) if of_module else oracle(problem.made, *exact)
        half = push(want).to(problem.made.query.dtype)  # what the path is given, after rounding
        EXACT[key] = want.detach(), torch.autograd.grad(want, exact, half.double())
    return EXACT[key]


def oracle(made: Case, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The formula in float64, on the table that loops made; nothing of the package is in it."""
    heads = query.shape[1]
    scores = query @ repeat(key, heads).transpose(-2, -1) / math.sqrt(query.shape[-1])
    allowed = made.allowed
    if made.bias is not None:
        scores = scores + made.bias.double()
        allowed = allowed & (made.bias != -math.inf)
    empty = made.empty.unsqueeze(-1)
    scores = scores.masked_fill(~(allowed | empty), -math.inf).masked_fill(empty, 0.0)
    return scores.softmax(-1).masked_fill(empty, 0.0) @ repeat(value, heads)


def written_out(module: MultiHeadAttention, made: Case, x: Tensor, context: Tensor) -> Tensor:
    """What the module says it does, by its weights alone."""

    def project(linear: torch.nn.Linear, x: Tensor) -> Tensor:
        return x @ linear.weight.detach().double().t() + linear.bias.detach().double()

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, WIDTH)).transpose(1, 2)

    query = split(project(module.W_Q, x))
    key, value = (split(project(linear, context)) for linear in (module.W_K, module.W_V))
    return project(module.W_O, oracle(made, query, key, value).transpose(1, 2).flatten(2))


def push(want: Tensor) -> Tensor:
    """The gradient that is handed in at the output."""
    return torch.linspace(-1, 1, want.numel(), dtype=torch.float64).view(want.shape)


def apart(one: Tensor, two: Tensor) -> float:
    """The largest difference; where the exact numbers exceed 1, as a share of their largest."""
    assert one.isfinite().all()
    assert one.shape == two.shape
    return ((one.double() - two).abs().max() / two.abs().max().clamp(min=1)).item()


# --- the whole ---


def tree(cells: list[Cell]) -> dict[str, Any]:
    """As it is stored. ``cells[path][kind][dtype][relation]`` is two numbers, forward and backward, or in place of one
    a letter, which ``reasons`` explains; a path that serves nothing has one letter for all."""
    letters = {reason: letter(i) for i, reason in enumerate(sorted({c.reason for c in cells if c.reason is not None}))}
    found = {
        (c.path, c.kind, c.dtype, c.relation, c.direction):
            rounded(c.error) if c.error is not None else letters[c.reason or ""] for c in cells
    }  # fmt: skip
    stored: dict[str, Any] = {}
    for path in dict.fromkeys(c.path for c in cells):
        whole = {v for key, v in found.items() if key[0] == path}
        served = [v for v in whole if not isinstance(v, str)]
        why = whole - {letters.get(NO_CASE)}
        stored[path] = why.pop() if not served and len(why) == 1 else {
            kind: {
                name(dtype): {
                    relation: [found.get((path, kind, name(dtype), relation, way)) for way in DIRECTIONS]
                    for relation in RELATIONS
                }
                for dtype in BOUNDS
            }
            for kind in KINDS
        }  # fmt: skip
    return {
        "machine": {"processor": processor(), "python": platform.python_version(), "torch": torch.__version__},
        "bounds": {
            label: {name(dtype): [bound(path, dtype, direction) for direction in DIRECTIONS] for dtype in BOUNDS}
            for label, path in (("backends", "auto"), ("modules", MODULES[0]))
        },
        "lengths": {relation: list(lengths) for relation, lengths in RELATIONS.items()},
        "modules": list(MODULES),
        "reasons": {mark: reason for reason, mark in letters.items()},
        "cells": {path: stored[path] for path in paths() if path in stored},
    }


def letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else letter(number // 26 - 1) + letter(number % 26)


def layout(stored: dict[str, Any]) -> str:
    """JSON with a line for each path and kind of mask, so that a change is a line."""

    def lines(x: Any, depth: int, indent: str) -> str:
        if depth == 0 or not isinstance(x, dict):
            return json.dumps(x, ensure_ascii=False)
        inner = [f"{indent} {json.dumps(key)}: {lines(value, depth - 1, indent + ' ')}" for key, value in x.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent}}}"

    return "{\n" + ",\n".join(
        f" {json.dumps(key)}: {lines(value, 2 if key == 'cells' else 1, ' ')}" for key, value in stored.items()
    ) + "\n}\n"  # fmt: skip


def rounded(error: float) -> float:
    """Two digits, upwards, so that what is stored is no less than what was found."""
    if error == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return float(f"{math.ceil(error / unit - 1e-9) * unit:.1e}")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def finish(worker: str | None) -> None:
    """At the end of a session: a worker writes its part; the main process adds its own, and writes the matrix."""
    path = wanted()
    if path is None:
        return
    folder = path.with_suffix(".parts")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{worker or 'main'}.json").write_text(json.dumps(RECORDED), encoding="utf-8")
    if worker is not None:
        return
    cells = []
    for part in sorted(folder.glob("*.json")):
        cells += [Cell(*row) for row in json.loads(part.read_text(encoding="utf-8"))]
        part.unlink()
    folder.rmdir()
    if cells:
        path.write_text(layout(tree(cells)), encoding="utf-8")
