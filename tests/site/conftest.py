"""The book, built once; a browser and a server for it."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.site.pages import BOOK, ROOT, SITE
from tools import browser as chromium

NO_BROWSER = "no Chromium: install it, or set CHROMIUM to its path"


def is_stale() -> bool:
    """A source is newer than the built site."""
    built = SITE / "searchindex.js"
    if not built.exists():
        return True
    sources = [path for folder in (BOOK, ROOT / "theme") for path in folder.rglob("*")]
    kept = [p for p in sources if p.is_file() and not {"_build", "node_modules", "__pycache__"} & set(p.parts)]
    return max(path.stat().st_mtime for path in kept) > built.stat().st_mtime


def build() -> None:
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(BOOK), "-W", "-n", "--keep-going"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, f"the book does not build:\n{run.stderr[-3000:]}"


@pytest.fixture(scope="session", autouse=True)
def built_book() -> None:
    # Under xdist every worker comes here: one builds, the others wait for it.
    with Path(tempfile.gettempdir(), f"paying-attention-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_stale():
            build()


@pytest.fixture(scope="session")
def site(built_book: None) -> Iterator[str]:
    """Address of a server of the site, on a port of its own."""
    with chromium.serving(SITE) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium.find() is None:
        if os.environ.get("CI"):
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    with chromium.chromium() as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_BROWSER in str(report.longrepr)]
    if skipped:
        terminalreporter.section("NOT TESTED IN A BROWSER", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests were skipped: {NO_BROWSER}", red=True)
