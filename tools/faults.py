"""What can be wrong with a stored chapter that nbval does not see.

nbval compares texts. It never looks at images or widgets, passes a notebook that was not run at all, and passes a
cell that should have raised and did not. ``faults`` reads the file alone; what needs a run is in
``tests/nbval_strict.py``.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks import WIDGET_STATE, WIDGET_VIEW, code_cells, normal, read, text

# A statement that calls one of these, outside any block, always leaves an output.
SPEAKING = {"print", "display", "show", "glue"}
FOLDERS = re.compile(r"(?<![\w.:/~-])(?:/(?:home|Users|root|tmp|work|opt|private|var|mnt)/\w|~/\w|[A-Z]:\\\\?\w)")
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")


def faults(path: Path) -> list[str]:
    """Return a sentence for each fault of a notebook file."""
    notebook = read(path)
    found = list(_whole(notebook, path))
    for count, cell in code_cells(notebook):
        found += [f"code cell {count}: {fault}" for fault in _of_cell(cell, count, notebook)]
    return found


def _whole(notebook: NotebookNode, path: Path) -> Iterator[str]:
    if text(normal(notebook)) != path.read_text(encoding="utf-8"):
        yield "not in normal form: python -m tools.notebooks --fix"
    imports = re.compile(r"^\s*(?:from|import) companion\b", re.MULTILINE)
    if not any(imports.search(cell.source) for _, cell in code_cells(notebook)):
        yield "imports nothing from companion"


def _of_cell(cell: NotebookNode, count: int, notebook: NotebookNode) -> Iterator[str]:
    tags = cell.metadata.get("tags", [])
    if cell.execution_count != count:
        yield f"stored as run number {cell.execution_count}, and a fresh run would make it {count}"
    if speaks(cell.source) and not cell.outputs:
        yield "prints or draws, and no output is stored"
    if "nbval-skip" in tags or "NBVAL_SKIP" in cell.source:
        yield "is never tested (nbval-skip)"
    raised = any(output.output_type == "error" for output in cell.outputs)
    if raised != ("raises-exception" in tags):
        yield (
            "stores an error, and has no tag raises-exception"
            if raised
            else "is tagged raises-exception, and stores no error"
        )
    for output in cell.outputs:
        yield from _of_output(output, cell, notebook)


def _of_output(output: NotebookNode, cell: NotebookNode, notebook: NotebookNode) -> Iterator[str]:
    if output.output_type == "stream" and output.name == "stderr":
        yield f"stores a warning or other text on stderr: {output.text.strip()[:80]}"
    data = output.get("data", {})
    pictured = any(kind.startswith("image/") for kind in data)
    if pictured and WIDGET_VIEW not in data and not _alt(cell):
        yield "stores an image without alt text (metadata: mystnb.image.alt)"
    if any(kind.startswith("image/") and not content for kind, content in data.items()):
        yield "stores an empty image"
    if WIDGET_VIEW in data:
        models = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
        model = models.get(data[WIDGET_VIEW]["model_id"])
        if model is None:
            yield "shows a widget whose state is not stored"
        elif model["model_module"] == "anywidget":
            if not model["state"].get("alt"):
                yield "shows a figure that has no alt text"
            if not pictured and "text/markdown" not in data:
                yield "shows a figure without a still picture or text, for paper and readers without scripts"
    texts = [output.get("text", ""), *output.get("traceback", []), output.get("evalue", "")]
    texts += [str(content) for kind, content in data.items() if kind.startswith("text/")]
    for written in texts:
        if folder := FOLDERS.search(written):
            yield f"stores a folder of one machine: {written[folder.start() :][:40].splitlines()[0]}"
        if address := ADDRESS.search(written):
            yield f"stores a memory address, which no two runs share: {address[0]}"


def _alt(cell: NotebookNode) -> str:
    image = cell.metadata.get("mystnb", {}).get("image", {})
    return str(image.get("alt", "")).strip()


def speaks(source: str) -> bool:
    """Tell whether a cell surely leaves an output: it calls print, display, show or glue outside any block."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic; nbval runs it and compares
        return False
    calls = [node.value.func for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    names = [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls]
    return any(name in SPEAKING for name in names)
