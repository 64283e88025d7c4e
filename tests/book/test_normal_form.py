"""Two runs of a chapter give one file, and reading it back changes nothing."""

from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.book import made
from tests.book.made import ERROR, FIGURE, NUMBERS, RANDOM, WIDGET, code, copied, write
from tools import execute, notebooks
from tools.execute import run
from tools.notebooks import ROOT, WIDGET_STATE, WIDGET_VIEW, normal, read, text


@pytest.mark.slow
def test_two_runs_agree_but_for_ignored_outputs(stored: NotebookNode, tmp_path: Path) -> None:
    again = made.chapter(tmp_path)
    assert text(again) != text(stored)
    code(again, RANDOM).outputs = code(stored, RANDOM).outputs
    assert text(again) == text(stored)


def test_normal_form_is_a_fixed_point(stored: NotebookNode, tmp_path: Path) -> None:
    path = write(stored, tmp_path / "01.ipynb")
    assert text(normal(read(path))) == path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8").endswith("}\n")


def test_only_models_on_the_page_are_kept_and_they_are_numbered(stored: NotebookNode) -> None:
    shown = code(stored, WIDGET).outputs[0].data[WIDGET_VIEW]["model_id"]
    models = stored.metadata.widgets[WIDGET_STATE].state
    assert shown == f"{1:032x}"
    assert sorted(models) == [f"{number:032x}" for number in range(1, len(models) + 1)]
    children = [name.removeprefix("IPY_MODEL_") for name in models[shown].state.children]
    assert [models[child].model_name for child in children] == ["IntSliderModel", "LabelModel"]
    orphaned = copied(stored)
    code(orphaned, WIDGET).outputs = code(orphaned, FIGURE).outputs = []
    assert "widgets" not in normal(orphaned).metadata


def test_a_link_between_models_on_the_page_is_kept(tmp_path: Path) -> None:
    source = (
        "import ipywidgets\n\na, b = ipywidgets.IntSlider(1), ipywidgets.IntSlider(2)\n"
        "link = ipywidgets.jslink((a, 'value'), (b, 'value'))\nipywidgets.HBox([a, b])"
    )
    linked = run(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), tmp_path)
    models = linked.metadata.widgets[WIDGET_STATE].state
    (link,) = [model.state for model in models.values() if model.model_name == "LinkModel"]
    ends = [end[0].removeprefix("IPY_MODEL_") for end in (link.source, link.target)]
    assert [models[end].state.value for end in ends] == [1, 2]  # a browser makes them equal
    assert normal(linked) == linked


def test_counts_and_ids_follow_the_order(stored: NotebookNode) -> None:
    stored.cells.insert(1, nbformat.v4.new_code_cell("", execution_count=9))
    stored.cells.reverse()
    ordered = normal(stored)
    assert [cell.id for cell in ordered.cells] == [f"cell-{number:03d}" for number in range(1, 11)]
    counts = [cell.execution_count for cell in ordered.cells if cell.cell_type == "code"]
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8, None]


def test_what_editors_leave_goes_and_what_the_book_needs_stays(stored: NotebookNode) -> None:
    stored.metadata["jupytext"] = {"formats": "ipynb,md"}
    stored.metadata.language_info["version"] = "3.12.1"
    cell = code(stored, NUMBERS)
    cell.metadata.update(execution={"iopub.execute_input": "2026"}, tags=["hide-input"], scrolled=True)
    kept = normal(stored)
    assert "jupytext" not in kept.metadata
    assert "version" not in kept.metadata.language_info
    assert code(kept, NUMBERS).metadata == {"tags": ["hide-input"]}


def test_what_was_printed_in_pieces_is_one_output(stored: NotebookNode) -> None:
    cell = code(stored, NUMBERS)
    pieces = [("stdout", "a"), ("stdout", "b\n"), ("stderr", "c"), ("stdout", "d")]
    cell.outputs = [nbformat.v4.new_output("stream", name=name, text=piece) for name, piece in pieces]
    joined = [(output.name, output.text) for output in code(normal(stored), NUMBERS).outputs]
    assert joined == [("stdout", "ab\n"), ("stderr", "c"), ("stdout", "d")]


@pytest.mark.parametrize(
    ("line", "shorter"),
    [
        (f"File {ROOT}/companion/attention.py:9", "File companion/attention.py:9"),
        ("File \x1b[32m/x/lib/python3.12/site-packages/torch/nn.py\x1b[0m:9", "File \x1b[32mtorch/nn.py\x1b[0m:9"),
        ("File ~/.pyenv/lib/python3.11/json/decoder.py:3", "File json/decoder.py:3"),
    ],
)
def test_tracebacks_name_no_folder_of_this_machine(line: str, shorter: str, stored: NotebookNode) -> None:
    code(stored, ERROR).outputs[0].traceback = [line]
    assert code(normal(stored), ERROR).outputs[0].traceback == [shorter]


@pytest.mark.parametrize(("number", "names"), [("", ["01-a", "02-b", "12-c"]), ("2", ["02-b"]), ("12", ["12-c"])])
def test_chapters_are_found_by_number(number: str, names: list[str], tmp_path: Path) -> None:
    for name in ("12-c", "02-b", "01-a"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in notebooks.chapters(number, tmp_path)] == names


@pytest.mark.slow
def test_executing_again_leaves_the_file_alone(stored: NotebookNode, tmp_path: Path) -> None:
    path = write(stored, tmp_path / "01.ipynb")
    before = path.read_bytes()
    assert execute.execute(path).endswith("unchanged")
    assert path.read_bytes() == before


@pytest.mark.slow
def test_executing_stores_what_changed(stored: NotebookNode, tmp_path: Path) -> None:
    cell = code(stored, NUMBERS)
    cell.source = cell.source.replace("0.198", "0.199")
    path = write(stored, tmp_path / "01.ipynb")
    assert execute.execute(path).endswith("stored")
    assert "0.199" in code(read(path), NUMBERS[:10]).outputs[0].text


@pytest.mark.slow
def test_force_stores_ignored_outputs_too(stored: NotebookNode, tmp_path: Path) -> None:
    path = write(stored, tmp_path / "01.ipynb")
    assert execute.execute(path, force=True).endswith("stored")
    assert code(read(path), RANDOM).outputs != code(stored, RANDOM).outputs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "tags", "said"),
    [
        ("1 / 0", [], "code cell 1 raised ZeroDivisionError: division by zero"),
        ("1", ["raises-exception"], "code cell 1 is tagged raises-exception, and raised nothing"),
        ("import os; os._exit(1)", [], "code cell 1: the kernel died"),
    ],
)
def test_a_chapter_that_fails_is_not_stored(source: str, tags: list[str], said: str, tmp_path: Path) -> None:
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": tags})
    path = write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "01.ipynb")
    before = path.read_bytes()
    with pytest.raises(execute.ChapterError, match=said):
        execute.execute(path)
    assert path.read_bytes() == before
