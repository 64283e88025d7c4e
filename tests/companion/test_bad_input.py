"""Every public function and constructor, given what it cannot take: its error names the argument, and what came."""

import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from companion import attention, backends, diagnostics, lookup, masks, multihead, notebook, plots
from tests.companion.bad_input import (
    YES,
    Row,
    device_rows,
    flag_rows,
    float_rows,
    integer_rows,
    number_rows,
    wrong_kind,
    wrong_value,
)
from tests.companion.optional import modules

Q, K, V = torch.rand(2, 4, 3, 8), torch.rand(2, 2, 5, 8), torch.rand(2, 2, 5, 6)
TABLE = torch.eye(3)
META = partial(torch.empty, device="meta")


def attention_rows(function: Callable[..., Any], groups: bool = True, wraps_mask: bool = True) -> Iterator[Row]:
    """What everything that takes query, key and value refuses."""
    key, value = (K, V) if groups else (torch.rand(2, 4, 5, 8), torch.rand(2, 4, 5, 6))
    good = {"query": Q, "key": key, "value": value}
    for name in good:
        for bad, kind in (
            (None, "NoneType"),
            ([[1.0]], "list"),
            (np.ones((2, 2)), "ndarray"),
            ("text", "str"),
            (1.0, "float"),
        ):
            yield wrong_kind(function, **(good | {name: bad}), says=(f"{name} must be a torch.Tensor", f"got {kind}"))
        for dtype in (torch.int64, torch.bool, torch.complex64):
            yield wrong_kind(
                function, **(good | {name: good[name].to(dtype)}), says=(f"{name} must be float16", f"got {dtype}")
            )
        yield wrong_kind(
            function,
            **(good | {name: good[name].half()}),
            says=("must have one dtype", "torch.float16", "torch.float32"),
        )
        yield wrong_value(
            function, **(good | {name: good[name].to("meta")}), says=("must be on one device", "meta", "cpu")
        )
        yield wrong_value(
            function, **(good | {name: torch.rand(3)}), says=(f"{name} must have at least 2 dims", "(3,)")
        )
        yield wrong_value(
            function, **(good | {name: good[name][0]}), says=("same number of dims", str(tuple(good[name][0].shape)))
        )
        yield wrong_kind(
            function, **(good | {name: torch.eye(3).to_sparse()}), says=(f"{name} must be a dense tensor", "sparse")
        )
    yield wrong_value(function, Q, key[..., :4], value, says=("query and key must have the same width D", "8 and 4"))
    yield wrong_value(function, Q[..., :0], key[..., :0], value, says=("width D of at least 1", "(2, 4, 3, 0)"))
    yield wrong_value(function, Q, key[:, :, :4], value, says=("key and value must have the same length S", "4 and 5"))
    yield wrong_value(
        function, Q, key, value[:, :1], says=("key and value must have the same leading dims", "(2, 1, 5, 6)")
    )
    yield wrong_value(function, Q[:1], key, value, says=("query and key must have the same batch dims", "(1, 4, 3, 8)"))
    yield wrong_value(function, Q[:, :3], K, V, says=("query has 3 heads and key has 2", "(2, 3, 3, 8)"))
    yield wrong_value(function, Q, key[:, :0], value[:, :0], says=("query has 4 heads and key has 0",))
    yield wrong_value(function, Q[:, :0], K, V, says=("query has 0 heads and key has 2",))
    if not wraps_mask:
        return
    mask, bias = partial(function, Q, K, V), partial(function, Q, K, V)
    for bad, kind in (([[True]], "list"), (np.ones((3, 5), dtype=bool), "ndarray"), ("causal", "str"), (True, "bool")):
        yield wrong_kind(mask, mask=bad, says=("mask must be a torch.Tensor", f"got {kind}"))
    yield wrong_kind(
        mask,
        mask=YES.float(),
        says=("mask must be boolean, True where", "torch.float32", "pass an additive mask as bias"),
    )
    yield wrong_kind(mask, mask=YES.int(), says=("mask must be boolean", "torch.int32", "mask.bool()"))
    yield wrong_value(
        mask,
        mask=torch.ones(2, 5, dtype=torch.bool),
        says=("mask must have shape", "got (2, 5)", "mask[:, None, None, :]"),
    )
    yield wrong_value(
        mask,
        mask=torch.ones(2, 3, 5, dtype=torch.bool),
        says=("mask must have shape", "got (2, 3, 5)", "mask[:, None]"),
    )
    for shape in ((3, 4), (5,), (), (3, 1), (5, 3), (2, 2, 3, 5), (3, 4, 3, 5), (1, 1, 1, 3, 5), (2, 4, 3, 1), (0, 5)):
        yield wrong_value(
            mask,
            mask=torch.ones(shape, dtype=torch.bool),
            says=("mask must have shape", f"got {shape}", "(2, 4, 3, 5)"),
        )
    yield wrong_value(mask, mask=YES.to("meta"), says=("mask must be on the query's device, cpu", "got meta"))
    yield wrong_value(mask, mask=masks.padding([1, 2, 3]), says=("padding was given 3 lengths", "batch of 2"))
    yield wrong_kind(bias, bias=YES, says=("bias must be floating point", "torch.bool", "as mask"))
    yield wrong_kind(bias, bias=YES.long(), says=("bias must be float16", "torch.int64"))
    yield wrong_kind(bias, bias=[[0.0]], says=("bias must be a torch.Tensor", "got list"))
    yield wrong_kind(bias, bias=masks.causal(), says=("bias must be a torch.Tensor", "got Mask"))
    yield wrong_value(bias, bias=torch.zeros(2, 3, 5), says=("bias must have shape", "got (2, 3, 5)"))
    yield wrong_value(bias, bias=torch.zeros(3, 4), says=("bias must have shape", "got (3, 4)"))
    yield wrong_value(
        bias, bias=torch.zeros(3, 5, device="meta"), says=("bias must be on the query's device", "got meta")
    )
    three = partial(function, Q[0], K[0], V[0])
    yield wrong_value(
        three, mask=torch.ones(2, 4, 3, 5, dtype=torch.bool), says=("(L, S) or (H, L, S)", "(2, 4, 3, 5)")
    )
    yield wrong_value(
        partial(function, Q[0, 0], K[0, 0], V[0, 0]), mask=YES[None], says=("mask must have shape (L, S)", "(1, 3, 5)")
    )
    yield wrong_value(
        partial(function, Q[None], K[None], V[None]), mask=YES[None], says=("(L, S) or (..., H, L, S)", "(1, 3, 5)")
    )
    yield from number_rows(partial(function, Q, K, V), "scale", ())
    yield from number_rows(partial(function, Q, K, V), "dropout_p", (-0.1, 1.5))


