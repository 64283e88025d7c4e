"""A page with plain ipywidgets, links and figures among them: html-manager shows them, and nobody else is asked."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.site.small import small_book
from tools import browser as chromium

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = """
import ipywidgets
from companion.widgets import SoftmaxExplorer

explorer = SoftmaxExplorer(scores=[1.0, 0.0])
slider = ipywidgets.FloatSlider(description="twin", min=0.1, max=4.0, value=1.0)
link = ipywidgets.jslink((slider, "value"), (explorer, "temperature"))
ipywidgets.VBox([slider, explorer])
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site of a book of one page."""
    return small_book(tmp_path_factory.mktemp("book"), CELL)


def test_plain_and_own_widgets_on_one_page(mixed: Path, browser: Browser) -> None:
    wrong: list[str] = []
    with chromium.serving(mixed) as address:
        page = browser.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith((address, "blob:", "data:")) else None)
        page.goto(f"{address}/index.html")
        expect(page.locator(".att-drawn")).to_be_visible(timeout=20_000)
        own = page.locator(".att-figure")
        expect(own.locator(".att-status")).to_contain_text("0.731, of key 1")
        twin = page.locator(".widget-slider [role=slider], .widget-slider input[type=range]").first
        expect(twin).to_be_visible()
        own.get_by_label("temperature").focus()
        page.keyboard.press("End")
        expect(page.locator(".widget-readout")).to_have_text("4.00")
        page.close()
    assert not wrong


def test_pages_without_them_load_no_manager(site: str, browser: Browser) -> None:
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site}/widgets-gallery.html", wait_until="networkidle")
    page.close()
    assert any("widgets.js" in url for url in asked)
    assert not any("html-manager" in url for url in asked)
