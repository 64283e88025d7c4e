"""What can be wrong with attention: each fault's name, likely cause, the line of maths it breaks, and its chapter."""

from __future__ import annotations

from typing import NamedTuple

__all__: list[str] = []

CHAPTERS = {
    3: ("03-scaling", "Why √d?"),
    4: ("04-softmax", "What does softmax do to scores, and to gradients?"),
    5: ("05-scaled-dot-product-attention", "The five steps, whole"),
    6: ("06-masks", "Who may look at whom?"),
    7: ("07-multi-head", "Why several heads?"),
    8: ("08-positions", "How does it know order?"),
    11: ("11-language-models", "GPT and BERT"),
    14: ("14-on-the-gpu", "What does the hardware want?"),
    17: ("17-field-guide", "It does not work: why?"),
}
"""Number: file and question."""


class Fault(NamedTuple):
    """One thing that can be wrong.

    Attributes:
        name: by which tests and scripts know it.
        title: a few words.
        cause: what most likely did it, and what to write instead.
        equation: what should hold.
        chapter: which chapter explains it.
    """

    name: str
    title: str
    cause: str
    equation: str
    chapter: int


_ATTENTION = "O = softmax(Q Kᵀ/√D) V"
_ROWS = "Σⱼ Aᵢⱼ = 1 for each query i"
_MASK = "Aᵢⱼ = 0 where query i may not attend to key j, whatever key j holds"
_CAUSAL = "Aᵢⱼ = 0 for j > i, and Aᵢᵢ > 0"
_SCALE = "A = softmax(Q Kᵀ/√D), D the width of a head"
_HEADS = "head h of token t is xₜ[h·D : (h + 1)·D]"

