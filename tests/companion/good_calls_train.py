"""Good calls of what trains by a command and reads it back: see ``test_typing_runtime.py``."""

import os
import tempfile
from pathlib import Path

import torch

from companion import checkpoint, parallel, train
from companion.recipes import RECIPES, MaskedText, batch_at, recipe
from companion.tasks import char_corpus

os.environ["TQDM_DISABLE"] = "1"
small = ["--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--batch-size", "2", "--no-progress"]

with tempfile.TemporaryDirectory() as name:
    for kind in ("reverse", "masked"):
        out, weights = f"{name}/{kind}", f"{name}/{kind}.safetensors"
        run = [kind, *small, "--out", out, "--every", "1", "--evaluate-every", "2", "--schedule", "constant"]
        assert train.main([*run, "--steps", "3", "--clip", "none", "--accumulate", "2", "--precision", "bf16"]) == 0
        assert train.main((*run, "--steps", "4", "--resume", "--export", weights, "--export-dtype", "float16")) == 0
        model, task = checkpoint.load(weights)
        checkpoint.load(Path(out), device="cpu")
        checkpoint.load(out, torch.device("cpu"))
        task.batch(2)

for made in RECIPES.values():
    task = made.task()
    config = made.config(task.vocab_size, d_model=8, num_heads=2, dropout=0.1)
    made.evaluation()(made.kind(config))
    batch_at(task, 2, 0, 3)
recipe("reverse").task(held_out=True, length=3, min_length=2)
recipe("dates").task(held_out=True)
MaskedText(char_corpus(8), 0.5).batch(2, seed=1)
assert parallel.pick_device("cpu") == torch.device("cpu")