def from_attention() -> Iterator[Row]:
    yield from attention_rows(attention.scaled_dot_product_attention)
    yield from float_rows(attention.stable_softmax, "x", 1)
    yield from integer_rows(partial(attention.stable_softmax, torch.ones(2, 3)), "dim", -3)
    yield wrong_value(
        attention.stable_softmax, torch.ones(2, 3), 2, says=("dim must be an axis of x", "(2, 3)", "got 2")
    )
    yield from float_rows(attention.softmax_jacobian, "x", 1)
    yield from float_rows(partial(attention.split_heads, num_heads=2), "x", 2)
    yield from integer_rows(partial(attention.split_heads, torch.ones(2, 4)), "num_heads", 0, -1)
    yield wrong_value(attention.split_heads, torch.ones(2, 4), 3, says=("x has width 4", "(2, 4)", "num_heads=3"))
    yield from float_rows(attention.merge_heads, "x", 3)
    yield from float_rows(partial(attention.repeat_kv, num_heads=4), "x", 3)
    yield from integer_rows(partial(attention.repeat_kv, K), "num_heads", 0, -2)
    yield wrong_value(
        attention.repeat_kv, K, 3, says=("num_heads=3 must be a multiple of the 2 heads of x", "(2, 2, 5, 8)")
    )
    yield wrong_value(attention.repeat_kv, K[:, :0], 4, says=("num_heads=4", "the 0 heads of x"))


