"""The parity matrix: each cell is within its bound, and what is stored and shown is a whole matrix.

How it is measured, and what it is for, is said in ``parity.py``.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from companion import available, why_not
from tests.companion import parity
from tools import parity as page

# Where there is none yet, the cells can be measured, and all else fails.
STORED: dict[str, Any] = json.loads(page.RESULTS.read_text(encoding="utf-8")) if page.RESULTS.exists() else {}


@pytest.mark.timeout(3000)  # when the matrix is asked for, FlexAttention compiles a kernel for each
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param(path, kind, marks=[pytest.mark.slow] if path in parity.SLOW else [])
        for path in parity.paths()
        for kind in parity.kinds(path)
    ],
)
def test_every_cell_is_within_its_bound(path: str, kind: str):
    cells = list(parity.measure(path, kind))
    sample = parity.sampled(path)
    assert len(cells) == (2 if sample else 2 * len(parity.BOUNDS) * len(parity.RELATIONS))
    for cell in cells:
        if cell.error is None:
            assert re.fullmatch(r"[A-Za-z].*\.", cell.reason or "")
        else:
            assert cell.error <= cell.bound, cell
    if path in ("auto", "reference", "math", *parity.MODULES):  # these refuse nothing
        assert {cell.reason for cell in cells} <= {None, parity.NO_CASE}


@pytest.mark.parametrize("spoil", [1e-3, 0.0])
def test_the_matrix_sees_what_is_wrong(spoil: float, monkeypatch: pytest.MonkeyPatch):
    """A path that is off by a thousandth would be found out; with 0 added, the same path is not."""
    right = parity.attend
    monkeypatch.setattr(parity, "attend", lambda *x, **options: right(*x, **options) * (1 + spoil))
    monkeypatch.setattr(parity, "RECORDED", [])
    for kind in ("none", "causal flag"):
        for direction in parity.DIRECTIONS:
            cell = parity.one_cell("auto", kind, torch.float32, "L = S", direction)
            assert (cell.error > cell.bound) == bool(spoil)


# --- what is stored ---


def stored_cells() -> dict[tuple[str, ...], float | str]:
    cells: dict[tuple[str, ...], float | str] = {}
    for path, kinds in STORED["cells"].items():
        for kind in parity.KINDS:
            for dtype in map(parity.name, parity.BOUNDS):
                for relation in parity.RELATIONS:
                    pair = [kinds] * 2 if isinstance(kinds, str) else kinds[kind][dtype][relation]
                    for direction, value in zip(parity.DIRECTIONS, pair, strict=True):
                        cells[path, kind, dtype, relation, direction] = value
    return cells


def test_every_path_that_there_is_has_all_its_cells():
    """A new backend makes this fail until the matrix is measured again: ``make parity``."""
    assert list(STORED["cells"]) == parity.paths()
    for cell, value in stored_cells().items():
        assert isinstance(value, float) or value in STORED["reasons"], cell


def test_every_stored_error_is_within_its_bound_and_the_bounds_are_the_design_s():
    for path in ("backends", "modules"):
        assert list(STORED["bounds"][path]) == [parity.name(dtype) for dtype in parity.BOUNDS]
    assert {dtype: pair[0] for dtype, pair in STORED["bounds"]["backends"].items()} == {
        "float64": 1e-12,
        "float32": 2e-6,
        "float16": 1e-3,
        "bfloat16": 5e-3,
    }
    assert STORED["lengths"] == {relation: list(lengths) for relation, lengths in parity.RELATIONS.items()}
    for cell, value in stored_cells().items():
        if isinstance(value, float):
            path, _, dtype, _, direction = cell
            assert 0 <= value <= parity.bound(path, getattr(torch, dtype), direction), cell


def test_what_the_page_says_in_words_is_so():
    """Float32 is off by less than half a millionth everywhere; the reference in half precision by one rounding, which
    between 1/2 and 1 is half of the spacing: 2^-12 and 2^-9."""
    cells = stored_cells()
    worst = dict.fromkeys((("reference", "float16"), ("reference", "bfloat16")), 0.0)
    for (path, _, dtype, _, direction), value in cells.items():
        if dtype == "float32" and isinstance(value, float):
            assert value < 5e-7
        if (path, dtype) in worst and direction == "forward" and isinstance(value, float):
            worst[path, dtype] = max(worst[path, dtype], value)
    assert worst["reference", "float16"] == pytest.approx(2**-12, rel=0.05)
    assert worst["reference", "bfloat16"] == pytest.approx(2**-9, rel=0.05)
    for path in ("MultiHeadAttention", "auto"):
        worst[path, ""] = max(v for key, v in cells.items() if key[0] == path and isinstance(v, float))
    assert worst["MultiHeadAttention", ""] > worst["auto", ""]


def test_what_runs_on_a_cpu_has_numbers_and_the_rest_has_sentences():
    numbers = {cell[0] for cell, value in stored_cells().items() if isinstance(value, float)}
    assert {"auto", *parity.MODULES, *available("cpu")} <= numbers
    for path in parity.paths():
        if path not in parity.MODULES and path not in numbers:
            assert why_not(path) == STORED["reasons"][STORED["cells"][path]]


def test_the_page_shows_what_is_stored():
    assert page.filled(page.PAGE.read_text(encoding="utf-8"), STORED) == page.PAGE.read_text(encoding="utf-8")


def test_each_number_of_the_matrix_is_on_the_page():
    text = page.PAGE.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    for path, kinds in STORED["cells"].items():
        if isinstance(kinds, str):
            continue
        for kind, dtypes in kinds.items():
            for relation in parity.RELATIONS:
                shown = [page.number(value) for dtype in dtypes.values() for value in dtype[relation]]
                assert [kind, relation, *shown] in rows, path


# --- how it is written ---


def cell(path: str = "auto", kind: str = "none", relation: str = "L = S", direction: str = "forward", **rest: Any):
    given = {"error": 1.23e-7, "bound": 2e-6, "reason": None} | rest
    return parity.Cell(path, kind, "float32", relation, direction, **given)


def test_errors_are_rounded_up_and_keep_two_digits():
    for error, want in ((1.21e-7, 1.3e-7), (1.2e-7, 1.2e-7), (9.91e-4, 1e-3), (0.0, 0.0)):
        assert parity.rounded(error) == pytest.approx(want, rel=1e-12)
        assert parity.rounded(error) >= error * (1 - 1e-9)


def test_workers_parts_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "parity.json"
    for worker, found in (
        ("gw0", [cell()]),
        ("gw1", [cell(direction="backward", error=None, reason="No.")]),
        (None, []),
    ):
        monkeypatch.setenv("PARITY", str(target))
        monkeypatch.setattr(parity, "RECORDED", found)
        assert not target.exists()
        parity.finish(worker)
    stored = json.loads(target.read_text())
    assert stored["cells"]["auto"]["none"]["float32"]["L = S"] == [1.3e-7, "a"]
    assert stored["cells"]["auto"]["none"]["float32"]["L = 1"] == [None, None]
    assert stored["reasons"] == {"a": "No."}
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_is_written_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PARITY", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parity, "RECORDED", [cell()])
    parity.finish(None)
    assert not list(tmp_path.iterdir())


def test_letters():
    assert [parity.letter(i) for i in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


def test_a_table_by_hand():
    """Two kinds, one of which is refused backward: the summary has the larger number, and the letter."""
    stored = {
        "machine": {"processor": "P", "python": "3", "torch": "2"},
        "bounds": {"backends": {"float32": [2e-6, 2e-6]}, "modules": {"float32": [2e-6, 2e-6]}},
        "lengths": {"L = S": [5, 5]},
        "modules": [],
        "reasons": {"a": "Not backward.", "b": "Not here."},
        "cells": {
            "one": {"none": {"float32": {"L = S": [1e-7, "a"]}}, "bias": {"float32": {"L = S": [3e-7, 2e-7]}}},
            "two": "b",
        },
    }
    lines = page.summary(stored).splitlines()
    assert [line for line in lines if line.startswith(("| one", "| two"))] == [
        "| one | 3.0e−7 |",
        "| two | (b) |",
        "| one | 2.0e−7 (a) |",
        "| two | (b) |",
    ]
    assert lines[-2:] == ["- (a) Not backward.", "- (b) Not here."]
    whole = page.details(stored)
    assert "| none | L = S | 1.0e−7 | (a) |" in whole
    assert "two" not in whole
