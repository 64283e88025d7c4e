"""What the doctor's report is, how it is shown, and the command line."""

import json
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import nn

import companion
from companion import doctor as command
from companion.clinic.catalogue import CHAPTERS, FAULTS
from companion.clinic.report import Finding, Outcome, Report
from companion.diagnostics import doctor
from tests.companion.doctor_faults import FAULTS as PLANTED
from tests.companion.doctor_faults import EmptyNan, by_d


def test_the_module_and_the_function_share_a_name_in_peace():
    assert callable(doctor)
    assert command.__name__ == "companion.doctor"
    assert companion.diagnostics.doctor is doctor


def test_a_finding_says_all():
    (finding,) = doctor(by_d, d_model=64).findings
    assert finding.name == "scale-1-over-d"
    assert (finding.measured, finding.expected) == (pytest.approx(1 / 16), 0.25)
    assert "square root" in finding.cause
    assert "√D" in finding.equation
    assert finding.chapter == 3
    assert "03-scaling" in finding.read
    text = str(doctor(by_d, d_model=64))
    for word in (finding.symptom[:30], "0.0625, which should be 0.25", "likely cause", "breaks", "chapter 3"):
        assert word in text


def test_every_fault_has_a_chapter_of_the_book():
    names = re.findall(r"^\d+\. `([\w-]+)`", BOOK.read_text(), re.M) if BOOK.exists() else []
    for fault in FAULTS.values():
        file, _ = CHAPTERS[fault.chapter]
        assert file.startswith(f"{fault.chapter:02d}-")
        assert not names or file in names
        assert fault.cause
        assert fault.equation


BOOK = Path(__file__).parents[3] / "shared/design/book.md"


def test_most_faults_are_planted():
    """What is not: faults of modules that cannot run, and catch-alls."""
    never = {"nan-at-once", "remembers", "heads-mixed", "rows-sum", "half-overflow", "cached-differs", "scale-other"}
    never |= {"not-equivariant", "gradient-nan"}
    assert set(FAULTS) - {case.name for case in PLANTED.values()} == never


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_escaped_and_has_no_script():
    finding = Finding.of("softmax-twice", "one softmax", "<script>alert(1)</script>", 2.0, 1.0)
    report = Report("<img src=x>", ("<b>fact</b>",), (Outcome("<i>check</i>", "ok", "a < b & c"),), (finding,))
    reader = Reader()
    reader.feed(report._repr_html_())
    assert not {"script", "img", "b", "i"} & set(reader.tags)
    for text in ("<img src=x>", "<b>fact</b>", "<i>check</i>", "a < b & c", "<script>alert(1)</script>"):
        assert text in reader.text
    assert reader.tags.count("table") == 1
    assert not re.search(r"#[0-9a-fA-F]{3}|rgb|black|white", report._repr_html_())  # the page's colours, light or dark


def test_json_round_trip():
    report = doctor(EmptyNan(16, 4), d_model=16)
    plain = json.loads(report.to_json())
    assert plain == report.to_dict() | {key: json.loads(json.dumps(report.to_dict()[key])) for key in plain}
    assert plain["ok"] is False
    assert plain["findings"][0]["name"] == "empty-row"
    assert plain["findings"][0]["measured"] == "nan"
    assert "06-masks" in plain["findings"][0]["read"]
    assert {outcome["status"] for outcome in plain["outcomes"]} <= {"ok", "fault", "note", "skipped", "untold"}


def test_a_report_is_the_same_each_time():
    assert doctor(by_d, d_model=16) == doctor(by_d, d_model=16)
    assert doctor(by_d, d_model=16).ok is False


def make() -> nn.Module:
    return companion.MultiHeadAttention(16, 4)


def leave() -> nn.Module:
    raise SystemExit(0)


class Sleeps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(600)
        return x


def loud() -> nn.Module:
    print("made")
    return make()


READY = companion.MultiHeadAttention(16, 4)
HERE = "tests.companion.test_doctor"


def run(*arguments: str) -> int:
    return command.main([*arguments, "--d-model", "16"])


@pytest.mark.parametrize(
    "arguments",
    [
        (f"{HERE}:make",),
        (f"{HERE}:READY",),
        (f"{HERE}:READY.forward",),
        ("torch.nn:MultiheadAttention", "--num-heads", "4"),
        ("torch.nn:MultiheadAttention", "--option", "num_heads=4", "--option", "batch_first=true"),
        ("companion:MultiHeadAttention", "--num-heads", "4", "--causal", "--format", "json"),
        ("companion:attend", "--format", "html"),
    ],
)
def test_healthy_is_status_0(arguments: tuple[str, ...], capsys: pytest.CaptureFixture):
    assert run(*arguments) == 0
    out = capsys.readouterr()
    assert "healthy" in out.out
    assert out.err == ""


