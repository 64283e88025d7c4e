"""Every stored chapter is whole, in normal form, and says nothing of the machine it ran on."""

import re
from pathlib import Path

import pytest

from tests.site.pages import PAGES
from tools.faults import faults
from tools.notebooks import BOOK, chapters, normal, read, text

CHAPTERS = [
    "01-intuition",
    "02-queries-keys-values",
    "03-scaling",
    "04-softmax",
    "05-scaled-dot-product-attention",
    "06-masks",
    "07-multi-head",
]


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_exists(name: str) -> None:
    assert (BOOK / f"{name}.ipynb").is_file()


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_chapter_has_no_fault(path: Path) -> None:
    assert faults(path) == []


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_normal_form_is_a_fixed_point(path: Path) -> None:
    once = normal(read(path))
    assert text(normal(once)) == text(once) == path.read_text(encoding="utf-8")


def test_no_notebook_hides_in_a_folder() -> None:
    hidden = [path for path in BOOK.rglob("*.ipynb") if path.parent != BOOK and "_build" not in path.parts]
    assert hidden == [], "nbval and these tests look at book/*.ipynb"


def test_every_page_is_in_the_table_of_contents() -> None:
    # Sphinx leaves a page out that _toc.yml does not name, and says nothing that fails.
    edited = re.compile(r"\d\d-.+\.md")  # a chapter as text, while it is edited
    pages = [path for kind in ("*.ipynb", "*.md") for path in BOOK.glob(kind) if not edited.fullmatch(path.name)]
    assert {path.stem for path in pages} == set(PAGES)
