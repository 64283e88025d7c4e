"""The stored times of the figures: whole, and shown as they are stored. Nothing is timed here."""

import json

from companion import widgets
from tools.figure_speed import PAGE, RESULTS, text

STORED = json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_page_shows_what_is_stored() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(STORED)


def test_every_figure_was_measured_often_enough() -> None:
    kinds = [getattr(widgets, name) for name in widgets.__all__ if name != "Figure"]
    assert set(STORED["figures"]) == {kind.__module__.rpartition(".")[2] for kind in kinds}
    assert all(one["inputs"] >= 50 and one["loads"] >= 3 for one in STORED["figures"].values())


def test_the_stored_redraws_reach_their_goal() -> None:
    assert all(one["redraw_ms"] <= STORED["goals"]["redraw_ms"] for one in STORED["figures"].values())
