"""A pytest plugin that makes nbval see what it overlooks, at no cost: it looks at the run that nbval makes anyway.

nbval passes cells whose stored outputs were all cleared along with their counts, images and widgets that are
missing, and a cell tagged ``raises-exception`` that raises nothing. Here the *kinds* of outputs of the run and of
the file must agree, cell by cell. In cells tagged ``nbval-ignore-output`` only their presence must.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from nbval.plugin import IPyNbCell, NbCellError, coalesce_streams


def kind(output: Any) -> tuple[str, ...]:
    """Return what an output is, without what it says."""
    if output["output_type"] == "stream":
        return ("stream", output["name"])
    if output["output_type"] == "error":
        return ("error", output["ename"])
    # A displayed thing and a cell's result look the same to a reader.
    return ("shown", *sorted(output["data"]))


def disagreement(run: list[Any], stored: list[Any], tags: list[str]) -> str:
    """Return how the kinds of outputs of a run and of a file differ, or an empty string."""
    ran, kept = (sorted(kind(output) for output in coalesce_streams(outputs)) for outputs in (run, stored))
    if "raises-exception" in tags and not any(name == "error" for name, *_ in ran):
        return "tagged raises-exception, and raises nothing"
    if "nbval-ignore-output" in tags:
        ran, kept = ran and [("something",)], kept and [("something",)]
    return "" if ran == kept else f"gives outputs of the kinds {ran}, and the file stores {kept}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Compare kinds after nbval has compared texts."""
    result = yield
    if isinstance(item, IPyNbCell) and not item.options["skip"]:
        problem = disagreement(item.test_outputs, item.cell.outputs, item.cell.metadata.get("tags", []))
        if item.cell.source.strip() and item.cell.execution_count is None:
            problem = "was never run in the stored file"
        if problem:
            raise NbCellError(item.cell_num, problem, item.cell.source)
    return result
