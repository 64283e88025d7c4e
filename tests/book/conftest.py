import pytest
from nbformat import NotebookNode

from tests.book import made


@pytest.fixture(scope="session")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    """A small chapter, run. Tests copy it before they spoil it."""
    return made.chapter(tmp_path_factory.mktemp("book"))


@pytest.fixture
def stored(chapter: NotebookNode) -> NotebookNode:
    return made.copied(chapter)
