"""The book, built once; a browser and a server for it."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Response

from tests.site.pages import BOOK, DESKTOP, NO_AXE, ROOT, SITE
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


@pytest.fixture
def open_page(browser: Browser, site: str) -> Iterator[Callable[..., Page]]:
    """Open a page; at the end, nothing may have gone wrong in it, nor been asked of another host."""
    wrong: list[str] = []
    context = browser.new_context(reduced_motion="reduce", viewport=DESKTOP)  # type: ignore[arg-type]
    page = context.new_page()

    def answered(response: Response) -> None:
        if response.status >= 400:
            wrong.append(f"{response.status} {response.url}")

    page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on("response", answered)
    own = urlsplit(site).netloc

    def asked(url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != own:
            wrong.append(f"another host: {url}")

    page.on("request", lambda request: asked(request.url))

    def go(name: str, viewport: dict[str, int] = DESKTOP, scheme: str = "light") -> Page:
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(f"{site}/{name}")
        return page

    yield go
    context.close()
    assert not wrong


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, said in ((NO_BROWSER, "NOT TESTED IN A BROWSER"), (NO_AXE, "NOT TESTED BY AXE-CORE")):
        skipped = [report for report in terminalreporter.stats.get("skipped", []) if reason in str(report.longrepr)]
        if skipped:
            terminalreporter.section(said, red=True, bold=True)
            terminalreporter.line(f"{len(skipped)} tests were skipped: {reason}", red=True)
