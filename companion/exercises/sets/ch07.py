"""Practice for chapter 7: why several heads?"""

from __future__ import annotations

import torch
from torch import Tensor

from companion import split_heads
from companion.exercises import diagnose
from companion.exercises.rule import same, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import HeadView

_layer, _head, _token = state("layer"), state("head"), state("token")
_repeat = same(_layer, 0) & same(_head, 1)
_query = same(state("side"), "query")


def _inputs(generator: torch.Generator) -> list[tuple[Tensor, int]]:
    return [(randn(generator, 2, 3, 8), 4), (randn(generator, 3, 6, 4), 2), (randn(generator, 1, 5, 6), 3)]


SET = Set(
    "ch07",
    "Why several heads?",
    [
        Choice(
            "order",
            "In `MultiHeadAttention`, what does head 1 of 4 read of a token that is 64 numbers wide?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "a quarter",
                    "numbers 16 to 31 of the token",
                    "That is splitting before the projection, with a small matrix for each head. Here W_Q reads all "
                    "numbers, and its columns are dealt out afterwards.",
                ),
                Right(
                    "all",
                    "all 64, through 16 columns of each projection",
                    "The projection comes first and reads the whole token; what is split is its result.",
                ),
                Wrong(
                    "positions",
                    "all 64, of every fourth token",
                    "Heads cut features, never positions. Each head sees all the tokens.",
                ),
                Wrong(
                    "own layer",
                    "all 64, through three 64 × 64 matrices of its own",
                    "Then four heads would have four times the parameters. They share the columns of one matrix.",
                ),
            ],
        ),
        Number(
            "third",
            "Each person must write down three cards (independent numbers of variance 1), and a layer of one head "
            "gives them equal shares. What mean error is left, at best?",
            minutes=5,
            stars=2,
            within=0.01,
            answers=[
                Right("two thirds", 2 / 3, "The mean of three has variance 1/3, and recovers 1/3 of each card."),
                Wrong(
                    "half",
                    0.5,
                    "That is the answer for two cards. Each place can recover p² / (p² + p² + p²) of its card.",
                ),
                Wrong(
                    "one third",
                    1 / 3,
                    "That is what can be recovered. The error is what is left.",
                ),
                Wrong(
                    "nothing",
                    0.0,
                    "Three cards are 24 numbers, and what arrives from one head is a mixture of 8.",
                ),
            ],
            hint="With w times the mean of the three, a place misses by (w/3 − 1)² + 2 (w/3)². Take the best w.",
        ),
        Widget(
            "same-word",
            "Each of the four heads does one thing. Find the head in which a word looks for its own repetitions, and "
            "show the lines of the second “the” as a query.",
            minutes=2,
            stars=1,
            figure=lambda: HeadView(),
            answers=[
                Right(
                    "found",
                    _repeat & same(_token, 4) & _query,
                    "The weights are high on both “the”s, and alike elsewhere: position plays no part.",
                ),
                Wrong(
                    "as key",
                    _repeat & same(_token, 4),
                    "The right head and word, but these lines show who looks at it. Choose the query's side.",
                ),
                Wrong(
                    "other word",
                    _repeat,
                    "This is the head. Now choose the second “the”, token 4 if counted from 0.",
                ),
                Wrong(
                    "before",
                    same(_layer, 0) & same(_head, 0) & ~same(_token, 0),
                    "This head looks one place back, whatever the word: a line beside the diagonal.",
                ),
                Wrong(
                    "near",
                    same(_layer, 1) & same(_head, 0),
                    "This head looks at what stands near, a band along the diagonal. It does not see which word it is.",
                ),
                Wrong(
                    "alike",
                    same(_layer, 1) & same(_head, 1),
                    "This head gives all tokens the same weight. All words are one to it.",
                ),
            ],
            hint="Only “the” occurs twice. Look for a head whose table has a mark far from the diagonal.",
        ),
        Code(
            "split",
            "Write `split(x, num_heads)`: features (B, L, M) in, one set of narrow rows a head out, (B, H, L, D) with "
            "D = M / H.",
            function="split(x, num_heads)",
            minutes=10,
            stars=2,
            inputs=_inputs,
            answers=[
                Right("split", split_heads, "Features are cut, and the heads moved in front of the positions."),
                *diagnose.heads("view without transpose", "interleaved", "positions first"),
            ],
            hint="Number a (1, 3, 4) tensor through from 0 to 11: head 0 must hold 0 1, 4 5, 8 9.",
        ),
    ],
)