def from_backends() -> Iterator[Row]:
    for function in (backends.attend, backends.chosen, partial(backends.why_not, "math")):
        for each in attention_rows(function):
            if function in (backends.attend, backends.chosen) or not any(x is None for x in each.options.values()):
                yield each  # why_not takes None: no call
        yield from flag_rows(partial(function, Q, K, V), "causal")
    for unknown in ("fastest", "", "Math"):
        names = "'auto' or one of reference, math, flash, efficient, cudnn, flex, triton, chunked"
        yield wrong_value(backends.attend, Q, K, V, backend=unknown, says=(f"backend must be {names}", repr(unknown)))
        yield wrong_value(backends.why_not, unknown, says=(f"backend must be {names}", repr(unknown)))
    for bad, kind in ((None, "NoneType"), (3, "int"), (["math"], "list")):
        yield wrong_kind(backends.attend, Q, K, V, backend=bad, says=("backend must be a str", kind))
        yield wrong_kind(backends.why_not, bad, says=("backend must be a str", kind))
    yield wrong_value(backends.attend, Q, K, V, backend="cudnn", says=("'cudnn' cannot serve this call", "NVIDIA"))
    yield wrong_value(backends.attend, Q, K, V, backend="flash", says=("'flash' cannot serve", "E=6 and D=8"))
    yield wrong_value(backends.why_not, "math", Q, K, says="query, key and value together, or none")
    yield from device_rows(backends.available)
    yield from device_rows(partial(backends.why_not, "math"))
    good = partial(backends.register, name="mine", run=print, why_not=print)
    yield wrong_kind(good, name=3, says=("name must be a str", "int"))
    yield wrong_value(good, name="auto", says="name must not be 'auto'")
    yield wrong_kind(good, run="print", says=("run must be callable", "str"))
    yield wrong_kind(good, why_not=None, says=("why_not must be callable", "NoneType"))


def from_masks() -> Iterator[Row]:
    yield wrong_kind(masks.Mask, YES, says=("predicate must be callable as (b, h, q, k)", "Tensor"))
    yield wrong_kind(masks.Mask, print, 3, says=("name must be a str", "int"))
    yield from integer_rows(masks.causal, "offset", none=False)
    yield from integer_rows(masks.sliding_window, "window", 0, -3)
    yield from flag_rows(partial(masks.sliding_window, 2), "causal")
    for bad, kind in ((None, "NoneType"), (3, "int"), ("3", "str"), ({1: 2}, "dict"), (np.ones(2, int), "ndarray")):
        yield wrong_kind(masks.padding, bad, says=("lengths must be a tensor or a sequence of ints", kind))
    yield wrong_kind(masks.padding, [1.5], says=("lengths must be integers (B,)", "torch.float32"))
    yield wrong_kind(masks.padding, torch.ones(2), says=("lengths must be integers (B,)", "torch.float32"))
    yield wrong_kind(masks.padding, ["a"], says=("lengths must be integers (B,)", "['a']"))
    yield wrong_kind(masks.padding, [[1, 2], [3]], says=("lengths must be integers (B,)", "[[1, 2], [3]]"))
    yield wrong_value(masks.padding, [[1, 2]], says=("lengths must have shape (B,)", "(1, 2)", "boolean"))
    yield wrong_value(masks.padding, torch.tensor(2), says=("lengths must have shape (B,)", "got ()"))
    yield wrong_value(masks.padding, [True, False], says=("lengths given as booleans must have shape (B, S)", "(2,)"))
    yield wrong_value(masks.padding, [2, -1], says=("lengths must not be negative", "[2, -1]"))
    for bad, kind in ((None, "NoneType"), ([[1]], "list"), ("a", "str")):
        yield wrong_kind(masks.document, bad, says=("ids must be a torch.Tensor", kind))
    yield wrong_kind(masks.document, torch.ones(2, 3), says=("ids must be integers", "torch.float32"))
    yield wrong_kind(masks.document, torch.ones(2, 3, dtype=torch.bool), says=("ids must be integers", "torch.bool"))
    yield wrong_value(masks.document, torch.ones(3, dtype=torch.long), says=("ids must have shape (B, S)", "(3,)"))
    rule = masks.causal()
    for name in "BHLS":
        sizes = dict.fromkeys("BHLS", 2)
        for method in (rule.dense, rule.compact, rule.block_mask):
            yield from integer_rows(partial(method, **sizes), name, -1)
        yield wrong_value(rule.block_mask, **(sizes | {name: 0}), says=(f"{name} must be at least 1", "got 0"))
        if name != "H":
            yield from integer_rows(partial(rule.rule, B=2, L=2, S=2), name, -1)
    for method in (rule.dense, rule.compact, rule.block_mask):
        yield from device_rows(partial(method, 1, 1, 2, 2))
    yield from device_rows(partial(rule.rule, 1, 2, 2))
    number, wide = (
        masks.Mask(lambda b, h, q, k: 3, "three"),
        masks.Mask(lambda b, h, q, k: k == torch.arange(7), "wide"),
    )
    yield wrong_kind(number.block_mask, 1, 1, 2, 2, says=("predicate of three must return a boolean tensor", "int"))
    yield wrong_kind(number.dense, 1, 1, 2, 2, says=("predicate of three must return a boolean tensor", "int"))
    yield wrong_kind(masks.Mask(lambda b, h, q, k: q - k).dense, 1, 1, 2, 2, says=("boolean tensor", "torch.int64"))
    yield wrong_value(wide.dense, 1, 1, 7, 1, says=("predicate of wide", "(1, 1, 7, 1)", "got shape (1, 1, 1, 7)"))
    for bad, kind in ((YES, "Tensor"), (None, "NoneType"), (True, "bool")):
        for how in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: b & a, lambda a, b: b | a):
            yield wrong_kind(how, rule, bad, says=("a Mask combines with another Mask", kind))
    yield wrong_kind(bool, rule, says="neither true nor false")
    yield wrong_kind(rule.plot, "abc", says=("tokens must be a list of names", "'abc'"))


