"""The doctor on the command line: ``python -m companion.doctor package.module:Name --d-model 64``.

Exit status: 0 healthy, 1 faults found, 2 could not be examined.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from torch import nn

from companion.alarm import alarm, possible
from companion.clinic import Adapter, Report
from companion.clinic import doctor as examine
from companion.clinic.adapter import INPUTS, MEANINGS, SHAPES
from companion.clinic.patient import OutOfTime

__all__ = ["main"]

_WIDTHS = ("d_model", "embed_dim", "dim", "hidden_size", "n_embd", "emb_dim", "d_in", "model_dim", "width")
_HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "h")

_ABOUT = """\
Examine an attention module or function: does the future leak, is the mask the right way round, is the softmax over the
keys, is the scale right, ...? It changes one token at a time, and looks whose output notices. It need not be trained.
"""
_EXAMPLES = """\
NAME is package.module:Name, importable from here. Name is one of
  a module or a function of q, k, v           my_code:attention
  a class                                     my_code:SelfAttention --option num_heads=4
  a function without arguments that makes one my_code:make_attention

examples:
  python -m companion.doctor torch.nn:MultiheadAttention --d-model 64 --option num_heads=4 --option batch_first=true
  python -m companion.doctor my_code:CausalSelfAttention --d-model 64 --causal
  python -m companion.doctor my_code:attention --d-model 64 --num-heads 4 --format json --output report.json

exit status: 0 healthy, 1 faults were found, 2 it could not be examined
"""


class _Unusable(Exception):
    """What was asked for cannot be had; the text says why in a sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine what the arguments name, and print the report.

    Args:
        arguments: those of the command line, if not given.

    Returns:
        0 if healthy, 1 if faults were found, 2 if it could not be examined.

    Raises:
        TypeError: ``arguments`` is no list of strings.
        SystemExit: arguments that make no sense, with status 2, and ``--help``, with status 0.

    Example:
        >>> main(["companion:attend", "--d-model", "16", "--format", "verdict"])
        attend: healthy: 16 checks passed
        0
    """
    if arguments is not None and (isinstance(arguments, str) or not isinstance(arguments, Sequence)):
        raise TypeError(f"arguments must be a list of strings, got {type(arguments).__name__}")
    options = _parser().parse_args(arguments)
    try:
        with redirect_stdout(sys.stderr):  # what the module prints is no part of the report
            module = load(options.name, options.d_model, options.num_heads, dict(options.option))
        with _interrupted(options.time_limit):
            report = examine(module, **_given(options))
        text = _text(report, options.format)
        if options.output is not None:
            options.output.write_text(text + "\n", encoding="utf-8")
    except (_Unusable, TypeError, ValueError, OSError) as error:
        print(f"companion.doctor: {error}", file=sys.stderr)
        return 2
    if options.output is None:
        print(text)
    if report.trouble is not None:
        print(f"companion.doctor: {report.patient} {report.verdict}", file=sys.stderr)
        return 2
    return 0 if report.ok else 1


def load(name: str, d_model: int, num_heads: int | None, options: dict[str, Any]) -> Callable[..., Any]:
    """What ``package.module:Name`` names: made, if it is a class or a function without arguments."""
    path, colon, inside = name.partition(":")
    if not (path and colon and inside):
        raise _Unusable(f"NAME must be package.module:Name, got {name!r}")
    if path.endswith(".py") or "/" in path:
        module = ".".join(Path(path).with_suffix("").parts)
        raise _Unusable(f"NAME must be package.module:Name, not a file: write {module}:{inside}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        thing: Any = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        raise _Unusable(f"{path} cannot be imported: {_said(error)}") from error
    for part in inside.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            raise _Unusable(f"{path} has no {inside}") from None
    if not callable(thing):
        raise _Unusable(f"{name} is {type(thing).__name__}, neither a module nor a function")
    if inspect.isclass(thing):
        return _made(thing, name, _class_options(thing, d_model, num_heads, options))
    if not isinstance(thing, nn.Module) and (options or _needs_nothing(thing)):
        return _made(thing, name, options)
    if options:
        raise _Unusable(f"--option is for a class or a function that makes a module, and {name} is a module")
    return thing


def _made(maker: Callable[..., Any], name: str, options: dict[str, Any]) -> Callable[..., Any]:
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    try:
        thing = maker(**options)
    except (Exception, SystemExit) as error:
        hint = "give its arguments by --option, or name a function without arguments that makes it"
        raise _Unusable(f"{name}({given}) raised {_said(error)}; {hint}") from error
    if not callable(thing):
        raise _Unusable(f"{name}({given}) made {type(thing).__name__}, neither a module nor a function")
    return thing


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}"


def _interrupted(seconds: float) -> AbstractContextManager[None]:
    """An alarm for a call that does not come back, where there are alarms."""
    if not (possible() and 0 < seconds < 1e6):
        return nullcontext()
    return alarm(seconds + 0.1, OutOfTime)  # calls look at the clock themselves: this is for the last


def _class_options(thing: type, d_model: int, num_heads: int | None, options: dict[str, Any]) -> dict[str, Any]:
    """What a class asks for and was not told, where the doctor's own options say it."""
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return options
    for names, value in ((_WIDTHS, d_model), (_HEADS, num_heads)):
        name = next((n for n in names if n in parameters), None)
        if value is not None and name is not None:
            options = {name: value} | options
    return options


