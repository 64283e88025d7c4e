"""The interactive figures, in the built pages, with no kernel."""

from collections.abc import Callable

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.site.pages import BOOK, DESKTOP, PAGES, PHONE

pytestmark = pytest.mark.browser

GALLERY = "widgets-gallery"
VIEW = "application/vnd.jupyter.widget-view+json"
CONTROLS = "input, button:not(.att-reset), select, [tabindex='0']"


def names(page: str) -> list[str]:
    """The figures of a page, in order, as their text in the notebook names them."""
    file = BOOK / f"{page}.ipynb"
    if not file.exists():
        return []
    outputs = [
        output
        for cell in nbformat.read(file, as_version=4).cells
        for output in cell.get("outputs", [])
        if VIEW in output.get("data", {})
    ]
    return [output.data["text/plain"].partition("(")[0] for output in outputs]


WITH_FIGURES = [page for page in PAGES if names(page)]
FIGURES = names(GALLERY)


def figure(page: Page, count: int) -> Locator:
    """The live figure, drawn as the reader comes near."""
    place = page.locator(".att-widget").nth(count)
    place.scroll_into_view_if_needed()
    expect(place).to_have_class("att-widget docutils container att-drawn", timeout=5000)
    return place.locator(".att-figure").first  # a question has its own figure inside


@pytest.mark.parametrize("name", WITH_FIGURES)
def test_every_figure_is_drawn(open_page: Callable[..., Page], name: str) -> None:
    page = open_page(f"{name}.html")
    for count in range(len(names(name))):
        live = figure(page, count)
        expect(live).to_be_visible()
        expect(live.get_by_role("status").last).not_to_be_empty()
        assert len(live.get_attribute("aria-label") or "") > 40
        assert live.locator(CONTROLS).count()
    # The still picture is there for paper, and hidden on the screen.
    for image in page.locator(".att-widget img").all():
        expect(image).to_be_hidden()
        assert image.get_attribute("alt")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("count", range(len(FIGURES)), ids=FIGURES)
def test_a_phone_shows_it_without_scrolling_sideways(open_page: Callable[..., Page], count: int, scheme: str) -> None:
    page = open_page(f"{GALLERY}.html", PHONE, scheme)
    live = figure(page, count)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    box = live.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    # What can be tapped is large enough for a finger (WCAG 2.2, 2.5.8).
    small = live.locator("input, button, select").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect())"
        ".filter(b => Math.max(b.width, b.height) < 24).length"
    )
    assert not small


@pytest.mark.parametrize("count", range(len(FIGURES)), ids=FIGURES)
def test_the_keyboard_changes_it_and_reset_brings_it_back(open_page: Callable[..., Page], count: int) -> None:
    page = open_page(f"{GALLERY}.html", DESKTOP)
    live = figure(page, count)
    body = live.locator(".att-body")
    looks = 'e => e.innerHTML.replace(/ (tabindex|aria-valuenow)="[^"]*"/g, \'\')'
    start, said = body.evaluate(looks), live.locator(".att-status").inner_text()
    changed = heard = False
    controls = live.locator(CONTROLS)
    for k in range(min(controls.count(), 12)):
        control = controls.nth(k)
        if not control.is_visible() or not control.is_enabled():
            continue
        control.focus()
        for key in ("ArrowRight", "ArrowUp", "Space"):
            page.keyboard.press(key)
        changed = changed or body.evaluate(looks) != start
    page.wait_for_timeout(400)
    heard = live.locator(".att-status").inner_text() != said
    assert changed
    assert heard
    live.locator(".att-reset").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(400)
    expect(live.locator(".att-status")).to_have_text(said)


def test_without_scripts_the_pictures_are_there(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/{GALLERY}.html")
    pictures = page.locator(".att-widget img")
    expect(pictures).to_have_count(len(FIGURES))
    for picture in pictures.all():
        expect(picture).to_be_visible()
    context.close()


def test_paper_has_the_pictures(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{GALLERY}.html")
    for count in range(len(FIGURES)):
        figure(page, count)
    page.emulate_media(media="print")
    for picture in page.locator(".att-widget img").all():
        expect(picture).to_be_visible()
    expect(page.locator(".att-live").first).to_be_hidden()


def test_softmax_answers_with_the_right_numbers(open_page: Callable[..., Page]) -> None:
    """Scores 2, 1, .5, 0, −1: key 1 has e²/(e² + e + e^.5 + 1 + e⁻¹) = .563. At temperature .1 more than .9999."""
    page = open_page(f"{GALLERY}.html")
    live = figure(page, FIGURES.index("SoftmaxExplorer"))
    expect(live.locator(".att-status")).to_contain_text("0.563, of key 1")
    live.get_by_label("temperature").focus()
    page.keyboard.press("Home")
    expect(live.locator(".att-status")).to_contain_text("1.000, of key 1; entropy 0.00")
    live.get_by_label("add to every score").focus()
    page.keyboard.press("End")
    expect(live.locator(".att-status")).to_contain_text("1.000, of key 1; entropy 0.00")


def test_a_link_into_the_page_lands_where_it_says(open_page: Callable[..., Page]) -> None:
    # The figures above the target are drawn after the jump, and are not as high as their still pictures.
    page = open_page(f"{GALLERY}.html#what-does-a-cache-keep", PHONE)
    expect(page.locator(".att-widget").last).to_have_class("att-widget docutils container att-drawn", timeout=8000)
    page.wait_for_timeout(500)
    top = page.locator("#what-does-a-cache-keep").evaluate("e => e.getBoundingClientRect().top")
    assert 0 <= top < PHONE["height"] / 2
