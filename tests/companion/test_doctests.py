"""The examples in the documentation are true."""

import doctest
import importlib
import pkgutil

import pytest

import companion
from tests.companion.optional import need

MODULES = ["companion", *(found.name for found in pkgutil.walk_packages(companion.__path__, "companion."))]
HAVE_EXAMPLES = {
    "accuracy",
    "attention",
    "backends",
    "beam",
    "blocks",
    "cache",
    "characters",
    "convert",
    "convert_hf",
    "corpus.grammar",
    "corpus.text",
    "dates",
    "diagnostics",
    "embedding",
    "feed_forward",
    "filters",
    "generate",
    "history",
    "lookup",
    "losses",
    "mask",
    "masks",
    "minilm",
    "models",
    "multihead",
    "norms",
    "optimizer",
    "positions",
    "rotary",
    "seq2seq",
    "sparse_masks",
    "splitmix",
    "tasks",
    "training",
    "vocabulary",
    "widgets.decode",
    "widgets.position",
    "widgets.tiling",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str):
    if name == "companion.convert_hf":
        need("transformers")
    done = doctest.testmod(importlib.import_module(name))
    assert done.failed == 0
    assert bool(done.attempted) == (name.removeprefix("companion.") in HAVE_EXAMPLES)
