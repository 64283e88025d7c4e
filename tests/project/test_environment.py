"""What makes .venv says clearly what is wrong, and knows which Python an environment came from."""

import os
import sys
import venv
from pathlib import Path

import pytest

from tools import environment


@pytest.mark.parametrize(("version", "refused"), [((2, 7), True), ((3, 10), True), ((3, 11), False), ((4, 0), False)])
def test_an_old_python_is_refused_in_a_sentence(version: tuple[int, int], refused: bool) -> None:
    said = environment.refusal(version)
    assert bool(said) is refused
    if refused:
        assert said.startswith("This project needs Python 3.11 or newer, and ")
        assert f" is {version[0]}.{version[1]}. " in said


def test_the_script_compiles_under_old_pythons() -> None:
    # No f-strings or annotations: whoever meets the refusal has a Python that may not know them.
    source = Path(environment.__file__).read_text(encoding="utf-8")
    tree = compile(source, "environment.py", "exec", flags=0x400)
    nodes = {type(node).__name__ for node in __import__("ast").walk(tree)}
    assert not nodes & {"JoinedStr", "AnnAssign", "NamedExpr", "AsyncFunctionDef", "Match"}


def test_an_environment_knows_its_python(tmp_path: Path) -> None:
    venv.create(tmp_path / "one", with_pip=False)
    made_from = environment.base(str(tmp_path / "one"))
    assert made_from is not None
    assert environment.is_from(str(tmp_path / "one"), made_from)
    assert not environment.is_from(str(tmp_path / "one"), os.devnull)
    assert not environment.is_from(str(tmp_path / "none"), sys.executable)


def test_a_failed_environment_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(command: list[str]) -> int:
        target = Path(command[-1])
        target.mkdir()
        (target / "pyvenv.cfg").touch()
        return 1

    monkeypatch.setattr(environment.subprocess, "call", half)
    with pytest.raises(SystemExit, match="python3-venv"):
        environment.make(str(tmp_path / "half"))
    assert not (tmp_path / "half").exists()
