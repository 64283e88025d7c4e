"""Practice for chapter 3: why the root of the width."""

from __future__ import annotations

from torch import Tensor

from companion import stable_softmax
from companion.exercises import diagnose
from companion.exercises.rule import near, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import ScalingExplorer


def weights(q: Tensor, k: Tensor) -> Tensor:
    """Of each head: ``(H, L, D)`` and ``(H, S, D)`` to ``(H, L, S)``."""
    return stable_softmax(q @ k.mT / q.shape[-1] ** 0.5)


def _by(axis: int, q: Tensor, k: Tensor) -> Tensor:
    return stable_softmax(q @ k.mT / q.shape[axis] ** 0.5)


def _model_width(q: Tensor, k: Tensor) -> Tensor:
    return stable_softmax(q @ k.mT / (q.shape[0] * q.shape[-1]) ** 0.5)


SET = Set(
    "ch03",
    "Why √D",
    [
        Choice(
            "fold",
            "The factor 1/√D is put into W_Q at the start, and the division left out: the same function. Why did this "
            "model fail, trained by Adam at the rate at which the divided one learns?",
            minutes=3,
            stars=2,
            answers=[
                Wrong(
                    "vanishing",
                    "Its gradient into W_Q is too small from the start.",
                    "By the chain rule it is √D times larger, and Adam would not mind a small one.",
                ),
                Wrong(
                    "start",
                    "Its scores are saturated from the start.",
                    "At the start both models have the same scores. Saturation comes with the first steps.",
                ),
                Wrong(
                    "overflow",
                    "Its exponentials overflow.",
                    "The softmax subtracts the largest score before it takes exponentials: nothing can overflow.",
                ),
                Right(
                    "steps",
                    "Each of its steps moves the scores √D times as far.",
                    "Adam moves every entry by about the learning rate, and nothing divides that move any more.",
                ),
            ],
        ),
        Number(
            "spread",
            "Query entries have variance 4, key entries variance 1, all independent with mean 0, and D = 100. "
            "What is the standard deviation of q · k, undivided?",
            minutes=3,
            stars=1,
            within=0.5,
            answers=[
                Right("spread", 20.0, "Each product has variance 4, a hundred have 400, and the root of 400 is 20."),
                Wrong("root of D", 10.0, "That is √D, for entries of variance 1. These products have variance 4 each."),
                Wrong("variance", 400.0, "That is the variance. Its root is the standard deviation."),
                Wrong(
                    "variance times root",
                    40.0,
                    "That is variance times √D. Variances add up; the root comes at the end, √(4 · 100).",
                ),
                Wrong("divided", 1.0, "That would be after a division. The question asks for the raw dot product."),
            ],
            hint="Add the variances of the hundred products, then take the root.",
        ),
        Widget(
            "sixteen",
            "Set the width at which undivided scores are expected to spread by 16.",
            minutes=2,
            stars=1,
            figure=lambda: ScalingExplorer(width=4),
            answers=[
                Wrong(
                    "divided",
                    state("scaled"),
                    "With the box ticked scores spread by 1 at every width. Untick it.",
                ),
                Right(
                    "root",
                    near(state("width"), 256, 0.5),
                    "The spread is √D, and √256 is 16.",
                ),
                Wrong(
                    "linear",
                    near(state("width"), 16, 0.5),
                    "At 16 the spread is 4. It grows with the root of the width, not with the width.",
                ),
            ],
            hint="The spread is √D. Which D has the root 16?",
        ),
        Code(
            "weights",
            "Write `weights(q, k)`: queries (H, L, D) and keys (H, S, D) in, weights (H, L, S) out. There is no mask.",
            function="weights(q, k)",
            minutes=8,
            stars=2,
            inputs=lambda g: [
                (randn(g, 2, 3, 4), randn(g, 2, 5, 4)),
                (randn(g, 3, 6, 8), randn(g, 3, 4, 8)),
            ],
            answers=[
                Right("weights", weights, "Divided by the root of the head's width, the last axis."),
                *diagnose.weights("no scale", "scale by D", "over queries"),
                Wrong(
                    "root of the model",
                    _model_width,
                    "You divided by √(H · D), the root of the model's width. The sum has D terms, those of one head.",
                ),
                Wrong(
                    "root of the length",
                    lambda q, k: _by(-2, q, k),
                    "You took the length for the width: q is (H, L, D), and D is its last axis. "
                    "Your weights change when a query is added.",
                ),
                Wrong(
                    "root of the heads",
                    lambda q, k: _by(0, q, k),
                    "You divided by the root of the number of heads, the first axis. The width is the last.",
                ),
            ],
            hint="Scores q @ k.mT, divided by the root of the width of one head, then a softmax over the keys.",
        ),
    ],
)
