"""axe-core looks at every page, wide and on a phone, light and dark, and finds nothing serious."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.site.pages import ALL, DESKTOP, NO_AXE, PHONE, ROOT
from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser

AXE = ROOT / "widgets" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = {"serious", "critical"}


@cache
def axe() -> str:
    if not AXE.exists():
        if os.environ.get("CI"):
            pytest.fail(NO_AXE, pytrace=False)
        pytest.skip(NO_AXE)
    return AXE.read_text("utf8")


def open_all(page: Page) -> None:
    """Draw every figure, and unfold what is folded."""
    for count in range(page.locator(".att-widget").count()):
        figure(page, count)
    page.evaluate(
        """async () => {
            document.querySelectorAll('details').forEach(box => { box.open = true; });
            document.querySelectorAll('.toggle-hidden').forEach(box => box.classList.remove('toggle-hidden'));
            await document.fonts.ready;
            await new Promise(done => setTimeout(done, 400));  // the theme looks again at what scrolls after 300 ms
        }"""
    )


def serious(page: Page, part: str = "html") -> list[str]:
    """What axe calls serious or critical in a part of the page: rule, place, and how to mend it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    found: list[dict[str, Any]] = page.evaluate(
        """async part => {
            // What is seen of an equation is hidden from readers of the screen; its contrast has a test of its own.
            const context = { include: [part], exclude: ['.katex-html'] };
            const { violations } = await axe.run(context, { resultTypes: ['violations'] });
            return violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes
                .map(({ target, failureSummary }) => `${target.join(' ')} ${failureSummary}`) }));
        }""",
        part,
    )
    return [f"{rule['id']}: {node}" for rule in found if rule["impact"] in SERIOUS for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", ALL)
def test_a_page_has_nothing_serious(
    open_page: Callable[..., Page], name: str, viewport: dict[str, int], scheme: str
) -> None:
    axe()
    page = open_page(f"{name}.html", viewport, scheme)
    open_all(page)
    assert not serious(page)


@pytest.mark.parametrize("count", range(len(FIGURES)), ids=FIGURES)
def test_every_choice_in_a_figure_has_nothing_serious(open_page: Callable[..., Page], count: int) -> None:
    """What a figure shows by another choice is another figure."""
    axe()
    page = open_page(f"{GALLERY}.html", DESKTOP)
    live = figure(page, count)
    live.evaluate("e => { e.id = 'looked-at'; }")
    faults = set()
    for choose in choices(live):
        choose()
        page.wait_for_timeout(100)
        faults |= set(serious(page, "#looked-at"))
    assert not faults


def choices(live: Locator) -> list[Callable[[], Any]]:
    """The start, every radio button and check box, every entry of every menu, and each slider at its end."""
    made: list[Callable[[], Any]] = [lambda: None]
    for box in live.locator("input[type=radio], input[type=checkbox]").all():
        made.append(lambda box=box: box.is_enabled() and box.is_visible() and box.click())
    for menu in live.locator("select").all():
        for k in range(menu.locator("option").count()):
            made.append(lambda menu=menu, k=k: menu.evaluate(PICK, k))
    for slider in live.locator("input[type=range]").all():
        made.append(lambda slider=slider: slider.is_enabled() and slider.is_visible() and slider.press("End"))
    return made


PICK = """(menu, k) => {
    menu.selectedIndex = k;
    menu.dispatchEvent(new Event('change', { bubbles: true }));
}"""


def test_a_fault_is_found(open_page: Callable[..., Page]) -> None:
    """The tests above can fail: faint text and a button without a name are two serious faults."""
    axe()
    page = open_page("index.html")
    page.locator("article").evaluate(
        """e => e.insertAdjacentHTML('beforeend',
            '<p id=faint style="color: #bbb; background: #fff">faint</p><button id=mute></button>')"""
    )
    assert {fault.partition(":")[0] for fault in serious(page, "article")} == {"color-contrast", "button-name"}


def test_a_table_takes_the_focus_where_it_scrolls_and_nowhere_else(open_page: Callable[..., Page]) -> None:
    page = open_page("benchmarks.html", PHONE)
    boxes = page.locator(".pst-scrollable-table-container")
    for viewport in (PHONE, {"width": 2400, "height": 900}):
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        page.wait_for_timeout(200)
        pairs = boxes.evaluate_all("all => all.map(e => [e.scrollWidth > e.clientWidth, e.tabIndex === 0])")
        assert pairs
        assert all(scrolls == focusable for scrolls, focusable in pairs)
        assert viewport is not PHONE or any(scrolls for scrolls, _ in pairs)


def test_the_site_does_not_ship_it() -> None:
    site = ROOT / "book" / "_build" / "html"
    assert not [path for path in site.rglob("*.js") if "axe-core" in path.name or "axe.min" in path.name]
