"""Packages that not everybody has installed: a test that needs one is skipped without it, but never in CI."""

import os
from importlib.util import find_spec

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here asks the network


def need(*packages: str) -> None:
    """Skip the test, or the whole module that asks while it is imported."""
    missing = [name for name in packages if find_spec(name) is None]
    if not missing:
        return
    said = f"{', '.join(missing)} not installed: make setup does it"
    if os.environ.get("CI"):
        pytest.fail(said, pytrace=False)
    pytest.skip(said, allow_module_level=True)
