"""The examples in the documentation are true."""

import doctest
import importlib

import pytest
import torch

from companion.kernels import flash
from tests.companion.optional import modules, need

MODULES = ["companion", *modules(figures=True)]
HAVE_EXAMPLES = {
    "ablation",
    "accuracy",
    "attention",
    "backends",
    "beam",
    "benchmarks.timing",
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
    "distributed",
    "doctor",
    "embedding",
    "exercises",
    "exercises.diagnose",
    "exercises.practice",
    "exercises.rule",
    "feed_forward",
    "filters",
    "generate",
    "head_scores",
    "history",
    "integrated_gradients",
    "kernels.flash",
    "lookup",
    "losses",
    "mask",
    "masks",
    "minilm",
    "models",
    "multihead",
    "norms",
    "online",
    "optimizer",
    "positions",
    "recipes",
    "rollout",
    "rotary",
    "seq2seq",
    "sparse_masks",
    "sparsemax",
    "splitmix",
    "streaming",
    "tasks",
    "training",
    "vocabulary",
    "widgets",
    "widgets.decode",
    "widgets.head_view",
    "widgets.lookup",
    "widgets.mask_editor",
    "widgets.position",
    "widgets.projection",
    "widgets.scaling",
    "widgets.softmax",
    "widgets.steps",
    "widgets.tiling",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str):
    if name == "companion.convert_hf":
        need("transformers")
    if name == "companion.kernels.flash" and (reason := flash.why_not(torch.device("cpu"), None)):
        pytest.skip(reason)
    done = doctest.testmod(importlib.import_module(name))
    assert done.failed == 0
    assert bool(done.attempted) == (name.removeprefix("companion.") in HAVE_EXAMPLES)
