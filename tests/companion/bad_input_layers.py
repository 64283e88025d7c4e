"""Bad input for masks of long inputs, positions, norms, feed-forward networks and blocks."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from companion import blocks, feed_forward, masks, norms, positions, rotary
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

MODULES = (positions, rotary, norms, feed_forward, blocks)
META = partial(torch.empty, device="meta")


def name_rows(function: Callable[..., Any], name: str, *known: str) -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (3, "int"), ([known[0]], "list"), (torch.relu, "builtin_function")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a str", kind))
    for bad in ("", "nothing", known[0].upper()):
        yield wrong_value(function, **{name: bad}, says=(f"{name} must be one of {', '.join(known)}", repr(bad)))


def from_masks() -> Iterator[Row]:
    for make, name, letter in (
        (masks.prefix_lm, "lengths", "B"),
        (partial(masks.longformer, 2), "global_tokens", "g"),
    ):
        for bad, kind in ((None, "NoneType"), (3, "int"), ("3", "str"), ({1: 2}, "dict"), (2.0, "float")):
            yield wrong_kind(make, **{name: bad}, says=(f"{name} must be a tensor or a sequence of ints", kind))
        for bad, got in (([1.5], "torch.float32"), (torch.ones(2), "torch.float32"), ([1j], "torch.complex64")):
            yield wrong_kind(make, **{name: bad}, says=(f"{name} must be integers ({letter},)", got))
        for bad in (["a"], [[1, 2], [3]], [2**70], [None]):
            yield wrong_kind(make, **{name: bad}, says=(f"{name} must be integers ({letter},)", repr(bad)))
        for bad in (torch.tensor([1]).to(torch.uint16), torch.tensor([1]).to(torch.uint64)):
            yield wrong_kind(make, **{name: bad}, says=(f"{name} must be integers ({letter},)", str(bad.dtype)))
        yield wrong_value(make, **{name: [[1, 2]]}, says=(f"{name} must have shape ({letter},)", "(1, 2)"))
        yield wrong_value(make, **{name: torch.tensor(2)}, says=(f"{name} must have shape ({letter},)", "got ()"))
        yield wrong_value(make, **{name: [2, -1]}, says=(f"{name} must not be negative", "[2, -1]"))
        yield wrong_value(make, **{name: [True]}, says=(f"{name} given as booleans must have shape (B, S)", "(1,)"))
    yield wrong_kind(masks.prefix_lm, YES, says=("lengths must be integers (B,)", "torch.bool"))
    yield from integer_rows(masks.longformer, "window", 0, -3)
    yield from flag_rows(partial(masks.longformer, 2), "causal")
    yield from integer_rows(masks.bigbird, "block", 0, -1)
    new = partial(masks.bigbird, 4)
    yield from integer_rows(new, "window", 0, -1)
    for name in ("num_global", "num_random", "seed"):
        yield from integer_rows(new, name, -1)
    yield wrong_value(new, seed=2**32, says=("seed must be less than 2**32", str(2**32)))
    yield from flag_rows(new, "causal")
    for even in (2, 4):
        yield wrong_value(new, window=even, says=("window must be odd", f"got {even}"))


def position_rows(module: Callable[..., Any], x: torch.Tensor) -> Iterator[Row]:
    """What everything that takes ``positions`` refuses: ``x`` is (2, 3, 8) or (2, 4, 3, 8)."""
    call = partial(module, x)
    for bad, kind in (([0, 1, 2], "list"), (3, "int"), ("012", "str"), (range(3), "range")):
        yield wrong_kind(call, positions=bad, says=("positions must be a torch.Tensor", f"got {kind}"))
    for dtype in (torch.float32, torch.bool, torch.complex64, torch.uint16):
        yield wrong_kind(call, positions=torch.ones(3).to(dtype), says=("positions must be integers", f"got {dtype}"))
    for shape in ((), (2,), (4,), (1, 3), (3, 2), (3, 3), (2, 3, 1), (2, 1, 3)):
        yield wrong_value(
            call,
            positions=torch.zeros(shape, dtype=torch.long),
            says=("positions must have shape (L,) = (3,) or (..., L) = (2, 3)", f"got {shape}"),
        )
    yield wrong_value(
        call, positions=META(3, dtype=torch.long), says=("positions must be on the device of x, cpu", "got meta")
    )
    yield wrong_value(module, x[0], torch.zeros(2, 3).long(), says=("positions must have shape (L,) = (3,)", "(2, 3)"))


def module_rows(module: Callable[..., Any], name: str, letters: str) -> Iterator[Row]:
    """What everything with weights, M=8, in float32 on the CPU, refuses."""
    yield from float_rows(module, name, letters.count(","))
    for width in (7, 16, 0):
        yield wrong_value(
            module, **{name: torch.ones(2, 3, width)}, says=(f"{name} must be {letters} with M=8", f"(2, 3, {width})")
        )
    yield wrong_value(module, **{name: META(2, 3, 8)}, says=(f"{name} must be on the module's device, cpu", "meta"))
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        yield wrong_kind(
            module,
            **{name: torch.ones(2, 3, 8, dtype=dtype)},
            says=(f"{name} must have the module's dtype, torch.float32", f"got {dtype}"),
        )


def from_positions() -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), ([[True]], "list"), (3, "int")):
        yield wrong_kind(positions.position_ids, bad, says=("real must be a torch.Tensor", kind))
    for dtype in (torch.int64, torch.float32, torch.uint8):
        yield wrong_kind(positions.position_ids, YES.to(dtype), says=("real must be boolean", str(dtype)))
    for shape in ((3,), (2, 3, 1), ()):
        yield wrong_value(
            positions.position_ids,
            torch.ones(shape, dtype=torch.bool),
            says=("real must have shape (B, S)", f"got {shape}"),
        )
    for make, name in ((positions.SinusoidalPositions, "d_model"), (rotary.Rotary, "d_head")):
        yield from integer_rows(make, name)
        for bad in (0, 1, -2):
            yield wrong_value(make, bad, says=(f"{name} must be at least 2", f"got {bad}"))
        for odd in (3, 65):
            yield wrong_value(make, odd, says=(f"{name} must be even", f"got {odd}"))
        yield from number_rows(partial(make, 8), "base", (1, 0.5, 0, -10_000.0))
    x = torch.rand(2, 3, 8)
    sines, learned = positions.SinusoidalPositions(8), positions.LearnedPositions(5, 8)
    yield from integer_rows(partial(positions.LearnedPositions, d_model=8), "max_length", 0, -1)
    yield from integer_rows(partial(positions.LearnedPositions, 5), "d_model", 0, -1)
    for module in (sines, learned):
        yield from position_rows(module, x)
    turn = rotary.Rotary(8)
    yield from position_rows(turn, torch.rand(2, 4, 3, 8))
    for module in (sines, learned, turn):
        yield from float_rows(module, "x", 2)
        for width in (4, 7, 16):
            yield wrong_value(
                module, torch.rand(2, 3, width), says=("x must have 8 features in its last dim", f"(2, 3, {width})")
            )
        yield wrong_value(module, META(2, 3, 8), says=("x must be on the module's device, cpu", "meta"))
    for bad in (-1, 5):
        yield wrong_value(
            learned, x, torch.tensor([0, 1, bad]), says=(f"positions has {bad}", "there are vectors for 0 to 4 only")
        )
    yield wrong_value(learned, torch.rand(6, 8), says=("x has 6 positions", "for 5 only"))
    heads = torch.rand(2, 4, 3, 8)
    yield from position_rows(lambda x, positions: turn.both(x, x, positions), heads)
    yield from float_rows(lambda query: turn.both(query, heads), "query", 2)
    yield from float_rows(lambda key: turn.both(heads, key), "key", 0)
    for shape in ((2, 4, 2, 8), (1, 4, 3, 8), (4, 3, 8), (2, 4, 3, 4), (3, 8), (8,)):
        yield wrong_value(
            turn.both,
            heads,
            torch.rand(shape),
            says=("query and key must be alike in all dims but the heads", f"{shape}"),
        )
    yield wrong_value(turn.both, heads, META(2, 4, 3, 8), says=("query and key must be on one device", "cpu and meta"))
    yield wrong_kind(turn.both, heads, heads.half(), says=("query and key must have one dtype", "torch.float16"))
    yield from flag_rows(partial(rotary.Rotary, 8), "interleaved")
    for reorder in (rotary.half_split, rotary.interleaved):
        yield from float_rows(reorder, "x", 1)
        yield from integer_rows(partial(reorder, torch.ones(2, 4)), "dim", -3)
        yield wrong_value(reorder, torch.ones(2, 4), 2, says=("dim must be an axis of x", "(2, 4)", "got 2"))
        yield wrong_value(
            reorder, torch.ones(2, 3), says=("x must have an even number of features", "dim=-1", "(2, 3)")
        )
        yield wrong_value(reorder, torch.ones(3, 2), 0, says=("x must have an even number of features", "dim=0"))
    yield from integer_rows(positions.alibi_slopes, "num_heads", 0, -8)
    yield from integer_rows(partial(positions.alibi_bias, L=2, S=3), "num_heads", 0, -8)
    yield from integer_rows(partial(positions.alibi_bias, 2, S=3), "L", -1)
    yield from integer_rows(partial(positions.alibi_bias, 2, 3), "S", -1)
    yield from device_rows(partial(positions.alibi_bias, 2, 3, 3))


def from_norms() -> Iterator[Row]:
    yield from integer_rows(norms.RMSNorm, "d_model", 0, -8)
    yield from number_rows(partial(norms.RMSNorm, 8), "eps", (0, -1e-6))
    yield from module_rows(norms.RMSNorm(8), "x", "(..., M)")
    yield from name_rows(partial(norms.make_norm, d_model=8), "norm", "layer", "rms")
    for kind in ("layer", "rms"):
        make = partial(norms.make_norm, kind)
        yield from integer_rows(make, "d_model", 0, -8)
        yield from number_rows(partial(make, 8), "eps", (0, -1e-6))
        yield from flag_rows(partial(make, 8), "bias")


def from_feed_forward() -> Iterator[Row]:
    new = feed_forward.FeedForward
    yield from integer_rows(new, "d_model", 0, -8)
    yield from integer_rows(partial(new, 8), "d_ff", 0, -8, none=False)
    yield from name_rows(partial(new, 8), "activation", "relu", "gelu", "gelu_tanh", "swiglu")
    yield from flag_rows(partial(new, 8), "bias")
    yield from number_rows(partial(new, 8), "dropout", (-0.1, 1.5))
    for activation in ("relu", "swiglu"):
        yield from module_rows(new(8, activation=activation), "x", "(..., M)")


def placed(block: Any, memory: torch.Tensor | None, x: torch.Tensor, positions: Any) -> torch.Tensor:
    """A block's call, with as many entries of the memory as of ``x``."""
    given = () if memory is None else (memory if x.dim() == 3 else memory[0],)
    return block(x, *given, positions=positions)


