"""Every set of questions, its checkers mutation-tested.

Each named wrong answer, as a student would give it, is rejected with its own sentence; the right one is accepted,
however it is written.

What students write is in ``exercise_answers``, one file a set.
"""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import traitlets

from companion import exercises
from companion.exercises import trial
from companion.exercises.judge import judge, judge_code
from companion.exercises.spec import Choice, Code, Number, Question, Set, Widget

NAMES = exercises.names()
SETS: dict[str, Set] = {name: importlib.import_module(f"companion.exercises.sets.{name}").SET for name in NAMES}
ANSWERS = Path(__file__).with_name("exercise_answers")


def questions(kind: type[Question]) -> list[Any]:
    found = [(name, question) for name in NAMES for question in SETS[name] if isinstance(question, kind)]
    return [pytest.param(name, question, id=f"{name}-{question.id}") for name, question in found]


def given(name: str) -> Any:
    """What students answer, as a module."""
    return importlib.import_module(f"tests.companion.exercise_answers.{name}")


def test_there_are_sets_and_every_kind_is_in_them():
    assert {"ch01", "ch02", "ch05"} <= set(NAMES)
    assert {question.kind for found in SETS.values() for question in found} == {"choice", "number", "widget", "code"}
    assert {path.stem for path in ANSWERS.glob("*.py")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_whole(name: str):
    found = SETS[name]
    assert found.name == name
    assert 3 <= len(found.questions) <= 6
    assert {Choice.kind, Widget.kind, Code.kind} <= {question.kind for question in found}
    needs = {question.id for question in found if isinstance(question, (Widget, Code))}
    assert set(given(name).RIGHT) == set(given(name).WRONG) == needs


@pytest.mark.parametrize(("name", "question"), questions(Question))
def test_its_words_are_plain(name: str, question: Question):
    texts = [question.prompt, question.hint, *(answer.say for answer in question.answers)]
    texts += [answer.what for answer in question.answers if isinstance(question, Choice)]
    for text in texts:
        assert text.count("`") % 2 == 0, text
        bare = re.sub("`[^`]*`", "", text)
        assert "  " not in text, text
        assert not re.search(r"\$|\\|\*\*|<[a-z]|\n", bare), f"prompts and sentences are plain text: {text}"
        assert len(text) <= 320, f"too long: {text}"
        assert not re.match(r"(Right|Correct|Wrong|Not yet|No)\b[.,:!]", text), f"the verdict says so itself: {text}"
    for answer in question.answers:
        assert len(answer.say) >= 20, answer.say
        assert answer.say[0].isupper() or answer.say[0] == "(", answer.say
        assert answer.say.rstrip()[-1] in ".?)", answer.say


@pytest.mark.parametrize(("name", "question"), questions(Choice))
def test_choices_answer_each_with_its_own_sentence(name: str, question: Choice):
    assert 3 <= len(question.answers) <= 5
    practice = exercises.open(name)
    said = set()
    for answer in question.answers:
        verdict = practice.answer(question.id, answer.name)
        assert (verdict.right, verdict.name, verdict.say) == (answer.right, answer.name, answer.say)
        said.add(verdict.say)
    assert len(said) == len(question.answers)


@pytest.mark.parametrize(("name", "question"), questions(Number))
def test_numbers_answer_each_with_its_own_sentence(name: str, question: Number):
    practice = exercises.open(name)
    for answer in question.answers:
        value = float(answer.what)
        styles = (value, str(value), torch.tensor(value, dtype=torch.float64), value + 0.9 * question.within)
        for style in styles:
            verdict = practice.answer(question.id, style)
            assert (verdict.right, verdict.name) == (answer.right, answer.name), style
    for value in (question.right.what + 1.5 * question.within, 1e9):
        verdict = practice.answer(question.id, value)
        known = any(abs(value - answer.what) <= question.within for answer in question.answers)
        assert known or (verdict.right, verdict.say) == (False, question.hint)


@pytest.mark.parametrize(("name", "question"), questions(Widget))
def test_figures_are_judged_by_their_state(name: str, question: Widget):
    right, wrong = given(name).RIGHT[question.id], given(name).WRONG[question.id]
    assert {answer.name for answer in question.answers if not answer.right} == set(wrong)
    figure = question.figure()
    assert not judge(question, {trait: getattr(figure, trait) for trait in question.names()}).right
    assert set(question.names()) <= set(figure.state_names())
    assert right
    for state in right:
        verdict = exercises.open(name).answer(question.id, state)
        assert verdict.right, (state, verdict)
    said = set()
    for misconception, state in wrong.items():
        verdict = exercises.open(name).answer(question.id, state)
        assert (verdict.right, verdict.name) == (False, misconception), state
        said.add(verdict.say)
    assert len(said) == len(wrong)


@pytest.mark.parametrize(("name", "question"), questions(Code))
def test_a_right_function_is_accepted_in_three_styles(name: str, question: Code):
    styles = given(name).RIGHT[question.id]
    assert len(styles) >= 3
    for count, function in enumerate(styles):
        verdict = judge_code(question, function)
        assert verdict.right, f"style {count + 1}: {verdict}"
    assert judge_code(question, question.right.what)


@pytest.mark.parametrize(("name", "question"), questions(Code))
def test_every_named_wrong_function_is_rejected_with_its_own_sentence(name: str, question: Code):
    wrong = given(name).WRONG[question.id]
    assert [answer.name for answer, _ in question.named] == list(wrong)
    said = set()
    for misconception, function in wrong.items():
        verdict = judge_code(question, function)
        assert (verdict.right, verdict.name) == (False, misconception), verdict
        said.add(verdict.say)
    assert len(said) == len(wrong) >= 2


@pytest.mark.parametrize(("name", "question"), questions(Code))
def test_its_inputs_tell_all_answers_apart(name: str, question: Code):
    """Clearly so: a checker whose inputs saturate passes a wrong scale."""
    want = trial.outputs(question.right.what, question.cases())
    rivals = [("right", want), *((answer.name, got) for answer, got in question.named)]
    for i, (one, some) in enumerate(rivals):
        for other, others in rivals[:i]:
            assert trial.told_apart(some, others, max(question.within, 1e-4)), f"{one} and {other} look alike"


@pytest.mark.parametrize(("name", "question"), questions(Code))
def test_its_inputs_have_several_shapes_and_are_alike_every_time(name: str, question: Code):
    one, other = question.cases(), question.cases()
    shapes = {tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in case) for case in one}
    assert len(shapes) >= 2
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a, b, strict=True):
            assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


@pytest.mark.parametrize(("name", "question"), questions(Widget))
def test_a_rule_names_traits_that_can_be_written(name: str, question: Widget):
    figure = question.figure()
    for trait in question.names():
        assert isinstance(figure.traits()[trait], traitlets.TraitType)
