"""Practice for chapter 8: how does it know order?"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.exercises.rule import same, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.widgets import PositionExplorer


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Half-split: feature c turns with feature c + D/2."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


def _neighbours(x: Tensor, angles: Tensor) -> Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(turned, dim=-1).flatten(-2)


def _no_swap(x: Tensor, angles: Tensor) -> Tensor:
    return x * torch.cat([angles.cos(), angles.cos()], dim=-1)


def _mirror(x: Tensor, angles: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() + b * angles.sin(), a * angles.sin() - b * angles.cos()], dim=-1)


def _added(x: Tensor, angles: Tensor) -> Tensor:
    return x + torch.cat([angles.sin(), angles.cos()], dim=-1)


def _cases(generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    return [(randn(generator, 3, 4), randn(generator, 3, 2)), (randn(generator, 5, 8), randn(generator, 5, 4))]


_distance = state("key_position") - state("position")
_rotary = same(state("view"), "rotary")
_vectors = same(state("query"), [1.5, 0.5]) & same(state("key"), [1.3, 1.1])
_hands = same(state("pair"), 3) & same(state("width"), 32) & same(state("base"), 10_000)

SET = Set(
    "ch08",
    "How does it know order?",
    [
        Choice(
            "shuffled",
            "An encoder without positions reads a sentence, and then the same words in another order. What becomes of "
            "its outputs, one for each word?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "invariant",
                    "Row for row they are the same as before.",
                    "That would be invariance. Row 0 now belongs to another word, and holds that word's output.",
                ),
                Right(
                    "equivariant",
                    "Each word keeps its output, which has moved with it.",
                    "Equivariance: the rows are shuffled as the words were.",
                ),
                Wrong(
                    "changed",
                    "Each word gets another output, for it has other neighbours.",
                    "Without positions there are no neighbours, only other words, and these are still the same.",
                ),
                Wrong(
                    "mean",
                    "Only their mean changes.",
                    "The mean is what does not change at all: it does not care in which order the rows come.",
                ),
            ],
        ),
        Number(
            "quarter-turn",
            "One pair of features makes a quarter turn a place: (a, b) becomes (−b, a). The query (2, 1) stands at "
            "place 2, the key (1, 2) at place 3. What is their score under RoPE, before the scale?",
            minutes=3,
            stars=1,
            within=0.2,
            answers=[
                Right(
                    "relative", -3, "The distance is 1: turn the key once, (−2, 1), and take the product with (2, 1)."
                ),
                Wrong("unturned", 4, "That is the product before any turn. The key stands one place further on."),
                Wrong(
                    "key alone",
                    3,
                    "That turns the key by all of its three places. The query turns as well, by two, and only the "
                    "difference is left.",
                ),
                Wrong("query alone", -4, "That turns the query and forgets the key. Both turn, each by its own place."),
            ],
            hint="Turn the query twice, (−2, −1), and the key three times. Then multiply and add.",
        ),
        Widget(
            "same-score",
            "Note the score. Then bring the query to another position, and get exactly the same score again: by "
            "moving query and key, and without “move both by”.",
            minutes=3,
            stars=1,
            figure=lambda: PositionExplorer(view="rotary", position=20, key_position=25, pair=3),
            answers=[
                Wrong("other view", ~_rotary, "The score of a query and a key is in the view “rotary”. Go back there."),
                Wrong(
                    "other vectors",
                    ~(_vectors & _hands),
                    "The vectors, or the speed of the hand, have changed. Press Reset, and move positions only.",
                ),
                Wrong(
                    "shift",
                    ~same(state("shift"), 0),
                    "The slider “move both by” does it for you. Set it to 0, and move them by hand.",
                ),
                Right(
                    "same distance",
                    same(_distance, 5) & ~same(state("position"), 20),
                    "The key is 5 after the query again. The score knows nothing else of where they stand.",
                ),
                Wrong(
                    "backwards",
                    same(_distance, -5),
                    "The distance is 5, but the key now comes first. RoPE tells before from after.",
                ),
                Wrong(
                    "other distance",
                    ~same(_distance, 5),
                    "The distance has changed, so the key is turned by another angle against the query.",
                ),
            ],
            hint="Move the query a few places, and the key by as many.",
        ),
        Choice(
            "twice-in-a-batch",
            "A model with added positions is hardly better than one without. You put the same text into a batch twice, "
            "and get two different outputs, in eval mode. What is wrong?",
            minutes=2,
            stars=2,
            answers=[
                Wrong(
                    "padding",
                    "The text is padded on the left, and counted from the padding.",
                    "Both copies would be padded alike, and wrong alike.",
                ),
                Right(
                    "batch axis",
                    "Positions are added along the batch axis.",
                    "Row 0 of the table goes to the whole first text, row 1 to the second. No token learns its place.",
                ),
                Wrong(
                    "bf16",
                    "Positions are held in bfloat16.",
                    "Then distant places of one text collapse, in both copies alike.",
                ),
                Wrong(
                    "values",
                    "The values are turned as well.",
                    "Then outputs change when the text is shifted, and the two copies stand at the same places.",
                ),
            ],
        ),
        Code(
            "turn",
            "Write `turn(x, angles)`: x (L, D) and angles (L, D/2) in, x turned out, (L, D). The layout is half-split: "
            "feature c makes a pair with feature c + D/2, and (a, b) becomes (a cos − b sin, a sin + b cos).",
            function="turn(x, angles)",
            minutes=10,
            stars=2,
            inputs=_cases,
            answers=[
                Right("turn", turn, "Both halves turn, as pairs, and come back side by side."),
                Wrong(
                    "interleaved",
                    _neighbours,
                    "You paired neighbours, 0 with 1: the paper's layout. Here the first half meets the second.",
                ),
                Wrong(
                    "backwards",
                    lambda x, angles: turn(x, -angles),
                    "The turn goes the other way. Alone it would do no harm; beside keys turned rightly it is wrong.",
                ),
                Wrong(
                    "no partner",
                    _no_swap,
                    "Each feature is only made shorter. A turn needs the other feature of the pair as well.",
                ),
                Wrong(
                    "mirror",
                    _mirror,
                    "One sign is wrong: this is a reflection. Lengths are kept, but two of them do not add up.",
                ),
                Wrong(
                    "added",
                    _added,
                    "You added sines and cosines, as sinusoidal positions do. RoPE multiplies, and keeps the length.",
                ),
            ],
            hint="With x = (1, 0) and the angle π/2 the result is (0, 1).",
        ),
    ],
)
