"""The one form in which a chapter is stored, so that a change in the file is a change in the chapter.

``python -m tools.notebooks [FILE ...]`` says which files are not in that form and what else is wrong with them;
``--fix`` rewrites them.
"""

import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "book"
FIGURES = ROOT / "companion" / "widgets" / "static"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Without versions: readers and CI have several.
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
# Left by editors: when it ran, how it was folded, which text file it is paired with.
EDITORS_NOTEBOOK = {"jupytext", "toc", "toc-autonumbering", "colab", "vscode", "celltoolbar", "signature"}
EDITORS_CELL = {"execution", "ExecuteTime", "collapsed", "scrolled", "trusted", "vscode", "colab", "id", "outputId"}


def chapters(number: str = "", folder: Path = BOOK) -> list[Path]:
    """Return the chapters' files in order; those whose name starts with the number, if one is given."""
    prefix = f"{int(number):02d}-" if number.isdigit() else number
    return sorted(path for path in folder.glob("*.ipynb") if path.name.startswith(prefix))


def read(path: Path) -> NotebookNode:
    """Read a notebook file."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def text(notebook: NotebookNode) -> str:
    """Return a notebook as the text of its file."""
    split = nbformat.v4.rwbase.split_lines(copy.deepcopy(notebook))
    return json.dumps(split, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def code_cells(notebook: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    """Yield the cells that a kernel runs, each with its count in a fresh run: 1, 2, 3 and so on."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip())
    yield from enumerate(cells, 1)


def normal(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook in its stored form; the normal form of a normal form is itself."""
    notebook = copy.deepcopy(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for name in EDITORS_NOTEBOOK & notebook.metadata.keys():
        del notebook.metadata[name]
    notebook.metadata.update(nbformat.from_dict({"kernelspec": KERNEL, "language_info": LANGUAGE}))
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number:03d}"
        for name in EDITORS_CELL & cell.metadata.keys():
            del cell.metadata[name]
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _outputs(cell.outputs)
    for count, cell in code_cells(notebook):
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    return _widgets(notebook)


def _outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join what was printed in pieces, and take this machine's folders out of tracebacks."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and last.output_type == output.output_type == "stream" and last.name == output.name:
            last.text += output.text
            continue
        if output.output_type == "error":
            output.traceback = [_without_folders(line) for line in output.traceback]
        joined.append(output)
    return joined


def _without_folders(line: str) -> str:
    """Shorten paths to what is the same everywhere: inside the project, a package or the standard library."""
    for root in (str(ROOT), str(ROOT).replace(str(Path.home()), "~", 1)):
        line = line.replace(root + "/", "")
    return re.sub(r"[~/][^\s\x1b'\"]*/(?:site-packages|lib/python3\.\d+)/", "", line)


def _widgets(notebook: NotebookNode) -> NotebookNode:
    """Number the widgets' models in the order in which the outputs reach them, and drop those never reached."""
    stored = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {})
    models: dict[str, Any] = stored.get("state", {})
    waiting = [
        output.data[WIDGET_VIEW]["model_id"]
        for _, cell in code_cells(notebook)
        for output in cell.outputs
        if WIDGET_VIEW in output.get("data", {})
    ]
    names: dict[str, str] = {}
    while waiting:
        model = waiting.pop(0)
        if model in models and model not in names:
            names[model] = f"{len(names) + 1:032x}"
            waiting += _named(models[model])
        if not waiting:  # a link is shown nowhere, and holds both its ends
            waiting = [link for link in models if link not in names and _links(models[link], names)]
    if not names:
        notebook.metadata.pop("widgets", None)
        return notebook
    stored["state"] = {model: _current(models[model]) for model in names}
    known = re.compile("|".join(map(re.escape, names)))
    renamed = known.sub(lambda found: names[found[0]], json.dumps(notebook))
    return nbformat.from_dict(json.loads(renamed))


def _named(model: dict[str, Any]) -> list[str]:
    """The models that a model holds."""
    return re.findall(r"IPY_MODEL_([\w-]+)", json.dumps(model, sort_keys=True))


def _links(model: dict[str, Any], kept: dict[str, str]) -> bool:
    """Tell whether a model joins two traits of models that are kept."""
    return model["model_name"] in ("LinkModel", "DirectionalLinkModel") and any(name in kept for name in _named(model))


def _current(model: dict[str, Any]) -> dict[str, Any]:
    """Give one of our figures the script and style that the package has now: a notebook keeps a copy."""
    state = model.get("state", {})
    package, _, name = state.get("_anywidget_id", "").rpartition(".")[0].rpartition(".")
    if package == "companion.widgets":
        for key, kind in (("_esm", "js"), ("_css", "css")):
            state[key] = (FIGURES / f"{name}.{kind}").read_text(encoding="utf-8")
    return model


def main(arguments: list[str]) -> None:
    """Check the named notebooks, or every chapter; with ``--fix`` store them in normal form first."""
    from tools.faults import faults
    from tools.spelling import misspelled

    fix = "--fix" in arguments
    paths = [Path(name) for name in arguments if name != "--fix"] or chapters()
    found = []
    for path in paths:
        stored = text(normal(read(path)))
        if fix and stored != path.read_text(encoding="utf-8"):
            path.write_text(stored, encoding="utf-8")
        found += [f"{path.name}: {fault}" for fault in faults(path)]
    found += misspelled(paths)
    print("\n".join(found) or f"{len(paths)} notebooks, all as they should be")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
