"""Run chapters and store what they give: ``python -m tools.execute [03 ...] [--force]``.

A chapter whose new outputs equal the stored ones is left alone, and so are cells tagged ``nbval-ignore-output``,
whose outputs differ every time; ``--force`` stores those too.
"""

import argparse
import copy
import os
import sys
import time
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools.faults import faults
from tools.notebooks import chapters, code_cells, normal, read, text

CELL_SECONDS = 120
CHAPTER_SECONDS = 45


class ChapterError(Exception):
    """A chapter could not be run to its end; says which cell, and why."""


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Return the notebook as a fresh kernel leaves it, in normal form."""
    fresh = copy.deepcopy(notebook)
    fresh.metadata.pop("widgets", None)
    client = NotebookClient(
        fresh,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=True,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
    )
    count = 0
    # The kernel must be this environment's, whatever kernels the user has.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ["TQDM_DISABLE"] = "1"  # a progress bar would be stored, different each time
    with client.setup_kernel():
        for index, cell in enumerate(fresh.cells):
            count += cell.cell_type == "code" and bool(cell.source.strip())
            try:
                client.execute_cell(cell, index)
            except CellExecutionError as error:
                raise ChapterError(f"code cell {count} raised {error.ename}: {error.evalue}\n{error}") from None
            except CellTimeoutError:
                raise ChapterError(f"code cell {count} ran longer than {CELL_SECONDS} s") from None
            except DeadKernelError:
                raise ChapterError(f"code cell {count}: the kernel died") from None
        client.set_widgets_metadata()
    for count, cell in code_cells(fresh):
        silent = not any(output.output_type == "error" for output in cell.outputs)
        if silent and "raises-exception" in cell.metadata.get("tags", []):
            raise ChapterError(f"code cell {count} is tagged raises-exception, and raised nothing")
    return normal(fresh)


def compared(notebook: NotebookNode) -> NotebookNode:
    """Return the part of a notebook that every run must repeat."""
    kept = normal(notebook)
    for _, cell in code_cells(kept):
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            # That there is an output counts, what it says does not.
            cell.outputs = cell.outputs and ["any"]
    return kept


def execute(path: Path, force: bool = False) -> str:
    """Run one chapter, store it if it changed, and return a line about it."""
    started = time.monotonic()
    stored = read(path)
    fresh = run(stored, path.parent)
    seconds = time.monotonic() - started
    same = compared(fresh) == compared(stored) and not force
    wanted = text(normal(stored) if same else fresh)
    changed = wanted != path.read_text(encoding="utf-8")
    if changed:
        path.write_text(wanted, encoding="utf-8")
    line = f"{path.name:40s} {seconds:6.1f} s  {'stored' if changed else 'unchanged'}"
    return line + (f"  longer than {CHAPTER_SECONDS} s" if seconds > CHAPTER_SECONDS else "")


def main() -> None:
    """Run the chapters named on the command line, or all."""
    parser = argparse.ArgumentParser(description="Run chapters and store their outputs.")
    parser.add_argument("chapter", nargs="*", help="a chapter's number, like 03; none means all")
    parser.add_argument("--force", action="store_true", help="store changes in untested outputs too")
    options = parser.parse_args()
    paths = []
    for number in options.chapter or [""]:
        found = chapters(number)
        if not found:
            known = ", ".join(path.name[:2] for path in chapters()) or "none yet"
            sys.exit(f"no chapter {number}: there are {known}".replace("  ", " "))
        paths += found
    wrong = 0
    for path in paths:
        try:
            print(execute(path, options.force), flush=True)
        except ChapterError as error:
            sys.exit(f"{path.name}: {error}\nNothing was stored.")
        for fault in faults(path):
            wrong += 1
            print(f"  {fault}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