def from_multihead() -> Iterator[Row]:
    new = multihead.MultiHeadAttention
    yield from integer_rows(partial(new, num_heads=2), "d_model", 0, -8)
    yield from integer_rows(partial(new, 8), "num_heads", 0, -2)
    yield from integer_rows(partial(new, 8, 4), "num_kv_heads", 0, -1, none=False)
    yield from integer_rows(partial(new, 8, 4), "d_head", 0, -1, none=False)
    yield wrong_value(new, 8, 3, says=("d_model=8 must be a multiple of num_heads=3", "d_head"))
    yield wrong_value(new, 8, 4, num_kv_heads=3, says="num_heads=4 must be a multiple of num_kv_heads=3")
    yield wrong_value(new, 8, 4, num_kv_heads=8, says="num_heads=4 must be a multiple of num_kv_heads=8")
    yield from number_rows(partial(new, 8, 4), "dropout", (-0.5, 1.01))
    yield from number_rows(partial(new, 8, 4), "scale", ())
    yield from flag_rows(partial(new, 8, 4), "bias")
    yield wrong_kind(new, 8, 4, backend=None, says=("backend must be a str", "NoneType"))
    mha, x, memory = new(8, 4), torch.rand(2, 3, 8), torch.rand(2, 5, 8)
    yield from float_rows(mha, "x", 2)
    for bad, kind in (([1.0], "list"), (YES, "torch.bool"), (masks.causal(), "Mask")):
        yield wrong_kind(mha, x, bad, says=("context must be", kind))
    yield wrong_value(mha, torch.rand(2, 3, 6), says=("x must be (..., L, M) with M=8", "(2, 3, 6)"))
    yield wrong_value(mha, x, torch.rand(2, 5, 6), says=("context must be (..., S, M) with M=8", "(2, 5, 6)"))
    yield wrong_value(mha, x, memory[:1], says=("x and context must have the same batch dims", "(1, 5, 8)"))
    yield wrong_value(mha, x, memory[0], says=("x and context must have the same batch dims", "(5, 8)"))
    yield wrong_value(mha, META(2, 3, 8), says=("x must be on the module's device, cpu", "meta"))
    yield wrong_value(mha, x, META(2, 5, 8), says=("context must be on the module's device, cpu", "meta"))
    yield wrong_kind(mha, x.double(), says=("x must have the module's dtype, torch.float32", "torch.float64"))
    yield wrong_kind(mha, x, memory.half(), says=("context must have the module's dtype", "torch.float16"))
    yield from flag_rows(partial(mha, x), "causal")
    yield from flag_rows(partial(mha, x), "need_weights")
    yield wrong_value(mha, x, positions=torch.arange(3), says="positions must be None in a module without rotary")
    for need in (False, True):
        call = partial(mha, x, memory, need_weights=need)
        yield wrong_kind(call, mask=YES.float(), says=("mask must be boolean", "torch.float32"))
        yield wrong_value(
            call, mask=torch.ones(2, 5, dtype=torch.bool), says=("mask must have shape", "mask[:, None, None, :]")
        )
        yield wrong_value(
            call, mask=torch.ones(2, 3, 5, dtype=torch.bool), says=("mask must have shape", "mask[:, None]")
        )
        yield wrong_kind(call, bias=YES, says=("bias must be floating point", "torch.bool"))
    yield wrong_value(new, 8, 4, backend="nobody", says=("backend must be 'auto' or one of", "'nobody'"))
    yield wrong_value(new(8, 4, backend="cudnn"), x, says=("'cudnn' cannot serve", "NVIDIA"))