_ALL = (
    Fault(
        "nan-at-once",
        "NaN for finite input",
        "an infinity minus an infinity, or a division by zero, before any mask is given",
        _ATTENTION,
        17,
    ),
    Fault(
        "dropout-in-eval",
        "random in eval mode",
        "dropout runs without asking self.training: F.dropout(a, p) drops always, F.dropout(a, p, self.training) does "
        "not; the dropout_p of F.scaled_dot_product_attention must be 0 in eval",
        "eval: Oᵢ = Σⱼ Aᵢⱼ vⱼ, no weight dropped, the same at each call",
        17,
    ),
    Fault(
        "remembers",
        "depends on earlier calls",
        "the module keeps something from call to call, such as a cache, without being asked",
        "f(x) = f(x): one input, one output",
        11,
    ),
    Fault(
        "input-overwritten",
        "writes into its input",
        "an operation in place on the input itself, such as x *= s, x += pe or x.masked_fill_(...): write x = x * s, "
        "which makes a new tensor. x[...] = y writes too",
        "x + f(x) adds the x that came in",
        17,
    ),
    Fault(
        "batch-mixing",
        "batch entries see each other",
        "a view, reshape or transpose takes the batch axis for another: attention over (L, B, M) that was given "
        "(B, L, M), or heads folded into the batch in one order and unfolded in another",
        "O[b] depends on x[b] alone",
        7,
    ),
    Fault(
        "positions-over-batch",
        "positions run over the batch axis",
        "positions counted by x.size(0) of an x that is (B, L, M), as in x + pe[: x.size(0)]: each batch entry gets "
        "one position, and its tokens all the same",
        "token t of every entry is at position t",
        8,
    ),
    Fault(
        "heads-split",
        "heads cut positions, not features",
        "x.view(B, H, L, D): write x.view(B, L, H, D).transpose(1, 2)",
        _HEADS,
        7,
    ),
    Fault(
        "heads-merge",
        "heads merged without putting the tokens first",
        "out.reshape(B, L, M) of an out that is (B, H, L, D): write out.transpose(1, 2).reshape(B, L, M)",
        "yₜ = concat(o¹ₜ, …, oᴴₜ) W_O: token t's own outputs",
        7,
    ),
    Fault(
        "heads-mixed",
        "one head's output depends on another head",
        "an axis of the product, of the softmax or of a sum runs over the heads",
        "Oʰ = softmax(Qʰ Kʰᵀ/√D) Vʰ: each head by itself",
        7,
    ),
    Fault(
        "softmax-over-queries",
        "softmax along the wrong axis",
        "softmax over dim=-2, or without a dim: the columns sum to one and the rows do not. Write softmax(dim=-1) of "
        "scores (…, L, S)",
        _ROWS,
        5,
    ),
    Fault(
        "softmax-twice",
        "softmax taken twice",
        "the softmax of weights in place of scores, which flattens them: no weight exceeds e times another",
        "A = softmax(Q Kᵀ/√D), once",
        4,
    ),
    Fault(
        "rows-sum",
        "weights do not sum to one",
        "the weights are changed after the softmax, or not normalised",
        _ROWS,
        4,
    ),
    Fault(
        "mask-after-softmax",
        "masked after the softmax",
        "the softmax gives weight to hidden keys too, and the mask then takes it away: set the hidden scores to −∞ "
        "before the softmax",
        "A = softmax(S + m), mᵢⱼ = −∞ where hidden; then " + _ROWS,
        6,
    ),
    Fault(
        "mask-polarity",
        "mask the wrong way round",
        "True was taken for hidden where it means may attend, or the other way: F.scaled_dot_product_attention attends "
        "where True, nn.MultiheadAttention and masked_fill hide where True. triu is not tril",
        _MASK,
        6,
    ),
    Fault(
        "no-attention",
        "no token sees another",
        "it is no attention, or a mask hides everything",
        _ATTENTION,
        5,
    ),
    Fault(
        "causal-off-by-one",
        "causal mask off by one",
        "the diagonal: tril(diagonal=0) is right. With 1 a token sees the next, which it should predict; with -1 it "
        "does not see itself, and the first token sees nothing",
        _CAUSAL,
        6,
    ),
    Fault(
        "future-leak",
        "the future leaks",
        "no causal mask reaches the scores, or it hides with a number that is not small enough",
        _CAUSAL,
        6,
    ),
    Fault(
        "causal-alignment",
        "causal mask aligned to the first key",
        "with fewer queries than keys, as with a cache, the last query must stand at the last key: is_causal=True of "
        "F.scaled_dot_product_attention counts from the first",
        "query i of L sees keys j ≤ S − L + i",
        11,
    ),
    Fault(
        "padding-leak",
        "hidden keys leak",
        "what should be hidden is multiplied or filled with a number in place of −∞, or the mask is not used at all",
        _MASK,
        6,
    ),
    Fault(
        "mask-on-queries",
        "padding mask on the query axis",
        "mask[:, None, :, None] hides the padded queries and leaves the padded keys: write mask[:, None, None, :]",
        _MASK,
        6,
    ),
    Fault(
        "wrong-padding",
        "cross-attention takes the queries' padding",
        "keys and values come from the context, so its mask (B, S) must hide them, never that of x (B, L)",
        "Aᵢⱼ = 0 where token j of the context is padding",
        6,
    ),
    Fault(
        "empty-row",
        "a query that may see nothing",
        "−∞ in all of a row gives 0/0 = NaN, and a large finite number gives each hidden key 1/S: set the weights of "
        "such a row to zero",
        "Oᵢ = 0 where query i may attend to nothing",
        6,
    ),
    Fault(
        "fill-overflow",
        "the fill value does not fit half precision",
        "a fill such as −1e9 is beyond float16, which ends at 65504: fill with float('-inf') or "
        "torch.finfo(scores.dtype).min",
        "m = −∞ where hidden, in every dtype",
        14,
    ),
    Fault(
        "half-overflow",
        "half precision overflows",
        "scores too large for float16 (65504): scale the query before the product, and take the softmax in float32",
        _ATTENTION,
        14,
    ),
    Fault(
        "gqa-order",
        "key/value heads in the wrong order",
        "repeat (or expand and reshape in the wrong order) tiles the heads 0 1 0 1: repeat_interleave gives 0 0 1 1",
        "query head h uses key/value head ⌊h / (H/G)⌋",
        7,
    ),
    Fault(
        "cache-offset",
        "positions start anew at each step",
        "with a cache, the new tokens' positions go on where it ends: arange(seen, seen + L), not arange(L)",
        "token t is at position t, cached or not",
        11,
    ),
    Fault(
        "position-off-by-one",
        "cached positions off by a constant",
        "the new token's position is counted before or after the cache has grown: the first new one is at `seen`",
        "token t is at position t, cached or not",
        11,
    ),
    Fault(
        "cached-differs",
        "cached is not uncached",
        "what the cache holds, or who may see it, is not what the whole sequence would give",
        "step by step with a cache = all at once",
        11,
    ),
    Fault(
        "scale-sqrt-d-model",
        "scaled by √d_model",
        "the scores are dot products of D terms, not of d_model: divide by the square root of query.shape[-1]",
        _SCALE,
        3,
    ),
    Fault("scale-missing", "not scaled", "the division by √D is missing", _SCALE, 3),
    Fault("scale-1-over-d", "scaled by 1/D", "the square root is missing: divide by √D, not by D", _SCALE, 3),
    Fault("scale-other", "another scale", "the scores are multiplied by something else than 1/√D", _SCALE, 3),
    Fault(
        "not-equivariant",
        "order matters without positions",
        "something depends on where a token stands",
        "f(P x) = P f(x) for each permutation P of the tokens",
        8,
    ),
    Fault(
        "positions-missing",
        "order does not matter, and should",
        "positions are not added, are the same for each token, or run along another axis, such as the heads: rotate "
        "(B, H, L, D) along L, after the transpose",
        "f(P x) ≠ P f(x) for a permutation P of the tokens",
        8,
    ),
    Fault(
        "gradient-nan",
        "gradients are not finite",
        "a NaN that a later step covers up still comes back in the gradient: 0 times NaN is NaN",
        "∂O/∂x is finite",
        6,
    ),
)

FAULTS = {fault.name: fault for fault in _ALL}
