r"""Flash attention, forward: a block of queries walks along the keys and keeps no weights.

What it keeps of the keys seen so far is, for each query, the largest score :math:`m`, the sum :math:`l` of the
:math:`e^{s_j - m}`, and the sum :math:`o` of the values times these. The next block of scores changes them to

.. math::

   m' = \max(m, \max_j s_j), \qquad
   l' = e^{m - m'} l + \sum_j e^{s_j - m'}, \qquad
   o' = e^{m - m'} o + \sum_j e^{s_j - m'} v_j

and in the end the output is :math:`o / l` and the log-sum-exp is :math:`m + \log l`. All exponentials are powers of
two, since a GPU has an instruction for those alone: :math:`e^s = 2^{s \log_2 e}`, with :math:`\log_2 e` folded into the
scale, where it costs nothing.

Source: Dao, "FlashAttention-2", 2023 (arXiv:2307.08691), algorithm 1; the online softmax is from Milakov & Gimelshein,
2018 (arXiv:1805.02867).
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from companion.kernels.flash_blocks import LN2, LOG2E, dot, load_rows, number_of_keys, parts, store_rows, visible

__all__: list[str] = []


# Numbers that change from call to call are not compiled in, or each would compile anew.
@triton.jit(do_not_specialize=["H", "G", "L", "S", "before", "after"])
@no_type_check
def forward_kernel(
    # Pointers: read (B, H, L, D), (B, G, S, D), (B, G, S, E); written (B, H, L, E), (B, H, L); read (B,) or None
    query, key, value, output, logsumexp, lengths,
    # Strides: how far apart two batch entries, heads and positions lie. Features lie side by side.
    query_b, query_h, query_l, key_b, key_g, key_s, value_b, value_g, value_s,
    # Numbers: query i, at position p = i + S − L, sees keys p − before … p + after
    H, G, L, S, before, after, scale,
    # Known when compiled. BLOCK_D and BLOCK_E are D and E, filled up to a power of two.
    D: tl.constexpr, E: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
    CAUSAL: tl.constexpr, INTERPRETED: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One program: ``BLOCK_L`` queries of one head, and all keys that they may see."""
    # Which queries are mine? The program's number counts blocks, then heads, then batch entries.
    blocks = tl.cdiv(L, BLOCK_L)
    block, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    if CAUSAL:
        block = blocks - 1 - block  # late queries see most: start them first, so that none is left over at the end
    b, h = (head // H).to(tl.int64), (head % H).to(tl.int64)  # 64 bits, since they meet strides
    g = h // (H // G)  # the key/value head that my query head shares
    keys = number_of_keys(lengths, b, S)

    # My queries stay with me: (BLOCK_L, BLOCK_D)
    i0 = block * BLOCK_L
    i = i0 + tl.arange(0, BLOCK_L)
    q = load_rows(query + b * query_b + h * query_h, query_l, i0, L, D, BLOCK_L, BLOCK_D, True)
    key += b * key_b + g * key_g
    value += b * value_b + g * value_g

    # From the first key that one of my queries sees to the last; inner: those that all of them see.
    p0, p1 = i0 + (S - L), tl.minimum(i0 + BLOCK_L, L) - 1 + (S - L)  # my first and last position
    first, last = tl.maximum(p0 - before, 0), tl.minimum(p1 + after + 1, keys)
    inner, outer = parts(first, last, p1 - before, tl.minimum(p0 + after + 1, keys), BLOCK_S)

    m = tl.full([BLOCK_L], float("-inf"), tl.float32)  # largest score so far
    total = tl.zeros([BLOCK_L], tl.float32)  # l: the sum of the exponentials
    o = tl.zeros([BLOCK_L, BLOCK_E], tl.float32)  # the sum of the values, each times its exponential
    for EDGE in tl.static_range(2):  # compiled twice: the inside (0), then what is left on both sides (1)
        start, end = inner, outer
        if EDGE:
            start, end = first, last - (outer - inner)
        for step in range(start, end, BLOCK_S):
            j0 = step
            if EDGE:
                j0 = tl.where(step < inner, step, step + (outer - inner))  # jump over the inside
            # Scores of my queries with the next keys, in units of log₂: (BLOCK_L, BLOCK_S)
            k = load_rows(key, key_s, j0, keys, D, BLOCK_S, BLOCK_D, EDGE)
            s = dot(q, tl.trans(k), INTERPRETED) * (scale * LOG2E)
            if EDGE:
                j = j0 + tl.arange(0, BLOCK_S)
                s = tl.where(visible(i[:, None], j[None, :], keys, L, S, before, after), s, float("-inf"))
            # The new largest score. While a query has seen nothing it is −∞, and −∞ − (−∞) would be NaN.
            m_new = tl.maximum(m, tl.max(s, 1))
            shift = tl.where(m_new == float("-inf"), 0.0, m_new)
            p = tl.exp2(s - shift[:, None])
            # What was summed under the old largest score shrinks to the new one.
            shrink = tl.exp2(m - shift)
            total = total * shrink + tl.sum(p, 1)
            v = load_rows(value, value_s, j0, keys, E, BLOCK_S, BLOCK_E, EDGE)
            o = o * shrink[:, None] + dot(p, v, INTERPRETED)
            m = m_new

    # Divide once, at the end. A query that saw nothing has total 0 and o 0, and gives zero; its log-sum-exp is −∞.
    total = tl.where(total == 0.0, 1.0, total)
    store_rows(output + (b * H + h) * L * E, o / total[:, None], i0, L, E, BLOCK_L, BLOCK_E)
    tl.store(logsumexp + (b * H + h) * L + i, (m + tl.log2(total)) * LN2, mask=i < L)
