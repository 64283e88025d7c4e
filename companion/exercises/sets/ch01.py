"""Practice for chapter 1: lookups, hard and soft."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.exercises.rule import Rule, near, softmax, sqrt, state
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong, randn
from companion.lookup import soft_lookup
from companion.widgets import LookupExplorer

_query, _temperature = state("query"), state("temperature")
_row = Rule([_query.tree])  # (1, 2)
_weights = softmax(_row @ state("key").T / _temperature)
_length = sqrt((_query * _query).sum())


def lookup(q: Tensor, k: Tensor, v: Tensor, t: float) -> Tensor:
    """Mix the values, each by how well its key matches."""
    return soft_lookup(q, k, v, temperature=t).output


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.T  # (L, D) x (D, S) -> (L, S)


SET = Set(
    "ch01",
    "How can a model choose where to look?",
    [
        Choice(
            "hard",
            "Why can gradient descent not learn the queries of a hard lookup?",
            minutes=1,
            stars=1,
            answers=[
                Wrong(
                    "wrong-key",
                    "Because it often returns the value of a wrong key.",
                    "A wrong answer is what one learns from, if the error has a slope. Here it has none.",
                ),
                Wrong(
                    "slow",
                    "Because the largest of many scores takes long to find.",
                    "A soft lookup reads all the scores too. What it gains is not speed, it is a slope.",
                ),
                Right(
                    "flat",
                    "Because a small change of the query changes nothing, nearly everywhere.",
                    "The answer stands still, and then it jumps: flat pieces have slope zero, and a jump has no slope.",
                ),
                Wrong(
                    "steep",
                    "Because the answer jumps, so that the gradient is very large.",
                    "At the jump there is no gradient at all, and a query almost never stands there. Where it stands, "
                    "the slope is 0.",
                ),
            ],
        ),
        Number(
            "double",
            "Two keys have the scores 1 and 3, and each point of score doubles the share. What is the second's share?",
            minutes=2,
            stars=1,
            within=0.005,
            answers=[
                Right("double", 0.8, "Two points more is twice doubled: the shares are as 1 to 4."),
                Wrong("plain", 0.75, "That divides each score by their sum. Double 1 and 3 times first: 2 and 8."),
                Wrong("first", 0.2, "That is the share of the first key."),
                Wrong("by-e", 0.8808, "That is base e, where each point multiplies by 2.718. Here it doubles."),
                Wrong("once", 0.6667, "That doubles once. The lead is two points, so the share doubles twice."),
            ],
            hint="A lead of two points doubles the share twice. Then let both shares sum to 1.",
        ),
        Widget(
            "equal",
            "Leave the temperature at 1. Move the query until all four keys have the same weight (within 0.01).",
            minutes=3,
            stars=2,
            figure=LookupExplorer,
            answers=[
                Wrong(
                    "hot",
                    (_temperature < 0.999) | (_temperature > 1.001),
                    "You moved the temperature. Heat makes any query's weights alike; find the query that needs none.",
                ),
                Right(
                    "zero",
                    near(_weights, 0.25, 0.01),
                    "A query of length zero scores every key 0: it asks for nothing, and gets the plain mean.",
                ),
                Wrong(
                    "far",
                    _length > 1.5,
                    "That far out the scores are large. A dot product is no distance: stepping away from the keys "
                    "makes the choice harder, not softer.",
                ),
            ],
            hint="Weights are equal where scores are. Which query has the same dot product with every key, whatever "
            "the keys?",
        ),
        Code(
            "lookup",
            "Write a soft lookup: queries q (L, D), keys k (S, D), values v (S, E) and a temperature t in, the blends "
            "(L, E) out.",
            function="lookup(q, k, v, t)",
            minutes=8,
            stars=2,
            inputs=lambda g: [
                (randn(g, 2, 3), randn(g, 4, 3), randn(g, 4, 2), 2.0),
                (randn(g, 3, 3), randn(g, 3, 3), randn(g, 3, 3), 0.7),
            ],
            answers=[
                Right("lookup", lookup, "Scores, divided by t, softmax over the keys, and a weighted sum of values."),
                Wrong(
                    "multiplied",
                    lambda q, k, v, t: (_scores(q, k) * t).softmax(-1) @ v,
                    "That multiplies by the temperature, so heat makes your choice harder. It should divide.",
                ),
                Wrong(
                    "no temperature",
                    lambda q, k, v, t: _scores(q, k).softmax(-1) @ v,
                    "The temperature is not used: your blend is the one of t = 1.",
                ),
                Wrong(
                    "temperature after softmax",
                    lambda q, k, v, t: _scores(q, k).softmax(-1) / t @ v,
                    "That divides the weights. They no longer sum to one, and the choice is as hard as before.",
                ),
                Wrong(
                    "over queries",
                    lambda q, k, v, t: (_scores(q, k) / t).softmax(0) @ v,
                    "The softmax runs over the queries. Each query shares itself out among the keys: the last axis.",
                ),
                Wrong(
                    "no division",
                    lambda q, k, v, t: (_scores(q, k) / t).exp() @ v,
                    "The exponentials are not divided by their sum, so the output can leave the space between the "
                    "values.",
                ),
                Wrong(
                    "hard",
                    lambda q, k, v, t: v[_scores(q, k).argmax(-1)],
                    "That is the hard lookup: the best key's value alone, whatever the temperature.",
                ),
                Wrong(
                    "keys mixed",
                    lambda q, k, v, t: (_scores(q, k) / t).softmax(-1) @ k,
                    "The weights are right, and they mix the keys. Keys are for finding; hand over the values.",
                ),
                Wrong(
                    "distance",
                    lambda q, k, v, t: (-torch.cdist(q, k).square() / (2 * t)).softmax(-1) @ v,
                    "That scores by nearness, as kernel regression does. Keys here differ in length, so the dot "
                    "product gives other weights.",
                ),
            ],
            hint="Try one query and two keys by hand, and print your weights beside those.",
        ),
    ],
)
