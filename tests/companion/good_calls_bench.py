"""Good calls of the arithmetic of benchmarks: see ``test_typing_runtime.py``."""

import torch

from companion import bench
from companion.benchmarks import cases, machine, report
from companion.benchmarks.results import Results, from_json, to_json
from companion.benchmarks.settings import Settings, Sizes
from companion.benchmarks.timing import exponent, interleave, ratios, spread, stopwatch

times = interleave({"a": lambda: 1, "b": lambda: None}, rounds=3, seconds=0.5, warmup=1, seed=3, take=stopwatch("cpu"))
spread(ratios(times["a"], tuple(times["b"])))
spread([1])
exponent((1, 2), [1.0, 2.0])
stopwatch(torch.device("cpu"))(int, 2)

small = Sizes(
    heads=2, width=4, naive=(8,), layer=(8,), decode_at=(2, 4), decode_layers=1, vocabulary=7, small_vocabulary=5
)
made = cases.run(["naive", "multihead", "decoding"], Settings(sizes=small, rounds=2, seconds=0.01))
assert from_json(to_json(made)).cases == made.cases
report.markdown(made)
report.terminal(Results(machine.describe(torch.device("cpu")), {}, []))
assert callable(bench.main)
