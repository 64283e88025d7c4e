import ast

import matplotlib
import pytest
import torch
from torch import nn

from companion import attention, notebook


@pytest.fixture
def settings_restored():
    threads, options = torch.get_num_threads(), torch._tensor_str.PRINT_OPTS
    saved = {name: getattr(options, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")}
    with matplotlib.rc_context():
        yield
    torch.set_num_threads(threads)
    torch.set_printoptions(**saved)


@pytest.mark.usefixtures("settings_restored")
def test_start_makes_runs_alike():
    numbers = []
    for _ in range(2):
        notebook.start(7)
        numbers.append(torch.rand(3))
    assert torch.equal(*numbers)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(3), numbers[0])
    assert torch.get_num_threads() == 1
    assert str(torch.tensor([1e-4, 1000.0])) == "tensor([   0.0001, 1000.0000])"


@pytest.mark.usefixtures("settings_restored")
def test_start_takes_the_number_of_threads():
    notebook.start(threads=2)
    assert torch.get_num_threads() == 2


def test_device_is_the_gpu_where_there_is_one():
    assert notebook.device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_glue_shows_what_the_prose_quotes(monkeypatch: pytest.MonkeyPatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *data, **how: shown.append((data, how)))
    notebook.glue(largest="0.322", count=5)
    (first, how), (second, _) = shown
    assert first == ({"application/papermill.record/text/plain": "'0.322'"},)
    assert second == ({"application/papermill.record/text/plain": "5"},)
    assert how["raw"] is True
    assert how["metadata"]["scrapbook"]["name"] == "largest"


class Small(nn.Module):
    """Documentation.

    More of it.
    """

    def forward(self, x):
        """Say nothing."""

        # A comment stays.
        return x + 1  # and this one


def test_source_is_the_code_that_runs():
    shown = notebook.show_source(Small).data
    assert shown.startswith("```python\nclass Small(nn.Module):\n    def forward(self, x):\n        # A comment stays.")
    assert "Documentation" not in shown
    assert "Say nothing" not in shown
    assert shown.endswith("return x + 1  # and this one\n```")


def test_source_with_documentation_on_demand():
    shown = notebook.show_source(Small, docstrings=True).data
    assert "More of it." in shown
    assert "Say nothing." in shown


@pytest.mark.parametrize("name", attention.__all__)
def test_source_of_every_function_still_parses(name: str):
    shown = notebook.show_source(getattr(attention, name)).data
    code = shown.removeprefix("```python\n").removesuffix("```")
    (function,) = ast.parse(code).body
    assert function.name == name
    assert ast.get_docstring(function) is None


def test_several_sources_in_one_block():
    shown = notebook.show_source(attention.split_heads, attention.merge_heads).data
    assert shown.count("```") == 2
    assert shown.index("def split_heads") < shown.index("def merge_heads")


def documented_only():
    """All there is."""


def test_a_function_of_documentation_alone_keeps_it():
    assert "All there is." in notebook.show_source(documented_only).data
