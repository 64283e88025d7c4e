"""Practice for chapter 12: does ours run the real ones?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from companion.exercises.rule import same, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.minilm import mean_pool
from companion.widgets import HeadView

_head, _token = state("head"), state("token")
_query = same(state("side"), "query")
_TOKENS = ["[CLS]", "the", "dog", "barked", "all", "night", "[SEP]"]


def _three() -> HeadView:
    """A head that rests on the first token, one that is even, one that looks at the token before."""
    length = len(_TOKENS)
    scores = torch.zeros(1, 3, length, length, dtype=torch.float64)
    scores[0, 0, :, 0] = 4.0
    for i in range(length):
        scores[0, 2, i, max(i - 1, 0)] = 12.0
    return HeadView(_TOKENS, torch.softmax(scores, -1))


def _inputs(generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    right = torch.tensor([[True, True, True, False], [True, False, False, False]])
    left = torch.tensor([[False, True, True], [True, True, True], [False, False, True]])
    return [(randn(generator, 2, 4, 6), right), (randn(generator, 3, 3, 5), left)]


def _mean(hidden: Tensor, real: Tensor) -> Tensor:
    return F.normalize(mean_pool(hidden, real), dim=-1)


def _padded(hidden: Tensor, real: Tensor) -> Tensor:
    return F.normalize(hidden.mean(1), dim=-1)


def _raw(hidden: Tensor, real: Tensor) -> Tensor:
    return mean_pool(hidden, real)


def _first(hidden: Tensor, real: Tensor) -> Tensor:
    return F.normalize(hidden[:, 0], dim=-1)


def _each(hidden: Tensor, real: Tensor) -> Tensor:
    return mean_pool(F.normalize(hidden, dim=-1), real)


SET = Set(
    "ch12",
    "Does ours run the real ones?",
    [
        Choice(
            "sink",
            "Twelve heads give half of their weight to the first token, whatever stands there. What do you look at "
            "before you say that it matters?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "more sentences",
                    "the same weights in more sentences",
                    "That tells whether it is always so. It was known already, and says nothing of what arrives.",
                ),
                Right(
                    "values",
                    "the length of its value beside the others', or the output without it",
                    "A weight is one factor, the value the other. In MiniLM the first token's is near zero.",
                ),
                Wrong(
                    "average",
                    "the mean of the twelve tables",
                    "A mean of tables that rest on one token rests there too. No value has been looked at.",
                ),
                Wrong(
                    "entropy",
                    "the entropy of the rows",
                    "Entropy says how even the weights are, not what is handed over.",
                ),
            ],
        ),
        Number(
            "rms",
            "RMSNorm without weights, ε = 0, of the features (3, 4, 0). What is the second output?",
            minutes=3,
            stars=1,
            within=0.01,
            answers=[
                Right("rms", 4 / (25 / 3) ** 0.5, "The mean square is 25/3, its root 2.887; 4 / 2.887 = 1.386."),
                Wrong(
                    "length",
                    0.8,
                    "That divides by the vector's length, 5. The root is of the mean, not of the sum.",
                ),
                Wrong(
                    "layer",
                    (4 - 7 / 3) / (26 / 9) ** 0.5,
                    "That is LayerNorm: it subtracts the mean first. RMSNorm does not.",
                ),
                Wrong("mean", 12 / 7, "That divides by the mean, 7/3. Square first, and take the root of the mean."),
            ],
            hint="Square, take the mean, take the root. Divide 4 by it.",
        ),
        Widget(
            "healthy",
            "Somebody deletes each head whose mean entropy is below 0.1. Find the head that would go, and show "
            "where “night” looks in it.",
            minutes=2,
            stars=1,
            figure=_three,
            answers=[
                Right(
                    "found",
                    same(_head, 2) & same(_token, 5) & _query,
                    "All its weight is on the token before: no entropy, and in perfect health.",
                ),
                Wrong(
                    "as key",
                    same(_head, 2) & same(_token, 5),
                    "The right head and word, but these lines show who looks at it. Choose the query's side.",
                ),
                Wrong(
                    "other word",
                    same(_head, 2),
                    "This is the head. Now choose “night”, token 5 if counted from 0.",
                ),
                Wrong(
                    "even",
                    same(_head, 1),
                    "This head gives all tokens the same weight: that is the largest entropy there is.",
                ),
                Wrong(
                    "sink",
                    same(_head, 0) & ~same(_token, 0),
                    "This head rests on [CLS], but a tenth of its weight is spread over the others: its entropy is "
                    "about half a nat.",
                ),
            ],
            hint="Entropy is near zero where each row has one weight near 1. There is one such head.",
        ),
        Choice(
            "converted",
            "You loaded a checkpoint into your own model. It finds the right paraphrase in 12 of 12 cases. Is the "
            "conversion right?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "yes",
                    "yes: a wrong one could not solve the task",
                    "In the chapter all six W_O were transposed, and 12 of 12 were still found.",
                ),
                Wrong(
                    "more cases",
                    "only if it also solves a thousand cases",
                    "The wrong GELU solves them all too. A task measures what the task needs.",
                ),
                Wrong(
                    "strict",
                    "yes, if the loader reported no missing names and no wrong shapes",
                    "A transposed square matrix has the right name and the right shape; and the epsilon has no name.",
                ),
                Right(
                    "outputs",
                    "only a comparison of outputs with the original's can tell",
                    "Number by number, to five decimals, with padding in the batch.",
                ),
            ],
        ),
        Code(
            "pool",
            "Write `pool(hidden, real)`: vectors (B, L, M) and booleans (B, L), True for a real token, in; sentence "
            "vectors (B, M) of length 1 out: the mean of the real tokens, normalised.",
            function="pool(hidden, real)",
            minutes=8,
            stars=2,
            inputs=_inputs,
            answers=[
                Right("pool", _mean, "Real tokens only, and then the length."),
                Wrong(
                    "padding too",
                    _padded,
                    "The padding is in the mean, so a text's vector depends on what else is in its batch.",
                ),
                Wrong("not normalised", _raw, "The mean is right, but not of length 1: long vectors would win."),
                Wrong(
                    "first token",
                    _first,
                    "That is the vector of the first place. This model was trained with the mean.",
                ),
                Wrong(
                    "normalised before",
                    _each,
                    "Each token was brought to length 1, and then the mean taken: it is shorter than 1, and points "
                    "elsewhere.",
                ),
            ],
            hint="Sum over L with the padding set to zero. Dividing by the count changes only the length.",
        ),
    ],
)
