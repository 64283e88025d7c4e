"""``python -m companion.bench``: how fast, how much memory, and beside what.

Everything is measured against something else in the same run, in turns, since a time alone says as much of the machine
as of the code. The table ends with what the package promises, and whether it was kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import torch

from companion.benchmarks import figure, report
from companion.benchmarks.cases import CASES, run, said
from companion.benchmarks.machine import cores, describe, load
from companion.benchmarks.results import Results, Row, from_json, to_json
from companion.benchmarks.settings import Job, Settings

__all__: list[str] = []

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

OUTPUTS = {"json": ".json", "figure": ".png", "markdown": ".md"}

_EPILOG = """
examples:
  python -m companion.bench --quick                    a first look, half a minute
  python -m companion.bench                            everything, some ten minutes on two cores
  python -m companion.bench attend decoding            two cases
  python -m companion.bench backends --dtype float16   every backend that can run here, in half precision
  python -m companion.bench --json all.json            keep the numbers
  python -m companion.bench --load all.json --figure all.png   draw them later, without measuring again

reading the table:
  "ours" and "theirs" are median times (or memory). The next column compares the two within each round and quotes the
  median over the rounds, with the quartiles in brackets: half of the rounds lie between them. It is a ratio, ours over
  theirs; with a x, how many times faster ours is; with a unit, what ours adds; for a range of lengths, the power of the
  length with which the cost grows. Wide brackets mean that the machine was busy: run it again.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0, or 1 where ``--check`` found a goal that is not met."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    _check_files(parser, chosen)
    results = _loaded(parser, chosen) if chosen.load else _measured(parser, chosen)
    if results is None:
        return 130
    sys.stdout.write(report.terminal(results))
    _write(chosen, results)
    return int(chosen.check and any(row.falls_short for row in results.rows))


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, CASES))
    cases = "\n".join(f"  {name:{width}}  {case.about}" for name, case in CASES.items())
    parser = argparse.ArgumentParser(
        prog="python -m companion.bench",
        description=f"Measure the package beside PyTorch.\n\ncases (all of them, if none is named):\n{cases}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", metavar="case", help="what to measure; see the list above")
    parser.add_argument("--device", help="cpu, cuda or cuda:1; a GPU if PyTorch finds one")
    parser.add_argument("--dtype", choices=DTYPES, help="float32 on a CPU, bfloat16 on a GPU, if not given")
    parser.add_argument("--threads", type=int, metavar="N", help="of PyTorch on the CPU; its own choice, if not given")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: half a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the numbers")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw time and memory over length (.png, .svg)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as the book includes them")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="all three, as bench-cpu.json, .png and .md, say")
    parser.add_argument("--load", type=Path, metavar="FILE", help="measure nothing; show what --json stored")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    return parser


def _check_files(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Before ten minutes of work, not after them."""
    if chosen.into is not None and not chosen.into.is_dir():
        parser.error(f"--into: there is no folder {chosen.into}")
    for name in OUTPUTS:
        file: Path | None = getattr(chosen, name)
        if file is None:
            continue
        if not file.parent.is_dir():
            parser.error(f"--{name}: there is no folder {file.parent}")
        if file.is_dir():
            parser.error(f"--{name}: {file} is a folder")
    if chosen.figure is not None and chosen.figure.suffix not in (".png", ".svg", ".pdf"):
        parser.error(f"--figure: the name must end in .png, .svg or .pdf, got {chosen.figure.name}")


def _loaded(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> Results:
    unused = [name for name in ("cases", "device", "dtype", "threads", "quick") if getattr(chosen, name)]
    if unused:
        parser.error(f"--load shows stored numbers; it does not go with {', '.join(unused)}")
    try:
        return from_json(chosen.load.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"--load: {error}")


def _measured(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> Results | None:
    unknown = [name for name in chosen.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; choose from {', '.join(CASES)}")
    settings = _settings(parser, chosen)
    _warn_if_busy(sys.stderr)
    names = [name for name in CASES if not chosen.cases or name in chosen.cases]
    rows: list[Row] = []
    try:
        # As they would be stored, so that a table made now and one made of the file are the same.
        return from_json(to_json(run(names, settings, _teller(sys.stderr), rows)))
    except KeyboardInterrupt:
        _say(sys.stderr, "stopped; what there is so far:\n")
        sys.stdout.write(report.terminal(Results(describe(settings.device), said(settings), rows)))
        return None
    finally:
        _say(sys.stderr, "")


def _settings(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> Settings:
    name = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        parser.error(f"--device must be cpu, cuda or cuda:N, got {name}")
    if device.type not in ("cpu", "cuda"):
        parser.error(f"--device must be cpu, cuda or cuda:N, got {name}")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            parser.error("--device: PyTorch finds no CUDA device here")
        if (device.index or 0) >= torch.cuda.device_count():
            parser.error(f"--device: there are {torch.cuda.device_count()} CUDA devices, got {name}")
    if chosen.threads is not None:
        if chosen.threads < 1:
            parser.error(f"--threads must be at least 1, got {chosen.threads}")
        torch.set_num_threads(chosen.threads)
    dtype = chosen.dtype or ("bfloat16" if device.type == "cuda" else "float32")
    return Settings.of(device, DTYPES[dtype], quick=chosen.quick)


def _warn_if_busy(stream: TextIO) -> None:
    """Threads that wait for each other and for a core are slow in a way that no median heals."""
    wanted, there = load(), cores()
    if wanted is not None and wanted > there / 2:
        stream.write(
            f"This machine is busy: {wanted:.1f} processes want its {there} cores. Times will be rough, and ratios "
            "of short ones wrong; --threads 1 makes the best of it.\n"
        )


def _teller(stream: TextIO) -> Callable[[int, int, Job], None]:
    """A line that is written over, on a terminal; elsewhere nothing, or a log would be full of it."""
    return lambda done, of, job: _say(stream, f"{done + 1} of {of}  {job.case}: {job.what}")


def _say(stream: TextIO, text: str) -> None:
    if stream.isatty():
        stream.write(f"\r\x1b[K{text}")
        stream.flush()


def _write(chosen: argparse.Namespace, results: Results) -> None:
    files = {name: [] if getattr(chosen, name) is None else [getattr(chosen, name)] for name in OUTPUTS}
    if chosen.into is not None:
        stem = f"bench-{results.settings.get('device', 'cpu')}"
        for name, ending in OUTPUTS.items():
            files[name].append(chosen.into / f"{stem}{ending}")
    for file in files["json"]:
        file.write_text(to_json(results), encoding="utf-8")
    for file in files["markdown"]:
        file.write_text(report.markdown(results), encoding="utf-8")
    if not all(figure.draw(results, file) for file in files["figure"]):
        print("--figure: these cases have no lines to draw; memory, window and decoding have", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
