"""What a chapter's cells need beside attention: a fixed start, source on the page, numbers in the prose.

Works in the book, in Jupyter and in Colab, with nothing installed but IPython.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import torch

from companion import check, plots

__all__ = ["device", "glue", "show_source", "start"]


def start(seed: int = 0, threads: int = 1) -> None:
    """Begin a chapter: seed every generator of torch, fix the number of threads, draw as the book does.

    Args:
        seed: of ``torch.manual_seed``.
        threads: how many CPU threads to use: sums differ in the last digits between 1 and 2.

    Raises:
        TypeError: no ints.
        ValueError: ``seed`` is negative or too large, or ``threads`` less than 1.
    """
    if check.integer("seed", seed, minimum=0) >= 2**64:
        raise ValueError(f"seed must be less than 2**64, got {seed}")
    torch.manual_seed(seed)
    torch.set_num_threads(check.integer("threads", threads))
    torch.set_printoptions(precision=4, sci_mode=False, linewidth=88)
    plots.use_style()


def device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def glue(**values: str | int) -> None:
    """Name numbers of a run, so that the prose can quote them and cannot drift.

    In the text, ``{glue:text}`name``` stands for the value.

    Args:
        values: text, already formatted, or ints. A float is refused: it would print digits that differ between
            machines.

    Raises:
        TypeError: a value that is neither a str nor an int.

    Example:
        ``glue(largest=f"{weights.max():.3f}")``
    """
    from IPython.display import display

    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise TypeError(f"{name} must be a str or an int, got {type(value).__name__}; format it first")
        record = {"application/papermill.record/text/plain": repr(value)}
        display(
            record, raw=True, metadata={"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}}
        )


def show_source(*objects: Any, docstrings: bool = False) -> Any:
    """Show how something is written: the code that runs, not a copy of it.

    Args:
        objects: functions, methods or classes, shown in this order.
        docstrings: show their documentation as well.

    Returns:
        A ``Markdown`` for the notebook to show.

    Raises:
        TypeError: something whose source cannot be found, or ``docstrings`` is no bool.
    """
    from IPython.display import Markdown

    check.flag("docstrings", docstrings)
    parts = []
    for thing in objects:
        try:
            source = textwrap.dedent(inspect.getsource(thing))
        except (TypeError, OSError) as error:
            raise TypeError(f"objects must have Python source, got {thing!r}: {error}") from None
        parts.append(source if docstrings else _without_docstrings(source))
    return Markdown("```python\n" + "\n\n".join(part.rstrip() + "\n" for part in parts) + "```")


def _without_docstrings(source: str) -> str:
    """Drop documentation and the blank lines under it; keep comments and layout."""
    lines = source.splitlines()
    drop: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or ast.get_docstring(node) is None:
            continue
        first = node.body[0]
        if len(node.body) == 1 or first.lineno == node.lineno:
            continue  # nothing would be left that parses
        last = first.end_lineno or first.lineno
        while last < len(lines) and not lines[last].strip():
            last += 1
        drop.update(range(first.lineno, last + 1))
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in drop)
