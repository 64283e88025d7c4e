"""Pages as they are printed: on white, whole, and with nothing that only a screen can use."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.site.pages import PAGES
from tests.site.test_browser import CONTRAST

pytestmark = pytest.mark.browser

A4 = {"width": 680, "height": 1010}  # what 15 mm of margin leave of it, in px
CHAPTERS = [name for name in PAGES if name[:2].isdigit()]


def printed(page: Page) -> Page:
    """The page as the printer gets it: scripts are told, then the rules for paper hold."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    return page


@pytest.mark.parametrize("name", ["04-softmax", "06-masks", "notation"])
def test_who_reads_in_the_dark_prints_on_white(open_page: Callable[..., Page], name: str) -> None:
    page = open_page(f"{name}.html", A4, scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page = printed(page)
    page.emulate_media(media="print", color_scheme="dark")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    faint = page.evaluate(CONTRAST)
    assert not faint
    headings = page.locator(".bd-article h2").all()
    colours = {heading.evaluate("e => getComputedStyle(e).color") for heading in headings}
    assert len(headings) > 2
    assert colours == {"rgb(0, 0, 0)"}


# Code, outputs and tables: wider than their box, they would be cut where a screen scrolls.
CLIPPED = """() => [...document.querySelectorAll('.bd-article :is(pre, table, img, .katex-html)')]
    .filter(e => e.checkVisibility())
    .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1 || e.scrollWidth > e.clientWidth + 1
        && e.tagName === 'PRE')
    .map(e => e.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_prints_whole(open_page: Callable[..., Page], name: str) -> None:
    page = open_page(f"{name}.html", A4)
    page.locator(".att-widget").first.scroll_into_view_if_needed()
    expect(page.locator(".att-drawn").first).to_be_attached()
    page = printed(page)
    assert not page.evaluate(CLIPPED)
    for solution in page.locator("div.solution").all():
        expect(solution.locator(":scope > :not(.admonition-title)").first).to_be_visible()
    for figure in page.locator(".att-drawn").all():
        expect(figure.locator("img").first).to_be_visible()
        assert not figure.locator(".att-live:visible").all()
    for dead in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header", "button", "summary"):
        assert not page.locator(f"{dead}:visible").all(), dead


def test_folded_code_without_a_picture_leaves_a_line(open_page: Callable[..., Page]) -> None:
    page = printed(open_page("07-multi-head.html", A4))
    line = "e => getComputedStyle(e, '::before').content"
    folded = page.locator(".bd-article div.cell:has(> details.hide)")
    said = {cell.locator("img").count() > 0: cell.evaluate(line) for cell in folded.all()}
    assert "notebook" in said[False]
    assert said[True] == "none"


def test_a_box_takes_its_upper_line_along(open_page: Callable[..., Page]) -> None:
    page = printed(open_page("07-multi-head.html", A4))
    for box in page.locator(".bd-article div.admonition").all():
        width, offset = box.evaluate(
            "e => { const s = getComputedStyle(e); return [s.outlineWidth, s.outlineOffset].map(parseFloat); }"
        )
        assert width + offset <= 0
