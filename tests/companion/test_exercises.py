"""A set at work: what a checker says to functions that misbehave, and what is kept of an answer."""

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from companion import exercises
from companion.exercises import diagnose, trial
from companion.exercises.judge import Verdict, judge_code, markdown, read_number
from companion.exercises.rule import Rule, near, same, softmax, state
from companion.exercises.spec import Code, Right, Wrong, randn
from companion.exercises.store import FORMAT, Store, normalised

QUESTION = Code(
    "twice",
    "Double x.",
    function="twice(x)",
    minutes=1,
    stars=1,
    inputs=lambda g: [(randn(g, 2, 3),), (randn(g, 4, 4),)],
    answers=[
        Right("twice", lambda x: 2 * x, "It is doubled."),
        Wrong("squared", lambda x: x * x, "That is the square."),
        Wrong("turned", lambda x: 2 * x.T, "It is turned over."),
    ],
    hint="Two times.",
)


def endless(x: torch.Tensor) -> torch.Tensor:
    while True:
        try:  # noqa: SIM105 - as students write
            x = x + 1
        except Exception:
            pass


def in_place(x: torch.Tensor) -> torch.Tensor:
    x *= 2
    return x


def leaving(x: torch.Tensor) -> torch.Tensor:
    raise SystemExit(1)


def broken(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("five of six\n  `things`")


def unwritten(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


def without_return(x: torch.Tensor) -> None:
    x = 2 * x


def seen(x: torch.Tensor) -> torch.Tensor:
    return 2 * x if x.shape == (2, 3) else x


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (endless, "had not come to an end after 10 seconds for inputs (2, 3)"),
        (in_place, "changes what it is given (argument 1 for inputs (2, 3))"),
        (leaving, "raised SystemExit for inputs (2, 3): `1`"),
        (broken, "raised ValueError for inputs (2, 3): `five of six 'things'`."),
        (unwritten, "nothing in it yet"),
        (without_return, "returned None: is there a `return`?"),
        (seen, "In 1 of 2 cases it is right. Every number is 0.5 times what it should be for inputs (4, 4)."),
        (lambda: 1, "It is called as `twice(x)`."),
        (lambda x: [2 * x], "returned a list, where a tensor is asked for"),
        (lambda x: (2 * x, x), "returned a tuple of 2, and one tensor"),
        (lambda x: (2 * x).tolist(), "returned a list"),
        (lambda x: (2 * x).to(torch.complex128), "returned a complex128 tensor"),
        (lambda x: 2 * x[0], "returned shape (3) for inputs (2, 3), where (2, 3) is asked for"),
        (lambda x: 2 * x.flatten(), "right and in order, but in shape (6): it should be (2, 3)"),
        (lambda x: 2 * x if x.shape == (2, 3) else 2 * x.T, "rows and columns are exchanged"),
        (lambda x: 2 * x * math.nan, "6 of 6 numbers are NaN for inputs (2, 3)"),
        (lambda x: 2 * x / 0, "6 of 6 numbers are infinite"),
        (lambda x: (2 * x).float(), "float32, and float64 is asked for: keep the dtype"),
        (lambda x: 2 * x + 1e-5, "off by up to 1e-05"),
        (lambda x: -x, "Every number is -0.5 times what it should be"),
        (lambda x: 2 * x + torch.randn(()), "draws random numbers"),
        (lambda x: x + 1, "Two times."),
        (3, "Hand over the function itself, without calling it: got int."),
    ],
)  # fmt: skip
def test_what_misbehaves_is_told_in_a_sentence(function: Any, says: str, monkeypatch: pytest.MonkeyPatch):
    if function is endless:
        monkeypatch.setattr(trial, "SECONDS", 0.3)
        says = says.replace("10", "0")
    verdict = judge_code(QUESTION, function)
    assert verdict.right is False
    assert verdict.name is None
    assert says in verdict.say


def test_an_endless_loop_ends_in_other_threads_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trial, "SECONDS", 0.3)
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(judge_code(QUESTION, endless).say))
    thread.start()
    thread.join(60)
    assert "had not come to an end" in said[0]


def test_printing_and_drawing_are_mentioned_and_no_fault(capsys: pytest.CaptureFixture[str]):
    def talking(x: torch.Tensor) -> torch.Tensor:
        print("here", torch.rand(1))
        return x + x

    verdict = judge_code(QUESTION, talking)
    assert verdict
    assert "also prints" in verdict.say
    assert "random numbers" in verdict.say
    assert capsys.readouterr().out == ""


