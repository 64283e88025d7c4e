r"""Flash attention, backward: the weights are made again, block by block, from the log-sum-exp.

With the weights :math:`p_{ij} = e^{s_{ij} - \mathrm{lse}_i}`, the gradient :math:`do_i` of the output and
:math:`d\mathrm{lse}_i` of the log-sum-exp:

.. math::

   dv_j = \sum_i p_{ij}\, do_i, \qquad
   ds_{ij} = p_{ij} (do_i \cdot v_j - \delta_i), \qquad
   \delta_i = \sum_j p_{ij}\, do_i \cdot v_j - d\mathrm{lse}_i = do_i \cdot o_i - d\mathrm{lse}_i

.. math:: dq_i = s \sum_j ds_{ij}\, k_j, \qquad dk_j = s \sum_i ds_{ij}\, q_i

Two kernels: one walks along the keys and sums :math:`dq`, one walks along the queries and sums :math:`dk` and
:math:`dv`. Each sum belongs to one program, so nothing is added to memory by two at once, and a run can be repeated to
the last bit; the price is that the scores are computed twice.

Source: Dao, "FlashAttention-2", 2023 (arXiv:2307.08691), algorithm 2.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from companion.kernels.flash_blocks import LOG2E, dot, load_rows, number_of_keys, parts, store_rows, visible

__all__: list[str] = []


@triton.jit(do_not_specialize=["H", "G", "L", "S", "before", "after"])
@no_type_check
def query_kernel(
    # As in the forward kernel, with the gradients of the output (B, H, L, E) and of the log-sum-exp (B, H, L)
    query, key, value, grad_output, output, logsumexp, lengths, grad_logsumexp,
    # Written: the gradient of the query, and δ (B, H, L), which the other kernel reads
    grad_query, delta,
    query_b, query_h, query_l, key_b, key_g, key_s, value_b, value_g, value_s, grad_b, grad_h, grad_l,
    H, G, L, S, before, after, scale,
    D: tl.constexpr, E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
    CAUSAL: tl.constexpr, INTERPRETED: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program: ``BLOCK_L`` queries of one head, and all keys that they may see, as in the forward kernel."""
    blocks = tl.cdiv(L, BLOCK_L)
    block, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    if CAUSAL:
        block = blocks - 1 - block
    b, h = (head // H).to(tl.int64), (head % H).to(tl.int64)
    g = h // (H // G)
    keys = number_of_keys(lengths, b, S)

    # All that belongs to my queries.
    i0 = block * BLOCK_L
    i = i0 + tl.arange(0, BLOCK_L)
    row = (b * H + h) * L  # of what is contiguous
    q = load_rows(query + b * query_b + h * query_h, query_l, i0, L, D, BLOCK_L, BLOCK_D, True)
    do = load_rows(grad_output + b * grad_b + h * grad_h, grad_l, i0, L, E, BLOCK_L, BLOCK_E, True)
    o = load_rows(output + row * E, E, i0, L, E, BLOCK_L, BLOCK_E, True)
    lse = tl.load(logsumexp + row + i, mask=i < L, other=0.0)
    lse = tl.where(lse == float("-inf"), 0.0, lse) * LOG2E  # saw nothing: all its scores are −∞, its weights zero
    # δ, once for each query.
    delta_i = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    delta_i -= tl.load(grad_logsumexp + row + i, mask=i < L, other=0.0)
    tl.store(delta + row + i, delta_i, mask=i < L)
    key += b * key_b + g * key_g
    value += b * value_b + g * value_g

    p0, p1 = i0 + (S - L), tl.minimum(i0 + BLOCK_L, L) - 1 + (S - L)
    first, last = tl.maximum(p0 - before, 0), tl.minimum(p1 + after + 1, keys)
    inner, outer = parts(first, last, p1 - before, tl.minimum(p0 + after + 1, keys), BLOCK_S)

    dq = tl.zeros([BLOCK_L, BLOCK_D], tl.float32)
    for EDGE in tl.static_range(2):
        start, end = inner, outer
        if EDGE:
            start, end = first, last - (outer - inner)
        for step in range(start, end, BLOCK_S):
            j0 = step
            if EDGE:
                j0 = tl.where(step < inner, step, step + (outer - inner))
            # The weights again: (BLOCK_L, BLOCK_S)
            k = load_rows(key, key_s, j0, keys, D, BLOCK_S, BLOCK_D, EDGE)
            s = dot(q, tl.trans(k), INTERPRETED) * (scale * LOG2E)
            if EDGE:
                j = j0 + tl.arange(0, BLOCK_S)
                s = tl.where(visible(i[:, None], j[None, :], keys, L, S, before, after), s, float("-inf"))
            p = tl.exp2(s - lse[:, None])
            # How the loss changes with each weight, and so with each score.
            v = load_rows(value, value_s, j0, keys, E, BLOCK_S, BLOCK_E, EDGE)
            dp = dot(do, tl.trans(v), INTERPRETED)
            ds = p * (dp - delta_i[:, None])
            # (BLOCK_L, BLOCK_S) x (BLOCK_S, BLOCK_D)
            dq += dot(ds, k, INTERPRETED)
    store_rows(grad_query + row * D, dq * scale, i0, L, D, BLOCK_L, BLOCK_D)


@triton.jit(do_not_specialize=["H", "G", "L", "S", "before", "after"])
@no_type_check
def key_kernel(
    query, key, value, grad_output, logsumexp, lengths, delta,
    # Written: the gradients of the key and the value
    grad_key, grad_value,
    query_b, query_h, query_l, key_b, key_g, key_s, value_b, value_g, value_s, grad_b, grad_h, grad_l,
    H, G, L, S, before, after, scale,
    D: tl.constexpr, E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
    CAUSAL: tl.constexpr, INTERPRETED: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program: ``BLOCK_S`` keys of one key/value head, and all queries that may see them, of every head it serves.

    Blocks lie on their side, keys down and queries across: ``(BLOCK_S, BLOCK_L)``.
    """
    blocks = tl.cdiv(S, BLOCK_S)
    block, group = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    b, g = (group // G).to(tl.int64), (group % G).to(tl.int64)
    keys = number_of_keys(lengths, b, S)

    # My keys and values stay with me.
    j0 = block * BLOCK_S
    j = j0 + tl.arange(0, BLOCK_S)
    k = load_rows(key + b * key_b + g * key_g, key_s, j0, keys, D, BLOCK_S, BLOCK_D, True)
    v = load_rows(value + b * value_b + g * value_g, value_s, j0, keys, E, BLOCK_S, BLOCK_E, True)

    # Turned around: query i sees key j if j − after ≤ i + S − L ≤ j + before. Inner: those that see all of my keys.
    j1 = tl.minimum(j0 + BLOCK_S, keys) - 1  # my last key
    first, last = tl.maximum(j0 - after - (S - L), 0), tl.minimum(j1 + before - (S - L) + 1, L)
    inner_last = tl.minimum(j0 + before - (S - L) + 1, L)
    if j0 + BLOCK_S > keys:  # some of my rows are no keys, so every step needs the mask
        inner_last = first
    if j0 >= keys:
        last = first
    inner, outer = parts(first, last, j1 - after - (S - L), inner_last, BLOCK_L)

    dk = tl.zeros([BLOCK_S, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_S, BLOCK_E], tl.float32)
    for h in range(g * (H // G), (g + 1) * (H // G)):  # the query heads that share my keys, one after another
        row = (b * H + h) * L
        for EDGE in tl.static_range(2):
            start, end = inner, outer
            if EDGE:
                start, end = first, last - (outer - inner)
            for step in range(start, end, BLOCK_L):
                i0 = step
                if EDGE:
                    i0 = tl.where(step < inner, step, step + (outer - inner))
                i = i0 + tl.arange(0, BLOCK_L)
                q = load_rows(query + b * query_b + h * query_h, query_l, i0, L, D, BLOCK_L, BLOCK_D, EDGE)
                lse = tl.load(logsumexp + row + i, mask=i < L, other=0.0)
                lse = tl.where(lse == float("-inf"), 0.0, lse) * LOG2E
                # The weights again, on their side.
                s = dot(k, tl.trans(q), INTERPRETED) * (scale * LOG2E)
                if EDGE:
                    s = tl.where(visible(i[None, :], j[:, None], keys, L, S, before, after), s, float("-inf"))
                p = tl.exp2(s - lse[None, :])
                # (BLOCK_S, BLOCK_L) x (BLOCK_L, BLOCK_E)
                do = load_rows(grad_output + b * grad_b + h * grad_h, grad_l, i0, L, E, BLOCK_L, BLOCK_E, EDGE)
                dv += dot(p, do, INTERPRETED)
                dp = dot(v, tl.trans(do), INTERPRETED)
                ds = p * (dp - tl.load(delta + row + i, mask=i < L, other=0.0)[None, :])
                # (BLOCK_S, BLOCK_L) x (BLOCK_L, BLOCK_D)
                dk += dot(ds, q, INTERPRETED)
    row = b * G + g
    store_rows(grad_key + row * S * D, dk * scale, j0, S, D, BLOCK_S, BLOCK_D)
    store_rows(grad_value + row * S * E, dv, j0, S, E, BLOCK_S, BLOCK_E)
