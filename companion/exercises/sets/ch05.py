"""Practice for chapter 5: the five steps of attention."""

from __future__ import annotations

import torch
from torch import Tensor

from companion import scaled_dot_product_attention
from companion.exercises import diagnose
from companion.exercises.rule import same, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import StepThrough


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The output of the reference."""
    return scaled_dot_product_attention(q, k, v, mask).output


def _over_width(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The number of keys under the root."""
    return scaled_dot_product_attention(q, k, v, mask, scale=k.shape[-2] ** -0.5).output


def _unmasked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v).output


def _causal_instead(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, torch.ones_like(mask).tril()).output


SET = Set(
    "ch05",
    "Scaled dot-product attention",
    [
        Choice(
            "axis",
            "The table of scores has a row for each query and a column for each key. Along what does the softmax sum?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "queries",
                    "Down each column, over the queries.",
                    "Then each column sums to one: a key shares itself out among the queries, and a query may be left "
                    "with nothing.",
                ),
                Right(
                    "keys",
                    "Along each row, over the keys.",
                    "A row is one query's choice among the keys, and its shares sum to one.",
                ),
                Wrong(
                    "both",
                    "Over the whole table.",
                    "Then one unit of attention is shared by all queries together, and every output shrinks.",
                ),
                Wrong(
                    "features",
                    "Over the D numbers of a query.",
                    "Those are gone by then: the dot product has summed over them.",
                ),
            ],
        ),
        Number(
            "masked",
            "A row of weights is .2, .3, .4, .1. Now the last two keys are masked. What is the weight of the first?",
            minutes=2,
            stars=1,
            within=0.005,
            answers=[
                Right("shared-in-proportion", 0.4, "The two that are left keep their ratio 2 : 3, and sum to one."),
                Wrong("kept", 0.2, "Then the row sums to .5. That is what a mask after the softmax gives."),
                Wrong("shared-evenly", 0.45, "That shares what became free evenly. It goes in proportion: .2/.5."),
                Wrong("half", 0.5, "Two keys are left, but their scores still differ: they keep their ratio 2 : 3."),
                Wrong("second", 0.6, "That is the weight of the second key."),
            ],
            hint="The exponentials of the keys that remain do not change, only the sum that divides them.",
        ),
        Widget(
            "spared",
            "Switch the causal mask on, and pick a weight that the mask left as it was.",
            minutes=3,
            stars=2,
            figure=StepThrough,
            answers=[
                Wrong(
                    "no mask",
                    same(state("causal"), False),
                    "The causal mask is off. Switch it on, and watch which rows of the weights change.",
                ),
                Wrong(
                    "other table",
                    ~same(state("step"), "weights"),
                    "You picked a number of another table. The weights come after the mask.",
                ),
                Right(
                    "last row",
                    same(state("row"), 2),
                    "The last query sees every key, so nothing in its row was hidden, and nothing was passed on.",
                ),
                Wrong(
                    "hidden",
                    state("column") > state("row"),
                    "That weight went to 0: the key comes later than the query.",
                ),
                Wrong(
                    "grown",
                    state("row") < 2,
                    "That one grew. Its row lost a key, and the keys that remain share what it had.",
                ),
            ],
            hint="Compare the weights with the mask off and on, row by row.",
        ),
        Code(
            "attention",
            "Write attention for one head: q (L, D), k (S, D), v (S, E) and a boolean mask (L, S), True where a query "
            "may attend, in; the output (L, E) out.",
            function="attention(q, k, v, mask)",
            minutes=10,
            stars=2,
            inputs=lambda g: [
                (
                    randn(g, 4, 4),
                    randn(g, 4, 4),
                    randn(g, 4, 3),
                    torch.tensor([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]).bool(),
                ),
                (
                    randn(g, 2, 9),
                    randn(g, 5, 9),
                    randn(g, 5, 2),
                    torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 0]]).bool(),
                ),
            ],
            answers=[
                Right("attention", attention, "Score, scale, mask, softmax over the keys, weighted sum."),
                *diagnose.attention(
                    "no scale",
                    "scale by D",
                    "multiplied by root D",
                    "model width",
                    "over queries",
                    "scaled after softmax",
                    "softmax twice",
                    "inverted mask",
                    "masked after softmax",
                    "masked with zero",
                    "keys not transposed",
                ),
                Wrong("no mask", _unmasked, "The mask is not used: every query sees every key."),
                Wrong(
                    "causal instead",
                    _causal_instead,
                    "You used a causal mask of your own. The one you are given may be any table.",
                ),
                Wrong(
                    "root of the length",
                    _over_width,
                    "That divides by the root of the number of keys. The scale is that of the product's sum: √D.",
                ),
            ],
            hint="Take the five steps one at a time, and print each for one query and two keys.",
        ),
    ],
)
