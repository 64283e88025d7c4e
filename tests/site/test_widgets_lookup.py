"""The lookup figure answers with the right numbers."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser


def test_a_small_temperature_is_a_hard_lookup(open_page: Callable[..., Page]) -> None:
    """At T = .01 scores of 1.8 (k1) and 1.72 (k2) are 8 apart: 1 / (1 + exp(-8)) = .9997."""
    live = figure(page := open_page(f"{GALLERY}.html"), FIGURES.index("LookupExplorer"))
    live.get_by_label("temperature").focus()
    page.keyboard.press("Home")
    expect(live.locator(".att-status")).to_contain_text("Output (1.60, −0.80). The largest weight, 1.000, is v1's")
    page.keyboard.press("End")  # 100: the mean of the values, nearly
    expect(live.locator(".att-status")).to_contain_text("as spread out as 4.0 equal ones")


def test_the_query_moves_by_key_and_by_finger(open_page: Callable[..., Page]) -> None:
    live = figure(page := open_page(f"{GALLERY}.html"), FIGURES.index("LookupExplorer"))
    query = live.get_by_label("query", exact=True)
    expect(query).to_have_attribute("aria-valuetext", "1.20, 0.80")
    query.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    expect(query).to_have_attribute("aria-valuetext", "1.10, −0.20")
    plane = live.locator(".att-plane").first.bounding_box()
    here = query.locator(".att-dot").bounding_box()
    assert plane is not None
    assert here is not None
    page.mouse.move(here["x"] + here["width"] / 2, here["y"] + here["height"] / 2)
    page.mouse.down()
    page.mouse.move(plane["x"] + plane["width"] / 4, plane["y"] + plane["height"] / 4, steps=4)
    page.mouse.up()
    expect(query).to_have_attribute("aria-valuetext", "−1.00, 1.00")
    live.locator(".att-reset").click()
    expect(query).to_have_attribute("aria-valuetext", "1.20, 0.80")
