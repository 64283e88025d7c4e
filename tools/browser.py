"""Debian's Chromium (or another) for Playwright, which would download one of its own."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from playwright.sync_api import Browser, sync_playwright

from tools.serve import Handler, server

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A container has no sandbox, and nothing that Chromium asks its makers for concerns us.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find() -> str | None:
    """Return the path of a Chromium: the variable CHROMIUM, or the first on the path."""
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium(*more: str) -> Iterator[Browser]:
    """Give a running headless browser, with more arguments than the usual ones."""
    path = find()
    if path is None:
        raise FileNotFoundError("no Chromium: install it, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *more])
        yield browser
        browser.close()


@contextmanager
def serving(folder: Path, kind: type[Handler] = Handler) -> Iterator[str]:
    """Serve a folder on a free port of localhost; give its address, without the last slash."""
    with server(folder, 0, kind) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
