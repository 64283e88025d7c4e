"""Small notebooks made by the tests, run once, then spoiled in one way each."""

import copy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.execute import run
from tools.notebooks import text

NUMBERS = "import companion\n\nweights = [0.401, 0.198, 0.401]\nprint('weights', weights)"
RESULT = "round(sum(weights), 3)"
PICTURE = (
    "import matplotlib.pyplot as plt\n\n"
    "plt.figure(figsize=(1, 1), dpi=40)\nplt.plot(weights)\n_ = plt.title('w')\nplt.show()"
)
ERROR = "raise ValueError('three weights, four values')"
WIDGET = "import ipywidgets\n\nipywidgets.HBox([ipywidgets.IntSlider(3), ipywidgets.Label('row')])"
FIGURE = "from companion.widgets import SoftmaxExplorer\n\nSoftmaxExplorer(scores=[1.0, 0.0])"
RANDOM = "import random\n\nprint(random.random())"


def unrun() -> NotebookNode:
    """Return a notebook of one cell of each kind that a chapter has, without outputs."""
    cell = nbformat.v4.new_code_cell
    alt = {"mystnb": {"image": {"alt": "A line through three weights."}}}
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# A chapter"),
            cell(NUMBERS),
            cell(RESULT),
            cell(PICTURE, metadata=alt),
            cell(ERROR, metadata={"tags": ["raises-exception"]}),
            cell(WIDGET),
            cell(RANDOM, metadata={"tags": ["nbval-ignore-output"]}),
            cell("quiet = 1"),
            cell(FIGURE),
        ]
    )


def chapter(folder: Path) -> NotebookNode:
    """Return that notebook as `make execute` leaves it."""
    return run(unrun(), folder)


def write(notebook: NotebookNode, path: Path) -> Path:
    """Store a notebook as it is."""
    path.write_text(text(notebook), encoding="utf-8")
    return path


def code(notebook: NotebookNode, start: str) -> NotebookNode:
    """Return the one code cell whose source begins like this."""
    (found,) = [cell for cell in notebook.cells if cell.source.startswith(start)]
    return found


def copied(notebook: NotebookNode) -> NotebookNode:
    """Return a copy to spoil."""
    return copy.deepcopy(notebook)
