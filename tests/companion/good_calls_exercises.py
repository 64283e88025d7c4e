"""Good calls of the questions: see ``test_typing_runtime.py``."""

import tempfile

import torch

from companion import exercises, stable_softmax
from companion.exercises import Practice, diagnose, names, open
from companion.exercises.rule import Rule, allowed, entropy, exp, log, near, same, softmax, sqrt, state
from companion.exercises.spec import Answer, Choice, Code, Number, Question, Right, Set, Widget, Wrong, randn
from companion.exercises.store import Store
from companion.widgets import SoftmaxExplorer

practice = open("ch05")
assert isinstance(practice, Practice)
assert practice.name in names()
for question in practice.questions:
    assert practice.check(question).right is None
    practice.show(question)
assert practice.answer("axis", "keys")
assert practice.answer("masked", "2/5")
assert not practice.answer("spared", {"causal": True})
assert not practice.check("spared")
assert repr(practice.check("attention", lambda q, k, v, mask: v))
assert repr(practice)
with tempfile.TemporaryDirectory() as folder:
    exercises.open("ch01", student="Ada", folder=folder).answer("double", 0.8)

largest = softmax(state("scores") / state("temperature")).max()
rules: list[Rule] = [near(largest, 0.5, 0.1), same(allowed(), [[1]]), entropy([0.5, 0.5]) < log(exp(sqrt(4.0)))]
assert rules[0].holds({"scores": [0.0, 0.0], "temperature": 1.0})
answers: list[Answer] = [Right("half", rules[0], "So it is."), Wrong("more", largest > 0.7, "That is more.")]
common = {"minutes": 1, "stars": 3}
asked: list[Question] = [
    Widget("half", "Halve it.", **common, answers=answers, figure=SoftmaxExplorer, hint="Turn it."),
    Number("one", "One?", **common, answers=[Right("1", 1, "So it is."), Wrong("2", 2.5, "No.")], within=0.1, hint="?"),
    Choice("two", "Two?", **common, answers=[Right("1", "Yes.", "So it is."), Wrong("2", "No.", "It is.")]),
    Code(
        "soft", "Write it.", **common, function="f(x)", hint="Try.",
        inputs=lambda g: [(randn(g, 2, 3),), (1000 + randn(g, 3, 3) * 500,)],
        answers=[Right("soft", stable_softmax, "So it is."), *diagnose.softmax()],
    ),
]  # fmt: skip
made = Practice(Set("made", "Made here", asked), Store())
assert made.check("soft", lambda x: torch.softmax(x, -1))
assert made.check("soft", lambda x: x.exp() / x.exp().sum(-1, keepdim=True)).name == "overflows"
for table in (diagnose.attention, diagnose.weights, diagnose.heads, diagnose.merged):
    assert all(isinstance(wrong, Wrong) for wrong in table())
x = torch.arange(24.0).view(2, 3, 4)
assert diagnose.heads("positions first")[0].what(x, 2).shape == (2, 3, 2, 2)
