"""Practice for chapter 6: who may look at whom."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.exercises.rule import allowed, same, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong
from companion.masks import causal, padding
from companion.widgets import MaskEditor


def decoder_mask(real: Tensor) -> Tensor:
    """Causal, and no padding: by the package."""
    batch, size = real.shape
    return (causal() & padding(real)).dense(batch, 1, size, size)


def _order(real: Tensor, diagonal: int = 0) -> Tensor:
    size = real.shape[1]
    return torch.ones(size, size, dtype=torch.bool).tril(diagonal)


def _cases(generator: torch.Generator) -> list[tuple[Tensor, ...]]:
    """Padding on either side; a little of chance in the last one."""
    last = torch.rand(3, 6, generator=generator) < 0.6
    return [
        (torch.tensor([[0, 1, 1, 1], [1, 1, 1, 0]]).bool(),),
        (torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]).bool(),),
        (last,),
    ]


_SEEN = allowed()
_FUTURE = [_SEEN[query][key] for query in range(5) for key in range(query + 1, 5)]
_TO_PADDING = [_SEEN[query][key] for query in range(2, 5) for key in range(2)]
_BEFORE = [_SEEN[query][key] for query in range(2, 5) for key in range(2, query + 1)]

SET = Set(
    "ch06",
    "Masks",
    [
        Choice(
            "leak",
            "A decoder's loss falls to .05 within minutes, on new texts too. What decides whether it sees the future?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "validation",
                    "The loss on new texts: if it is as low, all is well.",
                    "New texts are read the same way, with the answers in the input. A leak lowers both losses alike.",
                ),
                Wrong(
                    "weights",
                    "The attention weights: if they are lower triangular, all is well.",
                    "That clears one layer's weights. The future may come in beside them: by a mean over the "
                    "sequence, a convolution, or another layer.",
                ),
                Right(
                    "change",
                    "A later token: change it, and see whether earlier outputs move.",
                    "What depends on the future moves with it, by whatever way it came.",
                ),
                Wrong(
                    "gradients",
                    "The norm of the gradients: a leak makes it explode.",
                    "Copying the next token is easily learned; its gradients are small and sound.",
                ),
            ],
        ),
        Number(
            "reach",
            "A model has 5 layers, each with a causal window of w = 4: itself and three before it. On how many tokens "
            "does its last output depend?",
            minutes=2,
            stars=1,
            within=0.4,
            answers=[
                Right("reach", 16, "That is 1 + 5 · 3: each layer adds the three before the farthest that it knew."),
                Wrong("one-layer", 4, "That is one layer. The three before it have looked back too."),
                Wrong("times", 20, "That is 5 · 4, which counts the token at the joint of two layers twice."),
                Wrong("itself", 15, "Five layers add three each, but the token itself belongs to them too."),
                Wrong(
                    "powers", 1024, "That is 4 to the fifth: it counts ways, and many of them end at the same token."
                ),
            ],
            hint="Begin with one layer, then ask how far back the farthest token of its window has seen.",
        ),
        Choice(
            "turned",
            "`real` is True for a real token, and every sentence of the batch has some padding. It is handed to "
            "`nn.MultiheadAttention` as `key_padding_mask`. What happens?",
            minutes=1,
            stars=2,
            answers=[
                Wrong(
                    "error",
                    "PyTorch raises an error.",
                    "Shape and dtype are as they should be, so it has nothing to complain of. The meaning is turned.",
                ),
                Right(
                    "padding-only",
                    "Every query attends to the padding, and to nothing else.",
                    "There True means padding, so the real tokens are hidden. Hand it `~real`.",
                ),
                Wrong(
                    "same",
                    "The padding is hidden, as it should be.",
                    "That holds for `scaled_dot_product_attention`, where True means may attend. Here it means hide.",
                ),
                Wrong(
                    "nan",
                    "All outputs become NaN.",
                    "Only a row with no key left does. Each sentence has padding, and that is what its rows still see.",
                ),
            ],
        ),
        Widget(
            "no-empty-row",
            "Rows 0 and 1 are padding and see nothing. Set cells by hand, so that no row is empty, no real token sees "
            "the padding, and no token sees a later one.",
            minutes=4,
            stars=2,
            figure=lambda: MaskEditor(
                tokens=["the", "cat", "sat", "on", "mat"], length=3, side="left", causal="and", empty="nan"
            ),
            answers=[
                Wrong(
                    "moved padding",
                    ~(same(state("length"), 3) & same(state("side"), "left")),
                    "You moved the padding. Press Reset, and leave it on the left, two tokens wide.",
                ),
                Wrong(
                    "future",
                    sum(_FUTURE[1:], _FUTURE[0]) > 0,
                    "A cell above the diagonal is allowed: that token sees a later one.",
                ),
                Wrong(
                    "padding seen",
                    sum(_TO_PADDING[1:], _TO_PADDING[0]) > 0,
                    "A real token sees the padding: one of its first two columns is allowed.",
                ),
                Wrong(
                    "hidden too much",
                    sum(_BEFORE[1:], _BEFORE[0]) < 6,
                    "A real token has lost a real one that came before it, or itself.",
                ),
                Right(
                    "themselves",
                    (_SEEN[0].sum() > 0) & (_SEEN[1].sum() > 0),
                    "Each pad sees padding only. Its row is no longer 0/0, and no real token reads it.",
                ),
                Wrong(
                    "one left",
                    (_SEEN[0].sum() > 0) | (_SEEN[1].sum() > 0),
                    "One of the two rows still has no key, and with minus infinity it is NaN.",
                ),
            ],
            hint="Who may look at a pad without harm? Only a pad, and not at a later one.",
        ),
        Code(
            "decoder-mask",
            "Write `decoder_mask(real)`: booleans (B, S) in, True for a real token; out a boolean mask (B, 1, S, S), "
            "True where a query may attend, which is causal and hides the padding.",
            function="decoder_mask(real)",
            minutes=10,
            stars=2,
            inputs=_cases,
            answers=[
                Right(
                    "decoder mask",
                    decoder_mask,
                    "Padding hides columns, order hides what comes later; both must allow.",
                ),
                Wrong(
                    "padding only",
                    lambda real: real[:, None, None].repeat(1, 1, real.shape[1], 1),
                    "Every query sees what comes after it. The triangle is missing: this is the mask of an encoder.",
                ),
                Wrong(
                    "order only",
                    lambda real: _order(real).repeat(len(real), 1, 1, 1),
                    "The triangle is there, the padding is not hidden. With padding on the left, real tokens read it.",
                ),
                Wrong(
                    "rows",
                    lambda real: _order(real) & real[:, None, :, None],
                    "The padding's rows are hidden: it may not ask, but all may look at it. Hide its columns.",
                ),
                Wrong(
                    "inverted",
                    lambda real: ~decoder_mask(real),
                    "It says True where a pair is hidden, as in `nn.MultiheadAttention`. Here True means may attend.",
                ),
                Wrong(
                    "upper",
                    lambda real: _order(real).T & real[:, None, None],
                    "That triangle is the upper one: each token sees itself and what comes later.",
                ),
                Wrong(
                    "strict",
                    lambda real: _order(real, -1) & real[:, None, None],
                    "The diagonal is missing: a token must see itself. The shift by one is in the labels.",
                ),
                Wrong(
                    "either",
                    lambda real: _order(real) | real[:, None, None],
                    "One rule's yes is not enough. Both must allow a pair: join them by and.",
                ),
            ],
            hint="Two tables: a triangle (S, S), and the padding as (B, 1, 1, S), joined by and.",
        ),
    ],
)
