"""What the flash kernels share: reading a block, multiplying two, and knowing which pairs may attend.

A kernel is run by many *programs* at once, each with its own number. Everything a program holds is a block: a small
matrix whose sides, powers of two of at least 16, are known when the kernel is compiled (names in capitals).
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

__all__: list[str] = []

# What kernels take is made by Triton, and of no type that a checker knows: hence no_type_check.

LOG2E = tl.constexpr(1.4426950408889634)  # log₂ e
LN2 = tl.constexpr(0.6931471805599453)  # logₑ 2


@triton.jit
@no_type_check
def load_rows(
    matrix, stride, first, end, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EDGE: tl.constexpr
):
    """Rows ``first`` to ``first + ROWS`` of a matrix that is ``WIDTH`` wide: ``(ROWS, COLUMNS)``, filled with zeros.

    Only at an ``EDGE`` may rows lie past ``end``, so only there is it asked.
    """
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    place = rows.to(tl.int64)[:, None] * stride + columns[None, :]  # 64 bits: row x stride may pass 2³¹
    there = columns[None, :] < WIDTH
    if EDGE:
        there = there & (rows[:, None] < end)
    return tl.load(matrix + place, mask=there, other=0.0)


@triton.jit
@no_type_check
def store_rows(matrix, block, first, end, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write a block into a contiguous matrix, leaving out what lies past its ``end`` and its ``WIDTH``."""
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    place = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    there = (rows[:, None] < end) & (columns[None, :] < WIDTH)
    tl.store(matrix + place, block.to(matrix.dtype.element_ty), mask=there)


@triton.jit
@no_type_check
def dot(a, b, INTERPRETED: tl.constexpr):
    """The matrix product ``a b``, summed in float32.

    A GPU multiplies two of one dtype: so weights, which are float32, are rounded to that of the keys or values. "ieee"
    says that float32 stays what it is: the default, TF32, would round it to 11 bits, an error of 5e-4.
    """
    if INTERPRETED:  # where a product of bfloat16 is garbage (triton#11584)
        a, b = a.to(tl.float32), b.to(tl.float32)
    else:
        a = a.to(b.dtype)
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
@no_type_check
def number_of_keys(lengths, b, S):
    """How many keys batch entry ``b`` has: ``S``, or fewer where they are ragged."""
    if lengths is None:
        keys = S
    else:
        keys = tl.maximum(tl.minimum(tl.load(lengths + b), S), 0).to(tl.int32)
    return keys


@triton.jit
@no_type_check
def visible(i, j, keys, L, S, before, after):
    """May query ``i`` see key ``j``? Query ``i`` stands at position ``p = i + S − L`` among the keys."""
    p = i + (S - L)
    return (i < L) & (j < keys) & (j >= p - before) & (j <= p + after)


@triton.jit
@no_type_check
def parts(first, last, inner_first, inner_last, BLOCK: tl.constexpr):
    """Cut ``first … last`` into steps of ``BLOCK``: those at an edge, those inside, those at the other edge.

    Every pair of an inner step may attend, so there no mask is needed, which is most of the work on a long input.

    Returns:
        Where the inner steps start and where they end; both are whole steps away from ``first``.
    """
    start = first + tl.cdiv(tl.maximum(inner_first - first, 0), BLOCK) * BLOCK
    end = start + tl.maximum(inner_last - start, 0) // BLOCK * BLOCK
    return start, end
