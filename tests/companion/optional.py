"""Packages that not everybody has installed: a test that needs one is skipped without it, but never in CI."""

import os
import pkgutil
from importlib.util import find_spec

import pytest

import companion

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here asks the network

KERNELS = {f"companion.kernels.flash_{part}" for part in ("backward", "blocks", "forward")}
"""Written in Triton's language, so that they cannot be imported without it; ``companion.kernels.flash`` can."""


def modules(*, figures: bool = False) -> list[str]:
    """Every module of the package that can be imported here: there is no Triton on a Mac.

    The interactive figures, which bring ipywidgets along and are no functions, only if asked for: they have
    ``tests/widgets``.
    """
    names = [found.name for found in pkgutil.walk_packages(companion.__path__, "companion.")]
    names = [name for name in names if figures or not name.startswith("companion.widgets")]
    return [name for name in names if name not in KERNELS or find_spec("triton")]


def need(*packages: str) -> None:
    """Skip the test, or the whole module that asks while it is imported."""
    missing = [name for name in packages if find_spec(name) is None]
    if not missing:
        return
    said = f"{', '.join(missing)} not installed: make setup does it"
    if os.environ.get("CI"):
        pytest.fail(said, pytrace=False)
    pytest.skip(said, allow_module_level=True)
