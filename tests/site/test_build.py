"""What the site's own extension does while it builds, seen on a book of two pages."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bs4 import BeautifulSoup

from tests.site.pages import ROOT

CHAPTER = "03-scaling"


def make_book(folder: Path, text: str) -> Path:
    """Write a book with the real configuration, one page and one chapter."""
    book = folder / "book"
    book.mkdir()
    (folder / "theme").symlink_to(ROOT / "theme")
    for name in ("_config.yml", "references.bib"):
        shutil.copy(ROOT / "book" / name, book)
    (book / "_toc.yml").write_text(
        f"format: jb-book\nroot: index\nparts:\n  - numbered: 2\n    chapters:\n      - file: {CHAPTER}\n"
    )
    (book / "index.md").write_text("# A small book\n\nIt is here to be built, and then it is thrown away.\n")
    cell = {"cell_type": "markdown", "metadata": {}, "source": f"# A chapter\n\n{text}\n", "id": "only"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (book / f"{CHAPTER}.ipynb").write_text(json.dumps(notebook))
    return book


def build(book: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k not in ("REPOSITORY", "GITHUB_REPOSITORY")}
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(book), "-W", "-n", "--keep-going"]
    return subprocess.run(command, capture_output=True, text=True, env=environ | variables)


def chapter(book: Path) -> BeautifulSoup:
    return BeautifulSoup((book / "_build" / "html" / f"{CHAPTER}.html").read_text("utf8"), "html.parser")


def test_without_a_repository_there_is_no_button_and_the_build_says_so(tmp_path: Path) -> None:
    book = make_book(tmp_path, "Text with $Q$.")
    run = build(book)
    assert run.returncode == 0, run.stderr
    assert "No repository is known" in run.stdout
    links = [str(link["href"]) for link in chapter(book).select("a[href]")]
    assert not [link for link in links if link.startswith("http")]
    assert not chapter(book).select(".dropdown-launch-buttons")


def test_a_repository_gives_buttons_that_name_it(tmp_path: Path) -> None:
    book = make_book(tmp_path, "Text.")
    run = build(book, REPOSITORY="someone/fork")
    assert run.returncode == 0, run.stderr
    links = {str(link["href"]) for link in chapter(book).select(".article-header-buttons a[href^=http]")}
    assert links == {
        "https://github.com/someone/fork",
        f"https://colab.research.google.com/github/someone/fork/blob/main/book/{CHAPTER}.ipynb",
        f"https://mybinder.org/v2/gh/someone/fork/main?urlpath=lab/tree/book/{CHAPTER}.ipynb",
    }


FAULTS = {
    r"$\frac{1}{$": "Unexpected end",
    r"$$\unknowncommand{Q}$$": "unknowncommand",
    "$$\n\\begin{align} a &= b \\end{align}\n$$": "numbers itself",
    r"$\htmlClass{x}{Q}$": "htmlExtension",  # Jupyter and Colab could not show it
    r"$\href{https://example.org}{Q}$": "refuses",
}


def test_a_fault_in_an_equation_fails_the_build_and_says_where(tmp_path: Path) -> None:
    run = build(make_book(tmp_path, "\n\nAnd so on.\n\n".join(FAULTS)))
    assert run.returncode != 0
    faults = [line for line in run.stderr.splitlines() if "maths:" in line]
    assert len(faults) == len(FAULTS)
    for line, reason in zip(faults, FAULTS.values(), strict=True):
        assert reason in line
        assert f"{CHAPTER}.ipynb:" in line


def test_a_fault_fails_the_next_build_too(tmp_path: Path) -> None:
    book = make_book(tmp_path, "See {ref}`nowhere`.")
    for _ in "12":
        run = build(book)
        assert run.returncode != 0
        assert "undefined label: 'nowhere'" in run.stderr


def test_a_chapter_keeps_its_number(tmp_path: Path) -> None:
    book = make_book(tmp_path, "See {eq}`one`.\n\n$$x$$ (one)\n\n## A section")
    run = build(book)
    assert run.returncode == 0, run.stderr
    page = chapter(book)
    assert [tag.get_text().strip() for tag in page.select("article .section-number")] == ["3.", "3.1."]
    assert "(3.1)" in page.select("article section > p")[0].get_text()