def _needs_nothing(thing: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The doctor's own arguments."""
    adapter = Adapter(
        inputs=options.inputs,
        mask=options.mask,
        mask_true=options.mask_true,
        mask_shape=options.mask_shape,
        causal=options.causal_argument,
        batch_first=options.batch_first,
    )
    names = ("d_model", "causal", "num_heads", "cross", "positions", "length", "fresh", "seed", "time_limit")
    return {name: getattr(options, name) for name in names} | {"adapter": adapter}


def _text(report: Report, form: str) -> str:
    forms: dict[str, Callable[[], str]] = {
        "text": lambda: str(report),
        "json": report.to_json,
        "html": lambda: (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" '
            f'content="light dark"><title>Doctor</title></head><body>{report.to_html()}</body></html>'
        ),
        "verdict": lambda: f"{report.patient}: {report.verdict}",
    }
    return forms[form]()


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, {"True": True, "False": False, "None": None}.get(value, value)


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m companion.doctor",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    yes_no = argparse.BooleanOptionalAction
    add = parser.add_argument
    add("name", metavar="NAME", help="what to examine: package.module:Name")
    add("--d-model", type=int, required=True, metavar="M", help="width of the inputs")
    add("--num-heads", type=int, metavar="H", help="number of heads; of a function of q, k, v the heads are M/H wide")
    add(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the class, as JSON",
    )
    add("--causal", action=yes_no, help="whether it should be causal; found out if not said")
    add("--cross", action=yes_no, help="examine it with a context only, or without only")
    add("--positions", action=yes_no, help="whether the order of the tokens should matter")
    add("--inputs", choices=INPUTS, metavar="INPUTS", help=f"what it takes: {_quoted(INPUTS)}")
    add("--mask", metavar="ARGUMENT", help="which argument takes a mask")
    meanings = f"what True in the mask should mean: {_quoted(MEANINGS)}"
    add("--mask-true", choices=MEANINGS, metavar="MEANING", help=meanings)
    add("--mask-shape", choices=SHAPES, metavar="SHAPE", help=f"shape of the mask: {_quoted(SHAPES)}")
    add("--causal-argument", metavar="ARGUMENT", help="which argument, True or False, asks for causality")
    add("--batch-first", action=yes_no, help="whether inputs are (B, L, M), not (L, B, M)")
    add("--length", type=int, metavar="L", help="length of the inputs, for a module that takes one only")
    add(
        "--own-weights",
        dest="fresh",
        action="store_false",
        help="keep its weights; fresh random ones show faults better",
    )
    add("--seed", type=int, default=0, help="seed of the inputs (0)")
    add("--time-limit", type=float, default=60.0, metavar="SECONDS", help="after which what is left is skipped (60)")
    add("--format", choices=("text", "json", "html", "verdict"), default="text", help="how to report (text)")
    add("--output", type=Path, metavar="FILE", help="write the report there, not to the screen")
    return parser


if __name__ == "__main__":
    sys.exit(main())
