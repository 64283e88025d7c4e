"""What an author writes into a figure is text, whatever it looks like: it is shown, and never run."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.site.small import small_book
from tools import browser as chromium

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Each would end or swallow the script that carries the figures' state, or run if it became HTML.
TOKENS = [
    "</SCRIPT><script>window.ran = 1</script>",
    "</script ><img src=x onerror=window.ran=2>",
    "<!--<script>",
    "<img src=x onerror=window.ran=3>",
    "-->&lt;b&gt;]]>",
]

CELL = f"""
import ipywidgets
from companion.widgets import DecodeExplorer, HeadView, MaskEditor

tokens = {TOKENS!r}
display(HeadView(tokens=tokens), MaskEditor(tokens=tokens, length=len(tokens)), DecodeExplorer(tokens=tokens))
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_book(tmp_path_factory.mktemp("book"), CELL)


def test_tokens_that_look_like_scripts_are_shown_as_text(hostile: Path, browser: Browser) -> None:
    wrong: list[str] = []
    with chromium.serving(hostile) as address:
        page = browser.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(request.url))
        page.on("request", lambda r: wrong.append(r.url) if r.url.endswith("/x") else None)
        page.goto(f"{address}/index.html")
        places = page.locator(".att-widget")
        expect(places).to_have_count(3)
        for place in places.all():
            place.scroll_into_view_if_needed()
            figure = place.locator(".att-figure")
            expect(figure).to_be_visible()
            for token in TOKENS:
                expect(figure).to_contain_text(token)
            assert not figure.locator("script, img, b").count()
        # The state is whole, and the one script that follows it is the site's own.
        stored = "script[type='application/vnd.jupyter.widget-state+json']"
        tokens = page.evaluate(
            f"""Object.values(JSON.parse(document.querySelector("{stored}").textContent).state)
                .map(({{ state }}) => state.tokens).filter(Boolean)"""
        )
        assert tokens == [TOKENS] * 3
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.ran") is None
        page.close()
    assert not wrong


def test_no_sign_in_the_state_can_end_its_script(hostile: Path) -> None:
    html = (hostile / "index.html").read_text(encoding="utf-8")
    state = html.partition('<script type="application/vnd.jupyter.widget-state+json">')[2].partition("</script>")[0]
    assert state.startswith('{"state"')
    assert state.rstrip().endswith("}")
    assert "<" not in state