def test_a_check_leaves_everything_as_it_was():
    torch.manual_seed(3)
    before = torch.get_rng_state()

    def meddling(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)
        return 2 * x

    assert judge_code(QUESTION, meddling)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_default_dtype() is torch.float32


def test_stopping_by_hand_stops():
    def stopped(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge_code(QUESTION, stopped)


def test_a_mistake_is_named_though_its_empty_rows_come_out_otherwise():
    """Inverting a mask whose row is all True leaves a row with nothing: NaN, or the mean, by how it is written."""
    question = exercises.open("ch05")._set["attention"]
    for fill in (-math.inf, -1e9, torch.finfo(torch.float64).min):

        def inverted(q: Any, k: Any, v: Any, mask: Any, fill: float = fill) -> Any:
            return torch.softmax((q @ k.T / q.shape[1] ** 0.5).masked_fill(mask, fill), -1) @ v

        assert judge_code(question, inverted).name == "inverted mask"


def test_ready_made_mistakes_that_cannot_be_told_apart_drop_out():
    def without_mask(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)

    question = Code(
        "weights", "Weights.", function="weights(q, k)", minutes=1, stars=1, hint="Five steps.",
        inputs=lambda g: [(randn(g, 2, 3, 4), randn(g, 2, 5, 4))],
        answers=[Right("weights", without_mask, "So it is."), *diagnose.weights()],
    )  # fmt: skip
    names = [answer.name for answer, _ in question.named]
    assert {"no scale", "over queries", "softmax twice"} <= set(names)
    assert not {"inverted mask", "masked with zero", "keys not transposed"} & set(names)


@pytest.mark.parametrize(
    "table", [diagnose.attention, diagnose.weights, diagnose.softmax, diagnose.heads, diagnose.merged]
)
def test_ready_made_mistakes_have_names_and_sentences_of_their_own(table: Any):
    wrongs = table()
    assert len({wrong.name for wrong in wrongs}) == len({wrong.say for wrong in wrongs}) == len(wrongs) >= 2
    assert [wrong.name for wrong in table(wrongs[-1].name)] == [wrongs[-1].name]
    with pytest.raises(ValueError, match=r"names must be of .*got 'nonsense'"):
        table("nonsense")
    with pytest.raises(TypeError, match="names must be strs, got int"):
        table(3)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.45", 0.45), (".45", 0.45), (" 0,45 ", 0.45), ("1/3", 1 / 3), ("−2", -2.0), ("1e-3", 1e-3), ("-1 / 4", -0.25)],
)
def test_a_number_as_one_types_it(text: str, number: float):
    assert read_number(text) == number


@pytest.mark.parametrize("text", ["", "a", "1/0", "1/2/3", "1_000", "inf", "nan", "1,000.5", "0x1", "1e999", "--1"])
def test_what_is_no_number(text: str):
    assert math.isnan(read_number(text))


def test_a_verdict_reads_well():
    verdict = Verdict(False, "x", "Use `a_b` for A_B, 2 * 3 < 7.")
    assert str(verdict) == "Not yet. Use `a_b` for A_B, 2 * 3 < 7."
    assert verdict._repr_markdown_() == r"Not yet. Use `a_b` for A\_B, 2 \* 3 \< 7."
    assert not verdict
    assert Verdict(True, "x", "So.")
    assert not Verdict(None, None, "No answer yet.")
    assert markdown("a ` b_c") == "a ` b\\_c"


def test_a_rule_is_no_truth_before_it_meets_a_state():
    rule = softmax(state("scores")).max()
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(rule > 0.2)
    with pytest.raises(TypeError, match="write same"):
        rule == 1  # noqa: B015
    with pytest.raises(TypeError, match="no entries"):
        list(rule)
    assert near(rule, 0.5, 0.1).holds({"scores": [1.0, 1.0]})
    assert same(state("on"), True).names() == ["on"]
    assert repr(Rule({"state": "on"})) == 'Rule({"state": "on"})'


# --- A set at work ---


def test_it_says_how_it_stands():
    practice = exercises.open("ch05")
    assert practice.check("axis").right is None
    assert "No answer yet" in str(practice.check("axis"))
    for question in practice.questions:
        assert "No answer yet" in str(practice.check(question))
    assert repr(practice).splitlines()[1] == "  axis       choice  1 minute, ★☆☆  open"
    practice.answer("axis", "queries")
    assert repr(practice).splitlines()[1].endswith("not yet")
    assert practice.check("axis") == practice.answer("axis", "queries")
    practice.answer("axis", "keys")
    assert repr(practice).splitlines()[1].endswith("right")


