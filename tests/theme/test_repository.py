import subprocess
from pathlib import Path

import pytest

from theme.paying_attention.repository import find


def clone(folder: Path, remote: str | None) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if remote:
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", remote], check=True)
    return folder


def test_the_variables_come_before_the_remote(tmp_path: Path) -> None:
    folder = clone(tmp_path, "https://github.com/remote/book.git")
    assert find({"REPOSITORY": "me/fork", "GITHUB_REPOSITORY": "ci/fork"}, folder) == "me/fork"
    assert find({"GITHUB_REPOSITORY": "ci/fork"}, folder) == "ci/fork"
    assert find({"REPOSITORY": " ", "GITHUB_REPOSITORY": ""}, folder) == "remote/book"


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/remote/book",
        "https://github.com/remote/book.git",
        "https://github.com/remote/book/",
        "git@github.com:remote/book.git",
        "ssh://git@github.com/remote/book.git",
    ],
)
def test_reads_every_form_of_a_github_remote(tmp_path: Path, remote: str) -> None:
    assert find({}, clone(tmp_path, remote)) == "remote/book"


@pytest.mark.parametrize(
    "remote", [None, "https://git.example.org/remote/book.git", "/srv/book", "https://notgithub.com/a/b"]
)
def test_knows_no_other_host(tmp_path: Path, remote: str | None) -> None:
    assert find({}, clone(tmp_path, remote)) is None


def test_a_malformed_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="owner/name"):
        find({"REPOSITORY": "https://github.com/me/fork"}, tmp_path)
