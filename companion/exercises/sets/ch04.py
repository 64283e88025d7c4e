"""Practice for chapter 4: what softmax does to scores, and to gradients."""

from __future__ import annotations

from torch import Tensor

from companion import stable_softmax
from companion.exercises.rule import same, softmax, sqrt, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import SoftmaxExplorer

_weights = softmax(state("scores"))
_squares = (_weights * _weights).sum()
# The squares of all entries of diag(a) − a aᵀ, added up.
_norm = sqrt(_squares - 2 * (_weights * _weights * _weights).sum() + _squares * _squares)


def off_by_one(z: Tensor) -> Tensor:
    """Softmax against a rival whose score is 0, stable."""
    m = z.amax(-1, keepdim=True).clamp(min=0)
    terms = (z - m).exp()
    return terms / ((-m).exp() + terms.sum(-1, keepdim=True))


def _one_is_kept(z: Tensor) -> Tensor:
    terms = (z - z.amax(-1, keepdim=True)).exp()
    return terms / (1 + terms.sum(-1, keepdim=True))


def _overflows(z: Tensor) -> Tensor:
    return z.exp() / (1 + z.exp().sum(-1, keepdim=True))


def _one_taken_off(z: Tensor) -> Tensor:
    return stable_softmax(z) - 1


SET = Set(
    "ch04",
    "Softmax",
    [
        Choice(
            "scale",
            "Scores of width 512 go into a library's softmax without the scale √D. What goes wrong?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "overflow",
                    "The exponentials overflow and the weights become NaN.",
                    "The library subtracts the row's largest score first, so no exponent is above zero: of 2,000 such "
                    "rows not one broke.",
                ),
                Right(
                    "sleep",
                    "One key takes nearly all, and hardly any gradient reaches the scores.",
                    "The lead decides: a weight near 1 makes diag(a) − a aᵀ nearly zero.",
                ),
                Wrong(
                    "sum",
                    "The weights no longer sum to one.",
                    "They are divided by their sum, whatever the scores are.",
                ),
                Wrong(
                    "order",
                    "The wrong key wins.",
                    "Dividing all scores by one number keeps their order. The scale is a temperature, and changes how "
                    "sharp the choice is, not which key wins.",
                ),
            ],
        ),
        Number(
            "slope",
            "The weights of a row are .7, .2, .1. By how much does the second weight change, for each unit of the "
            "first score?",
            minutes=3,
            stars=1,
            within=0.005,
            answers=[
                Right(
                    "slope",
                    -0.14,
                    "It is −.7 · .2: what the first key wins, the others pay in proportion to their weights.",
                ),
                Wrong(
                    "sign", 0.14, "The size is right. But the weights sum to 1: when the first wins, the second pays."
                ),
                Wrong("own", 0.16, "That is .2 · .8, the answer of the second weight to its own score."),
                Wrong("first", 0.21, "That is .7 · .3, the answer of the first weight to its own score."),
                Wrong(
                    "alone", 0.0, "The first score sits in the sum that divides every weight, so it moves all of them."
                ),
            ],
            hint="Off the diagonal the Jacobian is minus the product of the two weights.",
        ),
        Widget(
            "awake",
            "Four keys at temperature 1. Move the scores until the norm of the Jacobian is at least .49. "
            "How must the weights be shared?",
            minutes=4,
            stars=2,
            figure=lambda: SoftmaxExplorer(scores=[0.0, 0.0, 0.0, 0.0]),
            answers=[
                Wrong(
                    "colder",
                    ~same(state("temperature"), 1.0),
                    "The temperature divides the slopes too. Put it back to 1, and find weights that do it alone.",
                ),
                Right(
                    "torn",
                    _norm >= 0.49,
                    "Two keys share nearly everything, and alike. The norm cannot exceed one half.",
                ),
                Wrong(
                    "one-wins",
                    _weights.max() > 0.7,
                    "One key has most of the weight: it has little to gain, and the others little to lose.",
                ),
                Wrong(
                    "all-alike",
                    _weights.max() < 0.3,
                    "All are nearly alike: each has too little weight to give. With four keys that makes √3/4 = .43.",
                ),
                Wrong(
                    "rest-in-the-way",
                    _weights.max() < 0.48,
                    "The best keys leave too much to the others. Push those down, towards −8.",
                ),
            ],
            hint="Near. One of the two leads a little: bring their scores together, and push the others down.",
        ),
        Choice(
            "sink",
            "In a trained model a head puts .97 of its weight on the first token of every text. What follows?",
            minutes=1,
            stars=2,
            answers=[
                Wrong(
                    "important",
                    "The first token is what these texts are about.",
                    "A weight says how much of a value is taken, not how much that value says. It may be nearly zero.",
                ),
                Wrong(
                    "dead",
                    "The head is broken and can be removed together with that token.",
                    "It may be waiting for its case. And without the token its weight falls back on the others: the "
                    "output changes.",
                ),
                Right(
                    "perhaps-nothing",
                    "Perhaps that the head has nothing to hand over here; look at the length of that token's value.",
                    "The weights must sum to 1. A token with a nearly empty value is where they do no harm.",
                ),
                Wrong(
                    "saturated",
                    "Its scores are too large, and a larger √D would cure it.",
                    "A drain is learned, since it serves the loss."
                    " Flatter weights would pour other tokens into the output.",
                ),
            ],
        ),
        Code(
            "off-by-one",
            "Write `off_by_one(z)`: scores (…, S) in, weights exp(z) / (1 + Σ exp(z)) along the last axis out, right "
            "for scores of 800 and of −800 as well.",
            function="off_by_one(z)",
            minutes=15,
            stars=2,
            inputs=lambda g: [
                (randn(g, 3, 4),),
                (randn(g, 2, 3, 5) - 2,),
                (randn(g, 4) + 800,),
                (randn(g, 4) - 800,),
            ],
            answers=[
                Right("off-by-one", off_by_one, "The rival takes part in the maximum, and its 1 becomes exp(−m)."),
                Wrong(
                    "plain",
                    stable_softmax,
                    "These weights sum to 1: the rival is missing from the sum.",
                ),
                Wrong(
                    "one-is-kept",
                    _one_is_kept,
                    "You took the maximum off the scores, but left the 1 as it was. It is exp of the rival's score, "
                    "which moves with them.",
                ),
                Wrong(
                    "overflows",
                    _overflows,
                    "Right for small scores. At 800 the exponential is infinite: take a maximum off first.",
                ),
                Wrong(
                    "one-taken-off",
                    _one_taken_off,
                    "The 1 belongs into the sum below, not beside the fraction.",
                ),
            ],
            hint="With one score of 0 the weight must be one half.",
        ),
    ],
)
