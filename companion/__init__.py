"""``companion``: attention, from the lookup to the Transformer, as the book *Paying Attention* explains it.

The handful of names that most chapters use; everything else is one import further, in the file named after its idea.
"""

from companion.attention import (
    merge_heads,
    repeat_kv,
    scaled_dot_product_attention,
    softmax_jacobian,
    split_heads,
    stable_softmax,
)
from companion.backends import attend, available, chosen, why_not
from companion.masks import Mask, causal, document, padding, sliding_window
from companion.multihead import MultiHeadAttention
from companion.typing import AttentionOutput

__version__ = "0.1.0"

__all__ = [
    "AttentionOutput",
    "Mask",
    "MultiHeadAttention",
    "attend",
    "available",
    "causal",
    "chosen",
    "document",
    "merge_heads",
    "padding",
    "repeat_kv",
    "scaled_dot_product_attention",
    "sliding_window",
    "softmax_jacobian",
    "split_heads",
    "stable_softmax",
    "why_not",
]
