"""The decoder in the page counts what a hand can count."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, figure
from tests.site.test_widgets_mask_editor import HOSTILE, serve

pytestmark = pytest.mark.browser


def explorer(page: Page) -> Locator:
    return figure(page, FIGURES.index("DecodeExplorer"))


def test_each_token_costs_what_it_costs(open_page: Callable[..., Page]) -> None:
    """32 layers, 32 heads of 128, two bytes: 2 · 32 · 32 · 128 · 2 = 512 KiB a token; 1 + 2 + … + 5 = 15 for 5."""
    live = explorer(open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    expect(status).to_contain_text("Token 5, “the”. Without a cache all 5 tokens are projected and 25 scores")
    expect(status).to_contain_text("So far that is 3 times the work; the cache holds 2.5 MiB, 512 KiB a token.")
    live.get_by_role("button", name="Next").press("Enter")
    expect(status).to_contain_text("Token 6, “mat”. Without a cache all 6 tokens are projected and 36 scores")
    expect(status).to_contain_text("So far that is 3.5 times the work; the cache holds 3 MiB")  # 21 for 6
    step = live.get_by_label("token", exact=True)
    step.press("Home")
    expect(status).to_contain_text("Without a cache one token is projected and 1 score made in each head")
    expect(status).to_contain_text("So far that is as much work")
    step.press("End")
    expect(status).to_contain_text("Token 8, “slept”")


def test_heads_that_share_keys_keep_less(open_page: Callable[..., Page]) -> None:
    live = explorer(page := open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    groups = live.get_by_label("key/value heads G")
    expect(groups).to_have_attribute("aria-valuetext", "32, MHA")
    groups.focus()
    page.keyboard.press("Home")
    expect(groups).to_have_attribute("aria-valuetext", "1, MQA")
    expect(status).to_contain_text("the cache holds 80 KiB, 16 KiB a token")  # a 32nd
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(groups).to_have_attribute("aria-valuetext", "8, GQA")
    expect(status).to_contain_text("128 KiB a token")  # Llama 3 8B
    expect(live.locator(".att-facts tbody tr").last).to_have_text("token 8,192: kept0 B1 GiB")
    live.get_by_label("float32").check()
    expect(status).to_contain_text("256 KiB a token")
    live.get_by_label("query heads H").focus()
    page.keyboard.press("Home")  # one query head has one key/value head
    expect(groups).to_have_attribute("aria-valuetext", "1, MHA")


def test_a_token_is_text(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    page = browser.new_page()
    serve(page, '"slept"')
    page.goto(f"{site}/{GALLERY}.html")
    live = explorer(page)
    live.get_by_label("token", exact=True).press("End")
    expect(live.locator(".att-present")).to_have_text(HOSTILE)
    expect(live.locator(".att-status")).to_contain_text(f"“{HOSTILE}”")
    expect(live.locator("img")).to_have_count(0)
    assert page.title() != "taken"
    page.close()