def from_blocks() -> Iterator[Row]:
    x, memory = torch.rand(2, 3, 8), torch.rand(2, 5, 8)
    for new in (blocks.EncoderBlock, blocks.DecoderBlock):
        make = partial(new, 8, 2)
        yield from integer_rows(partial(new, num_heads=2), "d_model", 0, -8)
        yield from integer_rows(partial(new, 8), "num_heads", 0, -2)
        yield wrong_value(new, 8, 3, says="d_model=8 must be a multiple of num_heads=3")
        yield from integer_rows(make, "d_ff", 0, -8, none=False)
        yield from integer_rows(make, "num_kv_heads", 0, -8, none=False)
        yield wrong_value(new, 8, 4, num_kv_heads=3, says="num_heads=4 must be a multiple of num_kv_heads=3")
        yield from name_rows(make, "activation", "relu", "gelu", "gelu_tanh", "swiglu")
        yield from name_rows(make, "norm", "layer", "rms")
        for name in ("norm_first", "bias"):
            yield from flag_rows(make, name)
        yield from number_rows(make, "eps", (0, -1e-6))
        yield from number_rows(make, "dropout", (-0.1, 1.5))
        yield from number_rows(make, "scale", ())
        for bad, kind in ((8, "int"), (True, "bool"), (positions.SinusoidalPositions(4), "SinusoidalPositions")):
            yield wrong_kind(make, rotary=bad, says=("rotary must be a Rotary", f"got {kind}"))
        yield wrong_value(make, rotary=rotary.Rotary(8), says=("rotary must have the width of a head, 4", "got 8"))
        yield from integer_rows(make, "layer", -1)
        yield wrong_kind(make, backend=None, says=("backend must be a str", "NoneType"))
        yield wrong_value(make, backend="nobody", says=("backend must be 'auto' or one of", "'nobody'"))
        for norm_first in (False, True):
            block = make(norm_first=norm_first)
            given = () if new is blocks.EncoderBlock else (memory,)
            yield from module_rows(lambda x, block=block, given=given: block(x, *given), "x", "(..., L, M)")
            call = partial(block, x, *given)
            yield wrong_kind(call, mask=torch.ones(3, 3), says=("mask must be boolean", "torch.float32"))
            yield wrong_value(
                call, mask=torch.ones(2, 3, dtype=torch.bool), says=("mask must have shape", "mask[:, None, None, :]")
            )
            yield wrong_value(call, mask=masks.padding([1]), says=("padding was given 1 lengths", "batch of 2"))
            yield wrong_kind(call, bias=torch.ones(3, 3, dtype=torch.bool), says=("bias must be floating point",))
            yield from flag_rows(call, "causal")
            yield wrong_kind(call, cache={}, says=("cache must be a KVCache", "dict"))
            yield wrong_value(call, positions=torch.arange(3), says="positions must be None in a module without rotary")
            turning = make(norm_first=norm_first, rotary=rotary.Rotary(4))
            yield from position_rows(partial(placed, turning, memory if given else None), x)
    new = blocks.DecoderBlock
    yield from flag_rows(partial(new, 8, 2), "cross_attention")
    block = new(8, 2)
    for bad, kind in (([1.0], "list"), (1.0, "float"), (masks.causal(), "Mask")):
        yield wrong_kind(block, x, bad, says=("memory must be a torch.Tensor", kind))
    yield wrong_value(block, x, says=("memory must be given to a block with cross_attention=True",))
    yield wrong_value(
        new(8, 2, cross_attention=False),
        x,
        memory,
        says=("memory must be None for a block with cross_attention=False",),
    )
    yield wrong_kind(block, x, memory.double(), says=("memory must have the module's dtype", "torch.float64"))
    yield wrong_value(block, x, META(2, 5, 8), says=("memory must be on the module's device", "meta"))
    yield wrong_value(block, x, torch.rand(2, 5, 6), says=("memory must be (..., S, M) with M=8", "(2, 5, 6)"))
    for shape in ((5, 8), (1, 5, 8), (3, 5, 8), (2, 2, 5, 8)):
        yield wrong_value(
            block, x, torch.rand(shape), says=("x and memory must have the same batch dims", "(2, 3, 8)", f"{shape}")
        )
    call = partial(block, x, memory)
    yield wrong_kind(call, memory_mask=torch.ones(3, 5), says=("mask must be boolean", "torch.float32"))
    yield wrong_value(
        call, memory_mask=torch.ones(3, 3, dtype=torch.bool), says=("mask must have shape", "(2, 2, 3, 5)")
    )
    yield wrong_kind(call, memory_cache=[], says=("cache must be a KVCache", "list"))
    yield wrong_value(blocks.EncoderBlock, 8, 2, dropout=math.nan, says="dropout must be finite")


def rows() -> Iterator[Row]:
    for part in (from_masks, from_positions, from_norms, from_feed_forward, from_blocks):
        yield from part()
