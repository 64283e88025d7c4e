"""Practice for chapter 9: what else is in a block?"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.exercises.rule import near, same, softmax, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import SoftmaxExplorer

_scores = [1.0, 0.5, 0.0]
_largest = softmax(state("scores") / state("temperature")).max()


def _layer_norm(x: Tensor, eps: float) -> Tensor:
    return _normed(x, eps, -1)


def _normed(x: Tensor, eps: float, axis: int) -> Tensor:
    centred = x - x.mean(axis, keepdim=True)
    return centred / (centred.square().mean(axis, keepdim=True) + eps).sqrt()


def _sample(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + eps).sqrt()


def _outside(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + eps)


def _root_mean_square(x: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _whole(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean()) / (x.var(correction=0) + eps).sqrt()


def _inputs(generator: torch.Generator) -> list[tuple[Tensor, float]]:
    return [(1 + randn(generator, 3, 4), 0.1), (randn(generator, 2, 5, 6) - 0.5, 0.2), (randn(generator, 4, 4), 0.1)]


SET = Set(
    "ch09",
    "What else is in a block?",
    [
        Choice(
            "path",
            "In which of these does the stream x pass a block of one part f unchanged, whenever f returns zeros?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "post",
                    "norm(x + f(x))",
                    "That is post-LN. With f at zero it returns norm(x): the norm stands on the stream itself.",
                ),
                Right(
                    "pre",
                    "x + f(norm(x))",
                    "With f at zero, x is left. The norm stands on the reader's way, not on the stream.",
                ),
                Wrong(
                    "inside",
                    "norm(x) + f(norm(x))",
                    "Here what is added to has been normed already, and x itself appears nowhere.",
                ),
                Wrong("none", "f(norm(x))", "Without a sum, zeros from f are zeros for all that come after."),
            ],
        ),
        Number(
            "rms",
            "What does RMSNorm, with weight 1 and ε = 0, make of the first number of the row (3, 4, 0, 0)?",
            minutes=2,
            stars=1,
            within=0.005,
            answers=[
                Right("rms", 1.2, "The mean square is 25/4, its root 2.5, and 3 / 2.5 is 1.2."),
                Wrong(
                    "length",
                    0.6,
                    "That divides by the length of the row, 5. The squares are averaged over the four features.",
                ),
                Wrong(
                    "layer norm",
                    1.25 / 3.1875**0.5,
                    "That is LayerNorm, which takes the mean away first. RMSNorm leaves it.",
                ),
                Wrong(
                    "nonzero",
                    3 / 12.5**0.5,
                    "The zeros are features too: the mean square is over four numbers, not two.",
                ),
            ],
            hint="Square, take the mean of the four squares, then its root, and divide 3 by that.",
        ),
        Widget(
            "collapse",
            "Attention alone makes tokens alike fastest when its weights are equal. With the scores as they are, "
            "change the temperature until no key has more than .39 of the weight.",
            minutes=2,
            stars=1,
            figure=lambda: SoftmaxExplorer(scores=_scores),
            answers=[
                Wrong(
                    "moved scores",
                    ~same(state("scores"), _scores),
                    "You moved the scores. Press Reset: only the temperature is to change.",
                ),
                Right(
                    "flat",
                    _largest <= 0.39,
                    "Each token now receives nearly the plain mean of all: one layer, and little difference is left.",
                ),
                Wrong(
                    "colder",
                    state("temperature") < 1,
                    "Below 1 the temperature pulls scores apart, and one key takes more.",
                ),
                Wrong(
                    "not yet flat",
                    near(_largest, 0.45, 0.06),
                    "Flatter, but not flat enough: hotter still.",
                ),
            ],
            hint="Hot flattens, cold sharpens.",
        ),
        Code(
            "layer-norm",
            "Write `layer_norm(x, eps)`: LayerNorm without weight and bias, of x with shape (..., M), each token by "
            "itself.",
            function="layer_norm(x, eps)",
            minutes=8,
            stars=2,
            inputs=_inputs,
            answers=[
                Right("layer norm", _layer_norm, "Mean and variance of the features, and epsilon inside the root."),
                Wrong(
                    "over tokens",
                    lambda x, eps: _normed(x, eps, -2),
                    "That takes the mean over the tokens, so each token depends on the others. Use the last axis.",
                ),
                Wrong(
                    "over everything",
                    _whole,
                    "That is one mean and one variance for all the tokens: they would see each other through them.",
                ),
                Wrong(
                    "sample variance",
                    _sample,
                    "The variance is divided by M − 1, PyTorch's default for `var` and `std`. LayerNorm divides by M.",
                ),
                Wrong(
                    "epsilon outside",
                    _outside,
                    "Epsilon is added to the standard deviation. It belongs to the variance, inside the root.",
                ),
                Wrong(
                    "no mean",
                    _root_mean_square,
                    "The mean is still there: that is RMSNorm.",
                ),
            ],
            hint="Try the row (1, 3, 5, 7) with ε = 0: its mean is 4, its variance 5.",
        ),
    ],
)