def test_a_fault_is_status_1(capsys: pytest.CaptureFixture, tmp_path: Path):
    file = tmp_path / "report.json"
    assert run("tests.companion.doctor_faults:by_d", "--format", "json", "--output", str(file)) == 1
    assert json.loads(file.read_text(encoding="utf-8"))["findings"][0]["name"] == "scale-1-over-d"
    assert capsys.readouterr().out == ""
    told = ("--mask-true", "may attend", "--option", "num_heads=4", "--option", "d_model=16")
    assert run("tests.companion.doctor_faults:PolarityTold", *told) == 1
    assert "mask-polarity" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "must be package.module:Name"),
        (("no_such_package:x",), "no_such_package cannot be imported"),
        (("companion:nothing",), "companion has no nothing"),
        (("torch:float32",), "is dtype, neither a module nor a function"),
        (("torch.nn:Linear",), "raised TypeError"),
        (("torch.nn:Linear", "--option", "in_features=3", "--option", "out_features=3"), "could not be examined"),
        ((f"{HERE}:READY", "--option", "a=1"), "--option is for"),
        (("companion/doctor.py:main",), "not a file: write companion.doctor:main"),
        ((f"{HERE}:READY", "--mask", "nothing"), "mask must be an argument of the module"),
        ((f"{HERE}:leave",), "raised SystemExit"),
        ((f"{HERE}:READY", "--seed", "-1"), "seed must be at least 0"),
        ((f"{HERE}:READY", "--output", "/no/such/folder/x"), "No such file"),
    ],
)
def test_what_cannot_be_examined_is_status_2(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture):
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


def test_what_a_module_prints_is_not_in_the_report(capsys: pytest.CaptureFixture):
    assert run(f"{HERE}:loud", "--format", "json") == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["ok"]
    assert out.err == "made\n"


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs alarms")
def test_a_call_that_does_not_come_back_is_interrupted(capsys: pytest.CaptureFixture):
    before, start = signal.getsignal(signal.SIGALRM), time.monotonic()
    assert run(f"{HERE}:Sleeps", "--time-limit", "0.5") == 2
    assert time.monotonic() - start < 60
    assert "longer than time_limit=0.5 s" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize("arguments", [(), ("companion:attend",), ("companion:attend", "--option", "3")])
def test_wrong_arguments_are_explained(arguments: tuple[str, ...], capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert "usage: python -m companion.doctor" in capsys.readouterr().err


def test_help_is_for_newcomers(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for word in (
        '"x", "x, context", "q, k, v"',
        "package.module:Name",
        "examples:",
        "exit status: 0 healthy, 1 faults",
        "--d-model",
        "--option",
    ):
        assert word in out


@pytest.mark.slow
def test_from_a_shell_in_another_folder(tmp_path: Path):
    """The reader's own file, in the folder where the reader stands."""
    (tmp_path / "mine.py").write_text("def attention(q, k, v):\n    return (q @ k.mT).softmax(-1) @ v\n")
    line = [sys.executable, "-m", "companion.doctor", "mine:attention", "--d-model", "16"]
    root = str(Path(companion.__file__).parents[1])
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": root}, timeout=200)
    assert done.returncode == 1, done.stderr
    assert "scale-missing" in done.stdout
    assert done.stderr == ""


def test_what_the_readme_shows_is_what_one_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Its file, its command, and each line of its output in turn; an ellipsis stands for lines."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code, shown = re.search(
        r"## Is my attention right\?.*?```python\n(.*?)```.*?```console\n(.*?)```", text, re.S
    ).groups()
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    call, *lines = shown.splitlines()
    assert command.main(call.removeprefix("$ python -m companion.doctor ").split()) == 1
    out = iter(capsys.readouterr().out.splitlines())
    assert all(line in out for line in lines if line != "...")


def test_half_precision_of_the_world_is_left_alone():
    """A default dtype of another kind changes nothing that is found."""
    torch.set_default_dtype(torch.float64)
    try:
        assert doctor(companion.MultiHeadAttention(16, 4), d_model=16).ok
    finally:
        torch.set_default_dtype(torch.float32)
