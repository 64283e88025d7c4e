"""The chapters' test fails when it should: run as `make test` runs it, over notebooks spoiled in one way each."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import NotebookNode

from tests.book.made import ERROR, NUMBERS, PICTURE, RANDOM, RESULT, WIDGET, code, copied, write
from tools.notebooks import ROOT, chapters, code_cells, read

NBVAL = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.nbval_strict", "--nbval", "--nbval-current-env"]
NBVAL += ["--nbval-sanitize-with", "tests/nbval-sanitize.cfg", "--nbval-cell-timeout", "120"]

# One group: under xdist, one worker makes the one run that these tests read.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nbval")]


def nbval(*paths: Path) -> str:
    """Return what a strict run over these notebooks, all in one folder, prints; its last word is passed or failed."""
    named = ["--config-file", "pyproject.toml", "--rootdir", str(paths[0].parent), "--color=no"]
    command = [sys.executable, *NBVAL, *named, *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout + f"\n{'failed' if done.returncode else 'passed'}"


def change_number(notebook: NotebookNode) -> None:
    output = code(notebook, NUMBERS).outputs[0]
    output.text = output.text.replace("0.198", "0.199")


def change_result(notebook: NotebookNode) -> None:
    code(notebook, RESULT).outputs[0].data["text/plain"] = "1.01"


def clear_all(notebook: NotebookNode) -> None:
    for _, cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None


def drop_image(notebook: NotebookNode) -> None:
    del code(notebook, PICTURE).outputs[0].data["image/png"]


def drop_widget(notebook: NotebookNode) -> None:
    del code(notebook, WIDGET).outputs[0].data["application/vnd.jupyter.widget-view+json"]


def raise_nothing(notebook: NotebookNode) -> None:
    cell = code(notebook, ERROR)
    cell.source, cell.outputs = "pass", []


def raise_another(notebook: NotebookNode) -> None:
    code(notebook, ERROR).outputs[0].ename = "KeyError"


def clear_ignored(notebook: NotebookNode) -> None:
    code(notebook, RANDOM).outputs = []


# What is wrong, how to make it so, the cell that must fail, and what must be said.
SPOILED: dict[str, tuple[Callable[[NotebookNode], None], int, str]] = {
    "number": (change_number, 0, "Cell outputs differ"),
    "result": (change_result, 1, "Cell outputs differ"),
    "cleared": (clear_all, 0, "was never run in the stored file"),
    "image": (drop_image, 2, "gives outputs of the kinds"),
    "widget": (drop_widget, 4, "gives outputs of the kinds"),
    "silent": (raise_nothing, 3, "tagged raises-exception, and raises nothing"),
    "other-error": (raise_another, 3, "Cell outputs differ"),
    "ignored": (clear_ignored, 5, "gives outputs of the kinds"),
}


@pytest.fixture(scope="module")
def printed(chapter: NotebookNode, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one run over the whole notebook and all spoiled ones prints: kernels are slow to start."""
    folder = tmp_path_factory.mktemp("spoiled")
    paths = [write(chapter, folder / "whole.ipynb")]
    for name, (spoil, _, _) in SPOILED.items():
        notebook = copied(chapter)
        spoil(notebook)
        paths.append(write(notebook, folder / f"{name}.ipynb"))
    return nbval(*paths)


def test_the_whole_notebook_passes(printed: str) -> None:
    assert "whole.ipynb" not in printed.split("short test summary")[1]


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_notebook_fails_in_the_right_cell(name: str, printed: str) -> None:
    _, cell, said = SPOILED[name]
    failed = re.findall(rf"FAILED \S*\b{name}\.ipynb::Cell (\d+)", printed)
    assert str(cell) in failed
    assert failed == [str(cell)] or name == "cleared"
    (report,) = re.findall(rf"_+ {name}\.ipynb::Cell {cell} _+\n(.*?)\n(?=_+ |=+ )", printed, re.DOTALL)
    assert said in report


def test_one_changed_digit_of_a_real_chapter_fails(tmp_path: Path) -> None:
    path = chapters()[0]
    notebook = read(path)
    for _, cell in code_cells(notebook):
        streams = [output for output in cell.outputs if output.output_type == "stream"]
        tested = "nbval-ignore-output" not in cell.metadata.get("tags", [])
        if tested and streams and (digit := re.search(r"\d(?=\D*$)", streams[-1].text)):
            new = str((int(digit[0]) + 1) % 10)
            streams[-1].text = streams[-1].text[: digit.start()] + new + streams[-1].text[digit.end() :]
            break
    else:
        pytest.fail(f"{path.name} prints no number")
    # Beside the real one, so that it finds what the chapter finds.
    printed = nbval(write(notebook, tmp_path / path.name))
    assert printed.endswith("failed")
    assert printed.count("FAILED") == 1
    assert "Cell outputs differ" in printed
