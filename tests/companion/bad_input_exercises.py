"""Bad input for the questions, and for those who write them."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from companion import exercises
from companion.exercises import diagnose, practice, rule, spec
from companion.exercises.spec import Choice, Code, Number, Right, Set, Widget, Wrong
from companion.exercises.store import Store
from companion.widgets import SoftmaxExplorer
from tests.companion.bad_input import Row, integer_rows, number_rows, wrong_kind, wrong_value

MODULES = (exercises, practice, diagnose, rule, spec)
GOOD: dict[str, Any] = {"id": "x", "prompt": "What?", "minutes": 1, "stars": 1}
TEXTS = [Right("yes", "It is.", "So it is."), Wrong("no", "It is not.", "It is, though.")]
NUMBERS = [Right("one", 1.0, "It is one."), Wrong("two", 2.0, "That is two.")]
RULES = [
    Right("hot", rule.state("temperature") > 2, "It is hot."),
    Wrong("cold", rule.state("shift") < 0, "It is not."),
]
FUNCTIONS = [Right("same", lambda x: x, "So it is."), Wrong("twice", lambda x: 2 * x, "That is twice as much.")]
CHOICE = Choice(**GOOD, answers=TEXTS)


def from_practice() -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (5, "int")):
        yield wrong_kind(exercises.open, bad, says=("name must be a str", kind))
    yield wrong_value(exercises.open, "ch99", says=("name must be one of ch01, ch02", "got 'ch99'"))
    call = partial(exercises.open, "ch05")
    yield wrong_kind(call, student=3, says=("student must be a str", "int"))
    yield wrong_value(call, student="  ", says="student must not be empty")
    yield wrong_kind(call, folder=3, says=("folder must be a path", "int"))
    yield wrong_value(call, folder=str(Path(tempfile.gettempdir(), "not", "there")), says=("folder must be there",))
    yield wrong_kind(exercises.Practice, CHOICE, Store(), says=("questions must be a Set", "Choice"))
    yield wrong_kind(exercises.Practice, Set("x", "X", [CHOICE]), {}, says=("store must be a Store", "dict"))
    opened = exercises.open("ch05")
    for method in (opened.show, opened.answer, opened.check):
        yield wrong_kind(method, 3, says=("question must be a str", "int"))
        yield wrong_value(method, "nonsense", says=("question must be one of axis, masked", "got 'nonsense'"))
    yield wrong_kind(opened.answer, "axis", says=("axis: value must be given for a choice question",))
    for method in (opened.answer, opened.check):
        yield wrong_kind(method, "axis", 3, says=("axis: value must be a str", "int"))
        yield wrong_value(method, "axis", "rows", says=("axis: value must be one of queries, keys", "got 'rows'"))
        for bad, kind in ((None, "NoneType"), (True, "bool"), (1j, "complex"), ([1], "list")):
            yield wrong_kind(method, "masked", bad, says=("masked: value must be a number", kind))
        yield wrong_value(method, "masked", "two", says=("masked: value must be a number", "got 'two'"))
        yield wrong_value(method, "masked", float("nan"), says=("masked: value must be finite", "nan"))
        yield wrong_value(method, "masked", torch.ones(2), says=("masked: value must be one number",))
        yield wrong_kind(method, "spared", 3, says=("spared: value must be a dict", "int"))
        yield wrong_value(
            method, "spared", {"heat": 1}, says=("spared: value must name traits of query, key", "'heat'")
        )
        yield wrong_value(method, "spared", {"row": 9}, says=("spared:", "row"))


def from_diagnose() -> Iterator[Row]:
    for table in (diagnose.attention, diagnose.weights, diagnose.softmax, diagnose.heads, diagnose.merged):
        yield wrong_kind(table, 3, says=("names must be strs", "int"))
        yield wrong_value(table, "nonsense", says=("names must be of", "got 'nonsense'"))


def from_rule() -> Iterator[Row]:
    yield wrong_kind(rule.state, 3, says=("name must be a str", "int"))
    bad = torch.ones(2)
    for function in (rule.softmax, rule.entropy, rule.exp, rule.log, rule.sqrt):
        yield wrong_kind(function, bad, says=("x must be a rule, a number", "Tensor"))
    yield wrong_kind(rule.near, bad, 1, 0.1, says=("a must be a rule", "Tensor"))
    yield wrong_kind(rule.near, 1, None, 0.1, says=("target must be a rule", "NoneType"))
    yield wrong_kind(rule.near, 1, 1, "a", says=("within must be a real number", "str"))
    yield wrong_value(rule.near, 1, 1, -1.0, says=("within must be from 0 up", "-1.0"))
    yield wrong_kind(rule.same, bad, 1, says=("a must be a rule", "Tensor"))
    yield wrong_kind(rule.same, 1, {}, says=("b must be a rule", "dict"))
    yield wrong_kind(rule.state("a").__add__, {1}, says=("both sides must be a rule", "set"))


def from_spec() -> Iterator[Row]:
    generator = torch.Generator()
    yield wrong_kind(spec.randn, 7, 2, says=("generator must be a torch.Generator", "int"))
    yield wrong_kind(spec.randn, generator, 2.0, says=("shape must be an int", "float"))
    yield wrong_value(spec.randn, generator, -2, says=("shape must be at least 0", "-2"))
    for kind in (Right, Wrong, spec.Answer):
        yield wrong_kind(kind, 3, "It is.", "So it is.", says=("name must be a str", "int"))
        yield wrong_value(kind, "yes", "It is.", " ", says="say must not be empty")
    yield wrong_kind(spec.Question, **(GOOD | {"id": 3}), answers=[], says=("id must be a str", "int"))
    for bad in ("X", "a b", "", "-a"):
        yield wrong_value(Choice, **(GOOD | {"id": bad}), answers=TEXTS, says=("id must be small letters", repr(bad)))
    choice = partial(Choice, **GOOD)
    yield wrong_value(Choice, **(GOOD | {"prompt": " "}), answers=TEXTS, says="prompt must not be empty")
    yield from integer_rows(partial(choice, answers=TEXTS), "minutes", 0)
    yield from integer_rows(partial(choice, answers=TEXTS), "stars", 0)
    yield wrong_value(choice, answers=TEXTS, stars=4, says=("stars must be 1, 2 or 3", "4"))
    yield wrong_kind(choice, answers=3, says=("answers must be a list", "int"))
    yield wrong_kind(choice, answers=["yes"], says=("answers must be Right(...) or Wrong(...)", "str"))
    yield wrong_kind(choice, answers=NUMBERS, says=("'one' must be a text", "float"))
    yield wrong_value(choice, answers=TEXTS[:1], says=("answers must have a Wrong", "none"))
    yield wrong_value(choice, answers=TEXTS[1:], says=("answers must have one Right", "0"))
    yield wrong_value(choice, answers=[*TEXTS, TEXTS[0]], says=("answers must have one Right", "2"))
    yield wrong_value(choice, answers=[*TEXTS, TEXTS[1]], says=("each answer must have its own name", "'no'"))
    alike = Wrong("never", "It was not.", "It is, though.")
    yield wrong_value(choice, answers=[*TEXTS, alike], says=("each answer must have its own say", "'It is, though.'"))
    number = partial(Number, **GOOD, answers=NUMBERS, within=0.1, hint="Count.")
    yield wrong_value(number, hint="", says="hint must say something")
    yield wrong_value(number, within=0.5, says=("'one' and 'two' must be more than 1.0 apart",))
    yield from number_rows(number, "within", (0, -1.0))
    yield wrong_kind(number, answers=TEXTS, says=("'yes' must be a number", "str"))
    widget = partial(Widget, **GOOD, answers=RULES, figure=SoftmaxExplorer, hint="Turn it.")
    yield wrong_kind(widget, figure=SoftmaxExplorer(), says=("figure must be a function", "SoftmaxExplorer"))
    yield wrong_kind(widget, answers=TEXTS, says=("'yes' must be a rule", "str"))
    code = partial(
        Code, **GOOD, answers=FUNCTIONS, hint="Try.", function="f(x)", inputs=lambda g: [(spec.randn(g, 2),)]
    )
    yield wrong_kind(code, inputs=[(1,)], says=("inputs must be a function", "list"))
    yield wrong_value(partial(code, function="f"), says=("function must show a signature", "'f'"))
    yield wrong_kind(code, answers=RULES, says=("'hot' must be a function", "Rule"))
    yield from number_rows(code, "within", (0, -1.0))
    yield wrong_kind(Set, 3, "X", [CHOICE], says=("name must be a str", "int"))
    yield wrong_kind(Set, "x", 3, [CHOICE], says=("title must be a str", "int"))
    yield wrong_value(Set, "Ch 5", "X", [CHOICE], says=("name must be small letters", "'Ch 5'"))
    yield wrong_kind(Set, "x", "X", CHOICE, says=("questions must be a list", "Choice"))
    yield wrong_kind(Set, "x", "X", [3], says=("questions must be Choice, Number, Widget or Code", "int"))
    yield wrong_value(Set, "x", "X", [], says=("questions must have ids of their own", "none"))
    yield wrong_value(Set, "x", "X", [CHOICE, CHOICE], says=("questions must have ids of their own", "x, x"))


def rows() -> Iterator[Row]:
    yield from from_practice()
    yield from from_diagnose()
    yield from from_rule()
    yield from from_spec()
