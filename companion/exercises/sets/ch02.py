"""Practice for chapter 2: queries, keys, values."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from companion import scaled_dot_product_attention
from companion.exercises.rule import same, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import ProjectionExplorer

_TURN = [[0.0, 1.0], [-1.0, 0.0]]
_scores = (state("x") @ state("w_q")) @ (state("x") @ state("w_k")).T
_best = same(_scores[0].argmax(), 0) & same(_scores[1].argmax(), 1) & same(_scores[2].argmax(), 2)
_worst = same((-_scores[0]).argmax(), 0) & same((-_scores[1]).argmax(), 1) & same((-_scores[2]).argmax(), 2)
_TOKENS = [[1.2, 0.3], [-0.3, 1.2], [0.9, -1.0]]


def attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Self-attention of one sequence."""
    return scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v).output


def _mistake(
    scale: Callable[[Tensor, Tensor], float] = lambda x, q: q.shape[-1] ** -0.5,
    axis: int = -1,
    key: str = "w_k",
    value: str = "w_v",
    turned: bool = False,
) -> Callable[..., Tensor]:
    """Self-attention with one thing amiss."""

    def attend(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
        table = {"w_q": w_q, "w_k": w_k, "w_v": w_v}
        if turned:
            table = {name: w.T for name, w in table.items()}
        q, k = x @ table["w_q"], x @ table[key]
        v = x if value == "x" else x @ table[value]
        return (q @ k.T * scale(x, q)).softmax(axis) @ v

    return attend


SET = Set(
    "ch02",
    "Why three vectors and not one?",
    [
        Choice(
            "value",
            "A token's value vector is made ten times as long. How do the attention weights of this layer change?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "more",
                    "More weight goes to that token.",
                    "A token is found by its key. The value is handed over afterwards, and has no say in the weights.",
                ),
                Wrong(
                    "less",
                    "Less weight goes to that token, because the softmax evens it out.",
                    "The softmax sees scores, and scores are made of queries and keys. No value comes near it.",
                ),
                Right(
                    "same",
                    "They stay as they are; the outputs change.",
                    "The weights come from queries and keys alone. The outputs mix the values, so those do change.",
                ),
                Wrong(
                    "nothing",
                    "They stay as they are, and so do the outputs.",
                    "The weights do stay. But the outputs are weighted sums of the values, the long one among them.",
                ),
            ],
        ),
        Number(
            "second",
            "Keys (1, 0), (0, 1) and (1, 1); a query (0, 1); D = 2. How much weight goes to the key (0, 1)?",
            minutes=4,
            stars=1,
            within=0.004,
            answers=[
                Right("scaled", 0.4011, "The scores are 0, 0.7071, 0.7071, and the exponentials 1, 2.0281, 2.0281."),
                Wrong("no-scale", 0.4223, "That lacks the division by √2: the scores are 0, 0.7071, 0.7071."),
                Wrong("by-d", 0.3837, "That divides by D = 2. The scale is its root."),
                Wrong("plain", 0.5, "That divides the products by their sum. Take exponentials first: e⁰ is 1, not 0."),
                Wrong("other", 0.1978, "That is the weight of the key (1, 0), which the query does not match."),
            ],
            hint="Products 0, 1, 1. Divide by √2, take exponentials, divide by their sum.",
        ),
        Widget(
            "itself",
            "W_Q turns every token by a quarter. Set W_K, without the tie, so that every query scores its own "
            "token's key highest.",
            minutes=4,
            stars=2,
            figure=ProjectionExplorer,
            answers=[
                Wrong(
                    "moved",
                    ~same(state("x"), _TOKENS) | ~same(state("w_q"), _TURN),
                    "You changed the tokens or W_Q. Press Reset: W_K alone is to do it.",
                ),
                Wrong(
                    "tied",
                    same(state("tied"), True),
                    "The tie does it, by using W_Q for the keys. Switch it off, and find the matrix yourself.",
                ),
                Right(
                    "turned",
                    _best,
                    "If keys turn as queries do, the turn cancels in the product: W_Q times W_K transposed is what "
                    "counts.",
                ),
                Wrong(
                    "backwards",
                    _worst,
                    "Now each query scores its own key lowest: you turned the keys the other way. Change the signs.",
                ),
            ],
            hint="The score of two tokens is x W_Q (y W_K)ᵀ. What must W_Q W_Kᵀ be, if a token is to find itself?",
        ),
        Code(
            "attention",
            "Write self-attention: x (L, M), w_q and w_k (M, D), w_v (M, E) in, the outputs (L, E) out.",
            function="attention(x, w_q, w_k, w_v)",
            minutes=10,
            stars=2,
            inputs=lambda g: [
                (randn(g, 3, 4), randn(g, 4, 4) / 2, randn(g, 4, 4) / 2, randn(g, 4, 4)),
                (randn(g, 5, 6), randn(g, 6, 2) / 2, randn(g, 6, 2) / 2, randn(g, 6, 3)),
            ],
            answers=[
                Right("attention", attention, "Three projections, and then a soft lookup with the temperature √D."),
                Wrong(
                    "no scale",
                    _mistake(scale=lambda x, q: 1.0),
                    "The division by √D is missing, where D is the width of a query.",
                ),
                Wrong(
                    "root M",
                    _mistake(scale=lambda x, q: x.shape[-1] ** -0.5),
                    "That divides by the root of the tokens' width M. The product runs over D numbers: √D.",
                ),
                Wrong(
                    "over queries",
                    _mistake(axis=0),
                    "The softmax runs down the columns, over the queries. Each row is one query's choice.",
                ),
                Wrong(
                    "tied",
                    _mistake(key="w_q"),
                    "Queries and keys come from one matrix, w_q: the scores are symmetric, and looking is mutual.",
                ),
                Wrong(
                    "keys as values",
                    _mistake(value="w_k"),
                    "That mixes the keys. What is found by is not what is handed over: use w_v.",
                ),
                Wrong(
                    "bare values",
                    _mistake(value="x"),
                    "That mixes the tokens themselves: w_v is not used.",
                ),
                Wrong(
                    "matrices turned",
                    _mistake(turned=True),
                    "The matrices are transposed, as nn.Linear stores them. Here a row of x times w_q is a query.",
                ),
                Wrong(
                    "square root of M D",
                    _mistake(scale=lambda x, q: 1 / math.sqrt(x.shape[-1] * q.shape[-1])),
                    "That divides by √(M · D). Only the D numbers of a query are summed in the product.",
                ),
            ],
            hint="Print the shapes of q, k and v first: (L, D), (L, D), (L, E).",
        ),
    ],
)
