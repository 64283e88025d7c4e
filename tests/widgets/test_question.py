"""The page judges as Python does: every rule of every set, on random states of its figure, and each operation alone."""

import gzip
import importlib
import math
import random
import re
from typing import Any

import pytest

from companion import exercises
from companion.exercises.judge import judge, read_number
from companion.exercises.rule import Rule, allowed, entropy, evaluate, exp, log, near, same, softmax, sqrt, state
from companion.exercises.spec import Code, Widget
from companion.widgets import Figure, MaskEditor
from companion.widgets.base import scripts
from companion.widgets.question import QuestionView
from tests.widgets.javascript import call
from tests.widgets.test_maths import MANY

A, B, C = state("a"), state("b"), state("c")
RULES: list[Rule] = [
    A + B, A - 1, 2 - A, A * B, 3 * A, A / B, 1 / A, -A, abs(A), A @ B.T, A.T, A[0], A[1][0], (A @ B.T)[0].argmax(),
    A.max(), A.min(), A.sum(), A.mean(), A.argmax(), A.size(), softmax(A), softmax(A[0]), entropy(softmax(A)), exp(A),
    log(abs(A)), sqrt(abs(A)), A.max() < B.max(), A.max() <= A.max(), A.min() > B.min(), A.sum() >= 0,
    near(A, B, 2.0), near(A.sum(), 0, 1.0), same(A, B), same(A, A), same(C, "on"), same(C, True), same(A[0], [1, 2]),
    (A.sum() > 0) & (B.sum() > 0), (A.sum() > 0) | (B.sum() > 0), ~(A.sum() > 0), same(A.max() > 99, False),
]  # fmt: skip


