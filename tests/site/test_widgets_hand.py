"""The figures in the hand: large enough for a finger, and what matters is seen."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.site.pages import PHONE
from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser


def test_a_finger_has_44_pixels(browser: Browser, site: str) -> None:
    """Controls are 44 pixels high where the pointer is a finger (WCAG 2.5.5); with a mouse they stay small."""
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{site}/{GALLERY}.html")
    targets = "input[type=range], input[type=number], button, select, label:not(.att-slider label), .att-open"
    for count, name in enumerate(FIGURES):
        live = figure(page, count)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
        low = live.locator(targets).evaluate_all(
            "all => all.filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 43.5)"
            ".map(e => e.outerHTML)"
        )
        assert not low, name
    context.close()


def inside(parts: Locator, whole: Locator) -> bool:
    box = whole.bounding_box()
    assert box is not None
    for part in parts.all():
        at = part.bounding_box()
        assert at is not None
        if at["x"] < box["x"] - 3 or at["x"] + at["width"] > box["x"] + box["width"] + 3:
            return False
        if at["y"] < box["y"] - 3 or at["y"] + at["height"] > box["y"] + box["height"] + 3:
            return False
    return True


def test_arrows_stay_in_their_plane(open_page: Callable[..., Page]) -> None:
    """cat (1.2, 0.3) times W_Q = ((3, 3), (3, 3)) is (4.5, 4.5), beyond a plane that ends at 3."""
    live = figure(page := open_page(f"{GALLERY}.html"), FIGURES.index("ProjectionExplorer"))
    for i in (1, 2):
        for j in (1, 2):
            live.get_by_label(f"W_Q, row {i}, column {j}").fill("3")
            page.keyboard.press("Enter")
    planes = live.locator(".att-plane")
    for k in (1, 2):
        arrows = planes.nth(k).locator(".att-arrow")
        expect(arrows).to_have_count(3)
        assert inside(arrows, planes.nth(k))
        expect(planes.nth(k).locator(".att-grid text").first).to_have_text("2")


def test_the_output_is_seen_on_the_value_that_it_equals(open_page: Callable[..., Page]) -> None:
    """At T = .01 the output is v1, and drawn above it; the value below can still be dragged."""
    live = figure(page := open_page(f"{GALLERY}.html"), FIGURES.index("LookupExplorer"))
    live.get_by_label("temperature").press("Home")
    value = live.get_by_label("value 1", exact=True)
    assert value.evaluate("e => e.compareDocumentPosition(e.closest('svg').querySelector('.att-result')) === 4")
    box = value.locator(".att-dot").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 80, box["y"] + box["height"] / 2, steps=3)  # a unit to the left
    page.mouse.up()
    expect(value).to_have_attribute("aria-valuetext", "0.60, −0.80")


def test_the_sheet_of_another_figure_changes_nothing(open_page: Callable[..., Page]) -> None:
    """Every sheet repeats the shared rules: the last of them must not undo what a figure says of itself."""
    page = open_page(f"{GALLERY}.html")
    live = figure(page, FIGURES.index("MaskEditor"))
    cell = live.locator(".att-mask .att-hidden").first
    alone = cell.evaluate("e => getComputedStyle(e).backgroundImage")
    for count in range(len(FIGURES)):
        figure(page, count)
    assert cell.evaluate("e => getComputedStyle(e).backgroundImage") == alone