def test_a_figure_is_an_answer_once_it_is_moved():
    practice = exercises.open("ch05")
    figure = practice._figure(practice._set["spared"])
    assert practice.check("spared").right is None
    figure.causal = True
    assert practice.check("spared").name == "other table"
    figure.step = "weights"
    figure.row = 2
    assert practice.check("spared").right
    assert practice.answer("spared").right


def test_a_state_that_the_figure_refuses_changes_nothing():
    practice = exercises.open("ch05")
    with pytest.raises(ValueError, match="spared: row must be less than 3"):
        practice.answer("spared", {"causal": True, "row": 4})
    figure = practice._figure(practice._set["spared"])
    assert (figure.causal, figure.row) == (False, 0)


def test_the_page_and_the_cells_answer_alike(capsys: pytest.CaptureFixture[str]):
    practice = exercises.open("ch05")
    practice.show("axis")
    view = practice._shown["axis"]
    view.answer = "both"  # as the page does
    assert practice.check("axis").name == "both"
    practice.answer("axis", "keys")
    assert view.answer == "keys"
    assert "Along each row" in capsys.readouterr().out
    practice.show("spared")
    assert practice._shown["spared"].figure is practice._figure(practice._set["spared"])
    practice.show("attention")
    practice.show("masked")


def test_nothing_is_written_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    practice = exercises.open("ch05")
    practice.answer("axis", "keys")
    assert not list(tmp_path.iterdir())


def add_one(x: float) -> float:
    return x + 1


def test_answers_outlive_the_kernel(tmp_path: Path):
    practice = exercises.open("ch05", student=" Ada@Example.org ", folder=tmp_path)
    practice.answer("axis", "both")
    practice.answer("masked", "2/5")
    practice.answer("spared", {"causal": True, "step": "weights", "row": 1})
    practice.check("attention", add_one)
    exercises.open("ch01", folder=tmp_path).answer("double", 0.1 + 0.7)
    stored = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    assert stored["format"] == FORMAT == "companion-answers/1"
    assert stored["student"] == "ada@example.org"
    assert stored["sets"]["ch01"] == {"double": {"kind": "number", "answer": 0.8}}
    kept = stored["sets"]["ch05"]
    assert kept["axis"] == {"kind": "choice", "answer": "both"}
    assert kept["masked"] == {"kind": "number", "answer": 0.4}
    assert kept["spared"]["answer"] == {"causal": True, "column": 0, "row": 1, "step": "weights"}
    assert kept["attention"] == {"kind": "code", "answer": "def add_one(x: float) -> float:\n    return x + 1\n"}
    assert list(tmp_path.iterdir()) == [tmp_path / "answers.json"]

    again = exercises.open("ch05", folder=tmp_path)
    assert again.check("axis").name == "both"
    assert again.check("masked").right
    assert again._figure(again._set["spared"]).row == 1
    assert again.check("spared").name == "grown"
    assert [line.split()[-1] for line in repr(again).splitlines()[1:]] == ["yet", "right", "yet", "answered"]


def test_a_figure_that_nobody_touched_is_absent(tmp_path: Path):
    practice = exercises.open("ch05", folder=tmp_path)
    practice.show("spared")
    practice.answer("axis", "keys")
    stored = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    assert set(stored["sets"]["ch05"]) == {"axis"}


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    practice = exercises.open("ch05", folder=tmp_path)
    practice.answer("axis", "keys")
    before = (tmp_path / "answers.json").read_text(encoding="utf-8")

    def fails(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        practice.answer("axis", "both")
    assert (tmp_path / "answers.json").read_text(encoding="utf-8") == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": "companion-answers/1", "student": null, "sets": {"ch05": {"axis": 3}}}', "damaged"),
        ('{"format": "companion-answers/2", "student": null, "sets": {}}', "format 'companion-answers/1', got"),
        ('{"format": "companion-answers/1", "student": "bob", "sets": {}}', "of student 'ada', got one of 'bob'"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_kept(tmp_path: Path, text: str, says: str):
    (tmp_path / "answers.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        exercises.open("ch05", student="Ada", folder=tmp_path)
    assert (tmp_path / "answers.json").read_text(encoding="utf-8") == text


def test_an_answer_can_be_taken_back(tmp_path: Path):
    store = Store(folder=tmp_path)
    store.put("ch05", "axis", "choice", "keys")
    store.put("ch05", "axis", "choice", None)
    assert store.answered("ch05") == {}
    assert json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))["sets"] == {}


def test_a_students_id_has_one_spelling():
    composed, apart = "\u00e9", "e\u0301"
    assert normalised(f"  {composed}VA ") == normalised(f"{apart}va")
