"""A book of one page, built as the real one is."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from tests.site.pages import ROOT
from tools.execute import run
from tools.notebooks import text


def small_book(book: Path, cell: str) -> Path:
    """Run one cell, put it in a page of its own, and return the built site."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell(cell.strip())]
    )
    (book / "index.ipynb").write_text(text(run(notebook, book)), encoding="utf-8")
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    config = (ROOT / "book" / "_config.yml").read_text(encoding="utf-8").replace("../theme", str(ROOT / "theme"))
    (book / "_config.yml").write_text(config, encoding="utf-8")
    shutil.copy(ROOT / "book" / "references.bib", book)
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(book), "-n", "-W", "--keep-going"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return book / "_build" / "html"
