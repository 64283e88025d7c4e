"""Where the norm stands, and whether twelve layers learn.

``python -m companion.benchmarks.norm_placement`` measures it, in some minutes, and writes
``book/results/norm-placement.json``, whose curves chapter 9 draws. Each run reverses ten symbols in place, from
the same random numbers for each kind of block and the same batches.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from companion.benchmarks import machine
from companion.blocks import EncoderBlock
from companion.models import EncoderOnly
from companion.recipes import batch_at, recipe
from companion.training import seed_everything, train

__all__: list[str] = []

RESULTS = Path(__file__).parents[2] / "book" / "results" / "norm-placement.json"
SEEDS = (0, 1, 2)
STEPS = 600
WARMUP = 200
EVERY = 50
TARGET = 0.995
BATCH = 32
LR = 3e-3
MODEL: dict[str, Any] = {"num_layers": 12, "d_model": 32, "num_heads": 4, "d_ff": 64}
KINDS: dict[str, dict[str, Any]] = {
    "pre-LN": {"norm_first": True, "warmup": 0},
    "post-LN": {"norm_first": False, "warmup": 0},
    "post-LN, warm-up": {"norm_first": False, "warmup": WARMUP},
    "post-LN, small start": {"norm_first": False, "warmup": 0, "small": True},
}


class NormedBlock(EncoderBlock):
    """The fault: what is added to is the normed input, so that no path leads around the norms."""

    def _add(self, x: Tensor, norm: nn.Module, f: Callable[[Tensor], Tensor]) -> Tensor:
        y = norm(x)
        return y + self.dropout(f(y))


def build(
    seed: int, *, norm_first: bool = True, small: bool = False, normed: bool = False, **sizes: Any
) -> EncoderOnly:
    """Make a model that is to reverse, with ``MODEL``'s sizes but for those given.

    ``small`` is the start that this package gives to pre-LN stacks unasked: what adds to the stream begins smaller by
    the root of how many do. Without it, all kinds begin with the same numbers.
    """
    which = recipe("in-place")
    options = MODEL | sizes
    vocabulary = which.task().vocab_size
    seed_everything(seed)
    start = EncoderOnly(which.config(vocabulary, **options, norm_first=False), masked_lm=True)
    model = EncoderOnly(which.config(vocabulary, **options, norm_first=norm_first), masked_lm=True)
    model.load_state_dict(start.state_dict(), strict=False)  # which has no last norm
    for block in cast(Iterable[EncoderBlock], model.encoder.blocks):
        if small:
            with torch.no_grad():
                for adding in (block.attention.W_O, block.feed_forward.W_2):
                    adding.weight /= math.sqrt(2 * len(model.encoder.blocks))
        if normed:
            block.__class__ = NormedBlock
    return model


def run(name: str, seed: int, steps: int = STEPS, **sizes: Any) -> dict[str, Any]:
    """Train one, and say what happened: curves are means of ten steps."""
    which = recipe("in-place")
    kind = KINDS[name] | {}
    warmup = kind.pop("warmup")
    model = build(seed, **kind, **sizes)
    batches = (batch_at(which.task(), BATCH, seed, number) for number in range(steps))
    begin = time.process_time()
    history = train(
        model,
        batches,
        steps=steps,
        lr=LR,
        warmup=min(warmup, steps),
        evaluate=which.evaluation(),
        every=EVERY,
        target=TARGET,
        progress=False,
    )
    loss = history.loss
    return {
        "kind": name,
        "seed": seed,
        "loss": [round(sum(loss[i : i + 10]) / len(loss[i : i + 10]), 4) for i in range(0, len(loss), 10)],
        "accuracy": [round(each["accuracy"], 4) for each in history.evaluations],
        "gradient_norm_at_start": round(history.gradient_norm[0], 3),
        "processor_seconds": round(time.process_time() - begin, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all, and write after each."""
    parser = argparse.ArgumentParser(prog="python -m companion.benchmarks.norm_placement", description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=STEPS, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="default: 0 1 2")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    stored: dict[str, Any] = {
        "recipe": {
            "command": "python -m companion.benchmarks.norm_placement",
            "task": "in-place: reverse ten of sixteen symbols, EncoderOnly",
            "model": MODEL,
            "kinds": KINDS,
            "steps": chosen.steps,
            "batch": BATCH,
            "lr": LR,
            "clip": 1.0,
            "every": EVERY,
            "target": TARGET,
        },
        "machine": machine.describe(torch.device("cpu")),
        "runs": [],
    }
    for seed in chosen.seeds:
        for name in KINDS:
            stored["runs"].append(run(name, seed, chosen.steps))
            last = stored["runs"][-1]
            print(name, seed, last["loss"][-1], last["accuracy"][-1], f"{last['processor_seconds']} s", flush=True)
            chosen.output.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
