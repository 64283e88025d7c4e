"""All cases by name, and a run of some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from companion.benchmarks import attention_cases, layer_cases, process_cases
from companion.benchmarks.machine import describe
from companion.benchmarks.results import Results, Row
from companion.benchmarks.settings import Job, Settings, dtype_name

__all__: list[str] = []


class Case(NamedTuple):
    """What a case is about, in a line, and what it runs."""

    about: str
    jobs: Callable[[Settings], Iterator[Job]]


CASES = {
    "attend": Case("what attend() adds to PyTorch's own attention", attention_cases.of_attend),
    "naive": Case("attend() beside the formula as it stands", attention_cases.of_naive),
    "multihead": Case("MultiHeadAttention beside nn.MultiheadAttention", layer_cases.of_multihead),
    "chunked": Case("the chunked backend beside PyTorch's flash kernel", attention_cases.of_chunked),
    "window": Case("a sliding window beside causal attention to everything", attention_cases.of_window),
    "memory": Case("how peak memory grows with length", process_cases.of_memory),
    "decoding": Case("a token with a KVCache, early, late, and without one", layer_cases.of_decoding),
    "backends": Case("every backend: time, memory, rate", attention_cases.of_backends),
    "import": Case("what import companion adds to import torch", process_cases.of_import),
}

Tell = Callable[[int, int, Job], None]
"""``(done, of, next)``, called before each job."""


def run(names: Sequence[str], settings: Settings, tell: Tell | None = None, into: list[Row] | None = None) -> Results:
    """Measure the cases of these names.

    Args:
        names: of cases.
        settings: where, how large, how long.
        tell: is told what comes next.
        into: where rows are put as they come, for whoever has to stop halfway.
    """
    jobs = [job for name in names for job in CASES[name].jobs(settings)]
    rows: list[Row] = [] if into is None else into
    machine = describe(settings.device)
    for done, job in enumerate(jobs):
        if tell is not None:
            tell(done, len(jobs), job)
        rows += job.rows()
    return Results(machine, said(settings), rows)


def said(settings: Settings) -> dict[str, str]:
    """The settings in words."""
    sizes = settings.sizes
    return {
        "device": settings.device.type,
        "dtype": dtype_name(settings.dtype),
        "shape": f"B = 1, H = {sizes.heads}, D = {sizes.width}",
        "rounds": f"up to {settings.rounds}, {settings.seconds:g} s a comparison",
    }