def alike(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list):
        return isinstance(theirs, list) and len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, bool):
        return ours is theirs
    return math.isclose(float(ours), float(theirs), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_each_operation_gives_the_same(rule: Rule):
    draw = random.Random(5)
    states = []
    for count in range(MANY):
        a, b = ([[draw.gauss(0, 2) for _ in range(2)] for _ in range(3)] for _ in range(2))
        if count % 4 == 0:
            b = a
        states.append({"a": a, "b": b, "c": draw.choice(["on", "off", True, False, 1, 0])})
    answers = call("lib/judge", "evaluate", [[rule.tree, given] for given in states])
    for given, answer in zip(states, answers, strict=True):
        assert alike(evaluate(rule.tree, given), answer), given


def moved(figure: Figure, names: list[str], draw: random.Random) -> dict[str, Any]:
    """A state that the figure takes: some of the traits, elsewhere."""
    import traitlets

    for name in names:
        if draw.random() < 0.5:
            continue
        trait, value = figure.traits()[name], getattr(figure, name)
        if isinstance(trait, traitlets.Enum):
            new: Any = draw.choice(list(trait.values))
        elif isinstance(value, bool):
            new = draw.random() < 0.5
        elif isinstance(value, int):
            new = draw.randint(0, 5)
        elif isinstance(value, float):
            new = draw.choice([0.2, 0.5, 1.0, 1.7, 3.0])
        elif isinstance(value, list):
            new = shifted(value, draw)
        else:
            continue
        try:
            setattr(figure, name, new)
        except traitlets.TraitError:
            continue
    return {name: getattr(figure, name) for name in names}


def shifted(x: Any, draw: random.Random) -> Any:
    if isinstance(x, list):
        return [shifted(part, draw) for part in x]
    return x + draw.choice([0.0, 0.0, 0.5, -0.5]) if isinstance(x, float) else x


WIDGETS = [
    pytest.param(name, question, id=f"{name}-{question.id}")
    for name in exercises.names()
    for question in importlib.import_module(f"companion.exercises.sets.{name}").SET
    if isinstance(question, Widget)
]


@pytest.mark.parametrize(("name", "question"), WIDGETS)
def test_a_figure_is_judged_alike(name: str, question: Widget):
    draw = random.Random(11)
    given = importlib.import_module(f"tests.companion.exercise_answers.{name}")
    states = [moved(question.figure(), question.names(), draw) for _ in range(MANY)]
    for named in (*given.RIGHT[question.id], *given.WRONG[question.id].values()):
        figure = question.figure()
        with figure.hold_trait_notifications():
            for trait, value in named.items():
                setattr(figure, trait, value)
        states.append({trait: getattr(figure, trait) for trait in question.names()})
    cases = [
        {"right": answer.right, "when": rule.tree, "say": answer.say}
        for answer, rule in zip(question.answers, question.rules(), strict=True)
    ]
    answers = call("lib/judge", "verdict", [[cases, question.hint, each] for each in states])
    said = set()
    for each, answer in zip(states, answers, strict=True):
        ours = judge(question, each)
        assert (ours.right, ours.say) == (answer["right"], answer["say"]), each
        said.add(ours.say)
    assert len(said) >= len(question.answers)


@pytest.mark.parametrize("name", exercises.names())
def test_choices_and_numbers_are_judged_alike(name: str):
    for question in importlib.import_module(f"companion.exercises.sets.{name}").SET:
        if isinstance(question, (Widget, Code)):
            continue
        cases = [
            {"right": answer.right, "when": rule.tree, "say": answer.say}
            for answer, rule in zip(question.answers, question.rules(), strict=True)
        ]
        if question.kind == "choice":
            states: list[dict[str, Any]] = [{"choice": answer.name} for answer in question.answers]
        else:
            states = [{"value": answer.what} for answer in question.answers]
            states += [{"value": random.Random(3).uniform(-1, 2)} for _ in range(20)]
        answers = call("lib/judge", "verdict", [[cases, question.hint, each] for each in states])
        for each, answer in zip(states, answers, strict=True):
            ours = judge(question, each)
            assert (ours.right, ours.say) == (answer["right"], answer["say"])


def test_the_table_of_a_mask_editor_is_the_same():
    draw = random.Random(2)
    states = []
    for _ in range(MANY):
        editor = MaskEditor(tokens=["a", "b", "c", "d"], scores=[[0.0] * 4] * 4)
        for rule in ("causal", "padding", "window", "document"):
            setattr(editor, rule, draw.choice(["off", "and", "or", "and not", "or not"]))
        editor.length, editor.side, editor.width = (
            draw.randint(0, 4),
            draw.choice(["left", "right"]),
            draw.randint(1, 4),
        )
        editor.by_hand = [
            [draw.randrange(4), draw.randrange(4), draw.random() < 0.5] for _ in range(draw.randint(0, 3))
        ]
        states.append({name: getattr(editor, name) for name in allowed().names()})
    answers = call("lib/judge", "evaluate", [[allowed().tree, given] for given in states])
    assert answers == [allowed().evaluate(given) for given in states]


def test_numbers_are_read_alike():
    texts = ["0.45", ".45", "0,45", "1/3", "−2", " 1e-3", "5.", "-1 / 4", "+2", "", "a", "1/0", "1/2/3", "1_000", "inf",
             "nan", "1,000.5", "1,0,0", "0x1", "1e999", "--1", ".", "e5", "1e", "٣"]  # fmt: skip
    for text, theirs in zip(texts, call("lib/judge", "readNumber", [[text] for text in texts]), strict=True):
        ours, number = read_number(text), float(theirs)
        assert ours == number or (math.isnan(ours) and math.isnan(number)), text


def test_its_script_is_light_and_asks_nobody():
    script, style = (path.read_bytes() for path in scripts("companion.widgets.question"))
    assert len(gzip.compress(script, 9)) + len(gzip.compress(style, 9)) <= 12_000
    assert not re.search(
        rb"https?://(?!www\.w3\.org/)|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script
    )


def test_a_question_has_a_text_a_name_and_its_figures_picture():
    practice = exercises.open("ch05")
    for question in practice._set:
        figure = question.figure() if isinstance(question, Widget) else None
        view = QuestionView("ch05", question, figure)
        data, _ = view._repr_mimebundle_()  # type: ignore[misc]
        assert data["text/plain"] == f"QuestionView(ch05/{question.id})"
        assert question.prompt in view.text
        assert len(view.alt) > 40
        assert ("image/png" in data) == (figure is not None)
        assert data["text/markdown"].count("\n- ") == (4 if question.id == "axis" else 0)
        assert not re.search("0x|IPY_MODEL", data["text/markdown"])
