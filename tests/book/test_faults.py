"""Each fault that a stored chapter can have is found, and named."""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.book.made import ERROR, FIGURE, NUMBERS, PICTURE, RESULT, WIDGET, code, write
from tools.faults import faults, speaks
from tools.notebooks import WIDGET_STATE, WIDGET_VIEW


def test_a_chapter_as_executed_has_none(stored: NotebookNode, tmp_path: Path) -> None:
    assert faults(write(stored, tmp_path / "01.ipynb")) == []


def clear(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def clear_one(notebook: NotebookNode) -> None:
    code(notebook, NUMBERS).outputs = []


def recount(notebook: NotebookNode) -> None:
    code(notebook, RESULT).execution_count = 7


def drop_alt(notebook: NotebookNode) -> None:
    code(notebook, PICTURE).metadata = {}


def blank_alt(notebook: NotebookNode) -> None:
    code(notebook, PICTURE).metadata.mystnb.image.alt = "  "


def drop_image(notebook: NotebookNode) -> None:
    code(notebook, PICTURE).outputs = []


def empty_image(notebook: NotebookNode) -> None:
    code(notebook, PICTURE).outputs[0].data["image/png"] = ""


def drop_state(notebook: NotebookNode) -> None:
    del notebook.metadata["widgets"]


def figure(notebook: NotebookNode) -> NotebookNode:
    """The stored state of the figure."""
    model = code(notebook, FIGURE).outputs[0].data[WIDGET_VIEW]["model_id"]
    return notebook.metadata.widgets[WIDGET_STATE].state[model].state


def mute_figure(notebook: NotebookNode) -> None:
    figure(notebook).alt = ""


def drop_still(notebook: NotebookNode) -> None:
    del code(notebook, FIGURE).outputs[0].data["image/png"]


def keep_an_old_script(notebook: NotebookNode) -> None:
    figure(notebook)["_esm"] += "// of last year"


def untag(notebook: NotebookNode) -> None:
    code(notebook, ERROR).metadata = {}


def silence(notebook: NotebookNode) -> None:
    code(notebook, ERROR).outputs = []


def skip(notebook: NotebookNode) -> None:
    code(notebook, RESULT).metadata["tags"] = ["nbval-skip"]


def warn(notebook: NotebookNode) -> None:
    code(notebook, NUMBERS).outputs.append(nbformat.v4.new_output("stream", name="stderr", text="UserWarning: old"))


def show_folder(notebook: NotebookNode) -> None:
    code(notebook, NUMBERS).outputs[0].text = "saved to /home/somebody/x.pt\n"


def show_address(notebook: NotebookNode) -> None:
    code(notebook, RESULT).outputs[0].data["text/plain"] = "<object at 0x7f64f2b51f50>"


def forget_companion(notebook: NotebookNode) -> None:
    for start in (NUMBERS, FIGURE):
        cell = code(notebook, start)
        cell.source = cell.source.replace("import companion", "import math").replace("from companion", "from math")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (clear, "a fresh run would make it 1"),
        (clear_one, "code cell 1: prints or draws, and no output is stored"),
        (recount, "code cell 2: stored as run number 7"),
        (drop_alt, "code cell 3: stores an image without alt text"),
        (blank_alt, "code cell 3: stores an image without alt text"),
        (drop_image, "code cell 3: prints or draws, and no output is stored"),
        (empty_image, "code cell 3: stores an empty image"),
        (drop_state, "code cell 5: shows a widget whose state is not stored"),
        (mute_figure, "code cell 8: shows a figure that has no alt text"),
        (drop_still, "code cell 8: shows a figure without a still picture"),
        (keep_an_old_script, "not in normal form"),
        (untag, "code cell 4: stores an error, and has no tag"),
        (silence, "code cell 4: is tagged raises-exception, and stores no error"),
        (skip, "code cell 2: is never tested"),
        (warn, "code cell 1: stores a warning or other text on stderr: UserWarning: old"),
        (show_folder, "code cell 1: stores a folder of one machine: /home/somebody/x.pt"),
        (show_address, "code cell 2: stores a memory address"),
        (forget_companion, "imports nothing from companion"),
    ],
)
def test_a_fault_is_named(
    spoil: Callable[[NotebookNode], None], said: str, stored: NotebookNode, tmp_path: Path
) -> None:
    spoil(stored)
    found = faults(write(stored, tmp_path / "01.ipynb"))
    assert any(said in fault for fault in found), found


def test_another_layout_of_the_file_is_a_fault(stored: NotebookNode, tmp_path: Path) -> None:
    path = tmp_path / "01.ipynb"
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert faults(path) == ["not in normal form: python -m tools.notebooks --fix"]


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("print(1)", True),
        ("x = 1\nplt.show()", True),
        ("glue(a='1')\ny = 2", True),
        ("x = print", False),
        ("def f():\n    print(1)", False),
        ("if x:\n    print(1)", False),
        ("%matplotlib inline", False),
        (WIDGET, False),
    ],
)
def test_speaks(source: str, answer: bool) -> None:
    assert speaks(source) is answer
