"""The examples in the documentation are true."""

import doctest
import importlib
import pkgutil

import pytest

import companion
from tests.companion.optional import need

MODULES = ["companion", *(found.name for found in pkgutil.walk_packages(companion.__path__, "companion."))]
HAVE_EXAMPLES = {
    "attention",
    "backends",
    "beam",
    "blocks",
    "cache",
    "convert",
    "convert_hf",
    "diagnostics",
    "embedding",
    "feed_forward",
    "filters",
    "generate",
    "lookup",
    "mask",
    "masks",
    "minilm",
    "models",
    "multihead",
    "norms",
    "positions",
    "rotary",
    "seq2seq",
    "sparse_masks",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str):
    if name == "companion.convert_hf":
        need("transformers")
    done = doctest.testmod(importlib.import_module(name))
    assert done.failed == 0
    assert bool(done.attempted) == (name.removeprefix("companion.") in HAVE_EXAMPLES)
