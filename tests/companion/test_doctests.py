"""The examples in the documentation are true."""

import doctest
import importlib
import pkgutil

import pytest

import companion
from tests.companion.optional import need

MODULES = ["companion", *(found.name for found in pkgutil.walk_packages(companion.__path__, "companion."))]
HAVE_EXAMPLES = {
    "ablation",
    "accuracy",
    "attention",
    "backends",
    "beam",
    "blocks",
    "cache",
    "capture",
    "characters",
    "clinic.adapter",
    "clinic.entry",
    "convert",
    "convert_hf",
    "corpus.grammar",
    "corpus.text",
    "dates",
    "diagnostics",
    "doctor",
    "embedding",
    "feed_forward",
    "filters",
    "generate",
    "head_scores",
    "history",
    "integrated_gradients",
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
    "rollout",
    "rotary",
    "seq2seq",
    "sparse_masks",
    "splitmix",
    "tasks",
    "training",
    "vocabulary",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str):
    if name == "companion.convert_hf":
        need("transformers")
    done = doctest.testmod(importlib.import_module(name))
    assert done.failed == 0
    assert bool(done.attempted) == (name.removeprefix("companion.") in HAVE_EXAMPLES)