def from_lookup() -> Iterator[Row]:
    for function in (lookup.hard_lookup, lookup.soft_lookup, lookup.kernel_regression):
        yield from attention_rows(function, groups=False, wraps_mask=False)
        yield wrong_value(function, Q, K, V, says=("query and key must have the same leading dims", "(2, 2, 5, 8)"))
        yield wrong_value(
            function, Q, K[:, :1], V[:, :1], says=("query and key must have the same leading dims", "(2, 1, 5, 8)")
        )
    x = torch.rand(3, 2)
    yield from number_rows(partial(lookup.soft_lookup, x, x, x), "temperature", (0, -1.0))
    yield from number_rows(partial(lookup.kernel_regression, x, x, x), "bandwidth", (0, -1.0))
    names = "gaussian, laplace, boxcar, epanechnikov"
    yield wrong_value(
        lookup.kernel_regression, x, x, x, kernel="cosine", says=(f"kernel must be one of {names}", "'cosine'")
    )
    for bad, kind in ((None, "NoneType"), (["gaussian"], "list"), (abs, "builtin_function_or_method")):
        yield wrong_kind(lookup.kernel_regression, x, x, x, kernel=bad, says=("kernel must be a str", kind))
    good = {
        "query": torch.rand(2, 3, 4),
        "key": torch.rand(2, 5, 6),
        "W_q": torch.rand(4, 7),
        "W_k": torch.rand(6, 7),
        "v": torch.rand(7),
    }
    for name, tensor in good.items():
        for bad, kind in ((None, "NoneType"), ([1.0], "list"), (1.0, "float")):
            yield wrong_kind(
                lookup.additive_score, **(good | {name: bad}), says=(f"{name} must be a torch.Tensor", kind)
            )
        yield wrong_kind(
            lookup.additive_score, **(good | {name: tensor.long()}), says=(f"{name} must be float16", "torch.int64")
        )
        yield wrong_kind(
            lookup.additive_score, **(good | {name: tensor.half()}), says=("must have one dtype", "torch.float16")
        )
        yield wrong_value(
            lookup.additive_score, **(good | {name: tensor.to("meta")}), says=("must be on one device", "meta")
        )
    for name, bad in (("query", torch.rand(4)), ("key", torch.rand(6))):
        yield wrong_value(
            lookup.additive_score, **(good | {name: bad}), says=(f"{name} must have at least 2 dims", "got shape")
        )
    yield wrong_value(lookup.additive_score, **(good | {"key": torch.rand(5, 6)}), says=("same leading dims", "(5, 6)"))
    yield wrong_value(
        lookup.additive_score, **(good | {"v": torch.rand(7, 1)}), says=("v must have shape (A,)", "(7, 1)")
    )
    yield wrong_value(
        lookup.additive_score, **(good | {"W_q": torch.rand(7, 4)}), says=("W_q must have shape (4, 7)", "got (7, 4)")
    )
    yield wrong_value(
        lookup.additive_score, **(good | {"W_k": torch.rand(4, 7)}), says=("W_k must have shape (6, 7)", "got (4, 7)")
    )


def from_diagnostics() -> Iterator[Row]:
    for function in (diagnostics.entropy, diagnostics.effective_tokens, diagnostics.saturation):
        yield from float_rows(function, "weights", 1)
    yield from number_rows(partial(diagnostics.saturation, TABLE), "threshold", (-0.1, 1.1))


