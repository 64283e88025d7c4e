"""Where this book lives, so that forks get their own links without an edit."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_GITHUB_REMOTE = re.compile(r"(?:^|[/@])github\.com[:/](?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?$")


def find(environ: Mapping[str, str], folder: Path) -> str | None:
    """``owner/name`` from REPOSITORY, else GITHUB_REPOSITORY, else the remote ``origin``; or None."""
    for variable in ("REPOSITORY", "GITHUB_REPOSITORY"):
        if name := environ.get(variable, "").strip():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{variable} must read owner/name, not {name!r}")
            return name
    try:
        command = ["git", "-C", str(folder), "remote", "get-url", "origin"]
        remote = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    found = _GITHUB_REMOTE.search(remote)
    return found["name"] if found else None


def _buttons(app: Sphinx, config: Config) -> None:
    options = config.html_theme_options
    name = find(os.environ, Path(app.srcdir))
    if name is None:
        # jupyter-book's default names its own repository: no link is better than a wrong one.
        for key in ("repository_url", "repository_branch", "launch_buttons"):
            options.pop(key, None)
        logger.info("No repository is known (REPOSITORY=owner/name): pages get no launch buttons.")
        return
    options.update(
        repository_url=f"https://github.com/{name}",
        repository_branch="main",
        path_to_docs="book",
        use_repository_button=True,
        launch_buttons={
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
        },
    )
    logger.info("Launch and repository buttons point to %s.", name)


def setup(app: Sphinx) -> None:
    app.connect("config-inited", _buttons)
