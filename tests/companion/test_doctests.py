"""The examples in the documentation are true."""

import doctest
import importlib
import pkgutil

import pytest

import companion

MODULES = ["companion", *(found.name for found in pkgutil.walk_packages(companion.__path__, "companion."))]
HAVE_EXAMPLES = {"attention", "backends", "diagnostics", "lookup", "mask", "masks", "multihead"}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str):
    done = doctest.testmod(importlib.import_module(name))
    assert done.failed == 0
    assert bool(done.attempted) == (name.removeprefix("companion.") in HAVE_EXAMPLES)