def from_plots() -> Iterator[Row]:
    yield from float_rows(plots.heatmap, "table", 0)
    draw = partial(plots.heatmap, TABLE)
    for shape in ((3,), (1, 3, 3), (2, 2, 3, 3)):
        yield wrong_value(plots.heatmap, torch.ones(shape), says=("table must be (L, S)", f"got shape {shape}"))
    yield wrong_value(plots.heatmap, torch.ones(0, 3), says=("table must have something to draw", "(0, 3)"))
    yield wrong_value(plots.heatmap, -TABLE, says=("table must not be negative unless signed=True", "-1"))
    for name in ("rows", "columns"):
        yield wrong_value(draw, **{name: ["a", "b"]}, says=(f"{name} must be 3 names", "['a', 'b']"))
        yield wrong_value(draw, **{name: 3}, says=(f"{name} must be 3 names", "got 3"))
        yield wrong_kind(draw, **{name: "abc"}, says=(f"{name} must be a list of names", "str"))
        yield wrong_kind(draw, **{name: TABLE}, says=(f"{name} must be a list of names", "Tensor"))
    yield from flag_rows(draw, "signed")
    for bad, kind in ((1, "int"), ("yes", "str"), (YES, "Tensor")):
        yield wrong_kind(draw, numbers=bad, says=("numbers must be True or False", f"got {kind}"))
        yield wrong_kind(draw, colorbar=bad, says=("colorbar must be True or False", f"got {kind}"))
    yield from number_rows(draw, "limit", (0, -1.0))
    yield from integer_rows(draw, "digits", -1)
    yield wrong_kind(draw, masked=TABLE, says=("masked must be boolean", "torch.float32"))
    yield wrong_kind(draw, masked=[[True]], says=("masked must be a torch.Tensor", "list"))
    yield wrong_kind(draw, masked=masks.causal(), says=("masked must be a torch.Tensor", "Mask"))
    yield wrong_value(draw, masked=YES, says=("masked must have the table's shape, (3, 3)", "(3, 5)"))
    yield wrong_kind(plots.mask, masks.causal(), says="tokens must be given with a Mask")
    for bad, kind in ((None, "NoneType"), ([[True]], "list"), ("causal", "str")):
        yield wrong_kind(plots.mask, bad, 3, says=("rule must be a torch.Tensor", kind))
    yield wrong_kind(plots.mask, TABLE, says=("rule must be a Mask or a boolean tensor", "torch.float32"))
    yield wrong_value(plots.mask, YES[None], says=("rule must be (L, S)", "(1, 3, 5)"))
    yield wrong_value(plots.mask, YES, 4, says=("tokens must be 3 in number", "got 4"))
    yield wrong_value(plots.mask, YES, ["a"], says=("tokens must be 3 in number", "got 1"))
    yield wrong_value(plots.mask, YES, keys=["a"], says=("keys must be 5 in number", "got 1"))
    for name in ("tokens", "keys"):
        call = partial(plots.mask, masks.causal(), **({"tokens": 3} if name == "keys" else {}))
        for bad, kind in (("abc", "str"), (1.5, "float"), ({"a"}, "set")):
            yield wrong_kind(call, **{name: bad}, says=(f"{name} must be a list of names", kind))
        yield wrong_kind(call, **{name: True}, says=(f"{name} must be an int", "bool"))
        yield wrong_value(call, **{name: 0}, says=(f"{name} must be at least 1", "got 0"))
        yield wrong_value(call, **{name: []}, says=(f"{name} must be at least 1", "got 0"))
    yield from float_rows(plots.scores_histogram, "scores", 0)
    yield from integer_rows(partial(plots.scores_histogram, TABLE), "bins", 0, -1)
    for empty in (torch.ones(0), torch.tensor([math.nan, math.inf])):
        yield wrong_value(
            plots.scores_histogram, empty, says=("scores must hold a finite number", f"{tuple(empty.shape)}")
        )
    for call in (draw, partial(plots.mask, YES), partial(plots.scores_histogram, TABLE)):
        yield wrong_kind(call, ax=3, says=("ax must be a matplotlib Axes", "int"))


def from_notebook() -> Iterator[Row]:
    yield from integer_rows(notebook.start, "seed", -1)
    yield wrong_value(notebook.start, 2**64, says=("seed must be less than 2**64", str(2**64)))
    yield from integer_rows(partial(notebook.start, 0), "threads", 0, -1)
    for bad, kind in ((1.5, "float"), (None, "NoneType"), (True, "bool"), (torch.tensor(1), "Tensor"), ([1], "list")):
        yield wrong_kind(notebook.glue, largest=bad, says=("largest must be a str or an int", f"got {kind}"))
    for bad in (3, "attend", len):
        yield wrong_kind(notebook.show_source, bad, says=("objects must have Python source", repr(bad)))
    yield from flag_rows(partial(notebook.show_source, masks.causal), "docstrings")


