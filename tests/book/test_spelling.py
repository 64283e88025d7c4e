"""Words are checked where an author wrote them, and nowhere else."""

from pathlib import Path

import nbformat

from tools.notebooks import chapters, text
from tools.spelling import misspelled

# Not written out, since codespell reads this file too.
WRONG = "t" + "eh"


def stored(folder: Path, *cells: nbformat.NotebookNode) -> Path:
    path = folder / "01-words.ipynb"
    path.write_text(text(nbformat.v4.new_notebook(cells=list(cells))), encoding="utf-8")
    return path


def test_prose_code_caption_and_alt_text_are_read(tmp_path: Path) -> None:
    shown = {"mystnb": {"figure": {"caption": f"Once {WRONG} caption"}, "image": {"alt": f"and {WRONG} picture"}}}
    path = stored(
        tmp_path,
        nbformat.v4.new_markdown_cell(f"# Words\n\nIn {WRONG} beginning"),
        nbformat.v4.new_code_cell("right = 1"),
        nbformat.v4.new_code_cell(f"x = 1  # {WRONG} first", metadata=shown),
    )
    wrong = f"{WRONG} ==> the"
    assert misspelled([path]) == [f"01-words.ipynb: cell {number}: {wrong}" for number in (1, 3, 3, 3)]


def test_outputs_are_not_read(tmp_path: Path) -> None:
    picture = nbformat.v4.new_output("display_data", data={"image/png": f"iVBO/{WRONG}/w0KGgo="})
    assert misspelled([stored(tmp_path, nbformat.v4.new_code_cell("draw()", outputs=[picture]))]) == []


def test_the_chapters_are_spelled_right() -> None:
    assert misspelled(chapters()) == []
