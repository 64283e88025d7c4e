"""The walk over tiles in the page: by key and by mouse, to plain softmax's output; by itself only when asked."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser


def explorer(page: Page) -> Locator:
    return figure(page, FIGURES.index("TilingExplorer"))


def test_it_ends_where_plain_softmax_does(open_page: Callable[..., Page]) -> None:
    """L = S = 8, d = 2, tiles of 4 × 2. Naive 2·2·16 + 4·64 = 320 numbers; in blocks 2·8·2 + 2·(8·2·2) = 96."""
    live = explorer(open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    expect(status).to_contain_text("Tile 2 of 8: queries 1–4 and keys 3–4.")
    forward = live.get_by_role("button", name="Next")
    for _ in range(2):
        forward.press("Enter")
    expect(status).to_contain_text("Tile 4 of 8")
    expect(status).to_contain_text("This block is done: o / ℓ differs from plain softmax by ")
    for _ in range(6):  # two more than there are
        forward.press("Enter")
    expect(status).to_contain_text("Tile 8 of 8: queries 5–8 and keys 7–8. All is done")
    expect(status).to_contain_text("192 B crossed instead of 640 B")
    apart = re.search(r"plain softmax is (\d\.\d) · 10⁻(\S+),", status.inner_text())
    assert apart is None or apart[2] in ("¹⁵", "¹⁶", "¹⁷")
    assert apart or "is 0, and" in status.inner_text()
    live.get_by_role("button", name="Back").press("Enter")
    expect(status).to_contain_text("Tile 7 of 8")


def test_the_arithmetic_is_true(open_page: Callable[..., Page]) -> None:
    """Of each step: the old sum, shrunk, and the new tile's terms are the sum in the table."""
    live = explorer(page := open_page(f"{GALLERY}.html"))
    live.get_by_label("tile", exact=True).focus()
    said = live.locator(".att-status").inner_text()
    found = re.search(
        r"Query (\d)'s maximum rises from (\S+) to (\S+): .*e\^\((\S+)\) = (\S+), .*is \S+ · (\S+) \+ (\S+) = (\S+)\.",
        said,
    )
    assert found
    query = int(found[1])
    before, after, power, factor, old, new, total = (float(found[k].replace("−", "-")) for k in range(2, 9))
    assert after - before == pytest.approx(-power, abs=0.011)
    assert factor == pytest.approx(2.718281828**power, abs=0.01)
    assert total == pytest.approx(factor * old + new, abs=0.02)
    kept = live.get_by_role("grid", name="Kept on the chip").locator("[role=gridcell]")
    shown = [float(text.replace("−", "-")) for text in kept.all_inner_texts()[5 * (query - 1) : 5 * query]]
    assert shown[:3] == [after, factor, total]
    page.keyboard.press("Home")
    expect(live.locator(".att-status")).to_contain_text("8 tiles of up to 4 × 2 scores")


def test_causal_passes_over_what_nobody_sees(open_page: Callable[..., Page]) -> None:
    """Of queries 1–4 and keys 5–8 no pair may attend: two of eight tiles."""
    live = explorer(page := open_page(f"{GALLERY}.html"))
    live.get_by_label("causal").press("Space")
    live.get_by_label("tile", exact=True).focus()
    page.keyboard.press("End")
    expect(live.locator(".att-status")).to_contain_text("Tile 6 of 6: queries 5–8 and keys 7–8. All is done")
    rows = live.locator(".att-facts tbody tr")
    expect(rows.nth(1)).to_contain_text("512384")  # 4·64·2 operations, and three quarters of them
    box = live.locator(".att-matrix-of-scores").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.8)  # queries 5–8, keys 1–2
    expect(live.locator(".att-status")).to_contain_text("Tile 3 of 6: queries 5–8 and keys 1–2.")


def test_little_fast_memory_makes_blocks_the_dearer_way(open_page: Callable[..., Page]) -> None:
    """16 KiB are 8,192 numbers: B = √(4·64² + 8192) − 128 = 28, and ⌈4096/28⌉ = 147 rows of tiles.

    2·4096·64·148 numbers are 148 MiB; naive 4·4096·64 + 4·4096² are 130.
    """
    live = explorer(page := open_page(f"{GALLERY}.html"))
    row = live.locator(".att-facts tbody tr").nth(2)
    expect(row).to_have_text("n = 4,096, d = 64, B = 158: bytes moved130 MiB27 MiB4.8 ×")
    live.get_by_label("fast memory").focus()
    page.keyboard.press("Home")
    expect(row).to_have_text("n = 4,096, d = 64, B = 28: bytes moved130 MiB148 MiB0.88 ×")
    live.get_by_label("keys in a block").focus()
    page.keyboard.press("End")  # one tile wide; the walk is shorter than the step was
    expect(live.locator(".att-status")).to_contain_text("Tile 2 of 2")


def test_it_plays_when_asked_and_stops_when_the_reader_takes_over(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    page = browser.new_page(reduced_motion="no-preference")
    page.goto(f"{site}/{GALLERY}.html")
    live = explorer(page)
    step = live.get_by_label("tile", exact=True)
    play = live.get_by_role("button", name="Play")
    page.wait_for_timeout(1500)
    expect(step).to_have_value("2")
    play.click()
    expect(step).to_have_value("3")
    expect(step).to_have_value("4", timeout=3000)
    pause = live.get_by_role("button", name="Pause")
    pause.press("Enter")
    page.wait_for_timeout(1500)
    expect(step).to_have_value("4")
    play.press("Enter")
    expect(step).to_have_value("5")
    live.locator(".att-reset").click()
    expect(play).to_be_visible()
    page.wait_for_timeout(1500)
    expect(step).to_have_value("2")
    page.close()


def test_nothing_plays_where_motion_is_not_wanted(open_page: Callable[..., Page]) -> None:
    live = explorer(open_page(f"{GALLERY}.html"))
    expect(live.get_by_role("button", name="Next")).to_be_visible()
    expect(live.locator(".att-play")).to_be_hidden()