# Other areas have files of their own.
AREAS = [
    importlib.import_module(f"tests.companion.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("bad_input_*.py"))
]
ROWS = [
    each
    for rows in (
        from_attention,
        from_backends,
        from_masks,
        from_multihead,
        from_lookup,
        from_diagnostics,
        from_plots,
        from_notebook,
        *(area.rows for area in AREAS),
    )
    for each in rows()
]

# Names that take nothing which could be wrong.
TAKE_NOTHING = {
    "companion.exercises.practice.names",
    "companion.exercises.rule.allowed",
    "companion.notebook.device",
    "companion.plots.use_style",
}
# Types and tables, not functions of the package's own.
NO_FUNCTIONS = {
    "Accuracy",
    "AttentionOutput",
    "Attributions",
    "Beams",
    "Bool",
    "COLORS",
    "Call",
    "Captured",
    "END",
    "FORMS",
    "Finding",
    "Float",
    "History",
    "Int",
    "LabelBatch",
    "MASK",
    "PAD",
    "Outcome",
    "PairBatch",
    "Predictions",
    "Report",
    "Rule",
    "START",
    "Task",
    "Tensor",
    "TextBatch",
    "TokenLoss",
}


def named(function: Any) -> str:
    """Where it is defined, through partials, modules' instances and bound methods."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, nn.Module):
        function = type(function)
    return f"{getattr(function, '__module__', '')}.{function.__qualname__}"


@pytest.mark.filterwarnings("ignore:Sparse")
def test_every_wrong_call_gets_an_error_that_teaches():
    faults = []
    for number, (function, arguments, options, error, words) in enumerate(ROWS):
        label = f"row {number}: {named(function)}({options or arguments!r:.150})"
        try:
            function(*arguments, **options)
        except (TypeError, ValueError) as caught:
            if type(caught) is not error:
                faults.append(f"{label} raised {type(caught).__name__}, not {error.__name__}: {caught}")
            missing = [word for word in words if word not in str(caught)]
            if missing:
                faults.append(f"{label} does not say {missing}: {caught}")
        except Exception as caught:
            faults.append(f"{label} raised {caught!r:.200}")
        else:
            faults.append(f"{label} was taken")
    assert not faults, f"{len(faults)} of {len(ROWS)}\n" + "\n".join(faults)


def test_every_public_name_has_a_row():
    tested = {named(each.function) for each in ROWS} | TAKE_NOTHING
    missing = []
    for module in map(importlib.import_module, modules()):
        for name in set(getattr(module, "__all__", ())) - NO_FUNCTIONS:
            thing = getattr(module, name)
            if f"{thing.__module__}.{thing.__qualname__}" not in tested:
                missing.append(f"{module.__name__}.{name}")
    assert not missing
    for name in TAKE_NOTHING:  # and those indeed take nothing
        module, _, function = name.rpartition(".")
        code = getattr(importlib.import_module(module), function).__code__
        assert code.co_argcount == code.co_kwonlyargcount == 0


def test_every_argument_of_a_function_has_a_row():
    """An argument that no row ever names or gives wrongly would pass unseen: each appears in some message."""
    spoken = {}
    for each in ROWS:
        spoken.setdefault(named(each.function), []).append(" ".join(each.words))
    # Free text, which may be anything that prints; and what a module checks where it is used.
    free = {"xlabel", "ylabel", "label", "color", "objects", "values", "other", "self"}
    missing = []
    listed = (module for area in AREAS for module in area.MODULES)
    for module in (attention, backends, diagnostics, lookup, masks, plots, notebook, *listed):
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isfunction(thing):
                continue
            for argument in set(inspect.signature(thing).parameters) - free:
                words = " ".join(spoken.get(f"{thing.__module__}.{thing.__qualname__}", []))
                if not re.search(rf"\b{argument}\b", words):
                    missing.append(f"{module.__name__}.{name}({argument})")
    assert not missing
