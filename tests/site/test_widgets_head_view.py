"""HeadView shows a real model's attention, by key, by mouse and by finger."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, PHONE, figure
from tests.site.test_widgets_mask_editor import HOSTILE, serve

pytestmark = pytest.mark.browser

INK = "e => [...e.getContext('2d').getImageData(0, 0, e.width, e.height).data].filter((_, i) => i % 4 === 3)"


def view(page: Page) -> Locator:
    return figure(page, FIGURES.index("HeadView"))


def test_it_looks_at_the_animal(open_page: Callable[..., Page]) -> None:
    """As tests/widgets/test_head_view.py finds in the model itself: .65, by head 1 of layer 3."""
    live = view(open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    expect(status).to_contain_text(
        "Layer 3, head 1: “it” looks at “animal” 0.65, “[CLS]” 0.12, “it” 0.06; the other 11"
    )
    expect(live.get_by_role("gridcell")).to_have_count(72)
    expect(live.get_by_role("listbox", name="keys").get_by_role("option").nth(2)).to_have_attribute(
        "aria-label", "“animal” .65"
    )
    expect(live.get_by_text("rounded to whole 255ths")).to_be_visible()
    # The picture has the number too: alpha is the weight, 0.62 of it.
    row = live.locator(".att-map canvas").evaluate(INK)[9 * 14 : 10 * 14]
    assert max(range(14), key=lambda k: row[k]) == 2
    assert abs(row[2] / 255 - 0.62 * 0.65) < 0.01


def test_the_keyboard_walks_heads_and_tokens(open_page: Callable[..., Page]) -> None:
    live = view(page := open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    live.get_by_role("gridcell", name="layer 3, head 1", exact=True).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(live.get_by_role("gridcell", name="layer 5, head 11")).to_be_focused()
    expect(status).to_contain_text("Layer 5, head 11: “it” looks at “animal” 0.6")
    page.keyboard.press("ArrowDown")  # there is no further layer
    expect(live.get_by_role("gridcell", name="layer 5, head 11")).to_be_focused()
    queries, keys = (live.get_by_role("listbox", name=name) for name in ("queries", "keys"))
    queries.get_by_role("option", selected=True).focus()
    page.keyboard.press("ArrowUp")
    expect(status).to_contain_text("“because” looks at")
    page.keyboard.press("ArrowRight")
    expect(status).to_contain_text("“because” is looked at by")
    page.keyboard.press("Home")
    expect(status).to_contain_text("“[CLS]” is looked at by")
    expect(keys.get_by_role("option").first).to_be_focused()
    # The numbers have changed sides.
    assert queries.get_by_role("option").first.get_attribute("aria-label") != "“[CLS]”"
    assert keys.get_by_role("option").first.get_attribute("aria-label") == "“[CLS]”"


def test_the_mouse_isolates_a_token_for_as_long_as_it_is_there(open_page: Callable[..., Page]) -> None:
    live = view(page := open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    live.get_by_role("listbox", name="keys").get_by_role("option").nth(2).hover()
    expect(status).to_contain_text("“animal” is looked at by “it” 0.65")
    page.mouse.move(2, 2)
    expect(status).to_contain_text("“it” looks at “animal”")
    live.locator(".att-map").scroll_into_view_if_needed()
    box = live.locator(".att-map canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 2.5 / 14)
    page.mouse.move(2, 2)
    expect(status).to_contain_text("“animal” looks at")
    live.locator(".att-reset").click()
    expect(status).to_contain_text("“it” looks at “animal” 0.65")


def test_one_token_in_every_small_picture(open_page: Callable[..., Page]) -> None:
    """Each is then one row fourteen times: the weights of "it", square roots of them."""
    live = view(open_page(f"{GALLERY}.html"))
    live.get_by_label("the chosen one").check()
    thumb = live.get_by_role("gridcell", name="layer 3, head 1", exact=True).evaluate(INK)
    assert all(thumb[14 * q : 14 * q + 14] == thumb[:14] for q in range(14))
    assert abs((thumb[2] / 255) ** 2 - 0.65) < 0.01
    # One other head does the same.
    strong = [
        cell.get_attribute("aria-label")
        for cell in live.get_by_role("gridcell").all()
        if (cell.evaluate(INK)[2] / 255) ** 2 > 0.5
    ]
    assert strong == ["layer 3, head 1", "layer 5, head 11"]


def test_fading_changes_no_weight(open_page: Callable[..., Page]) -> None:
    live = view(open_page(f"{GALLERY}.html"))
    live.get_by_label("fade [CLS] and the like").check()
    expect(live.locator(".att-status")).to_contain_text("“animal” 0.65, “it” 0.06")
    expect(live.locator(".att-status")).to_contain_text("special tokens take 0.15")
    expect(live.get_by_role("listbox", name="keys").get_by_role("option").first).to_have_attribute(
        "aria-label", "“[CLS]” .12"
    )


def test_a_finger_chooses(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{site}/{GALLERY}.html")
    live = view(page)
    live.get_by_role("gridcell", name="layer 5, head 11").tap()
    expect(live.locator(".att-status")).to_contain_text("Layer 5, head 11")
    live.get_by_role("listbox", name="queries").get_by_role("option").nth(12).tap()
    expect(live.locator(".att-status")).to_contain_text("“tired” looks at")
    for part in (".att-thumb", ".att-token"):
        box = live.locator(part).first.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 24
    context.close()


def test_a_token_is_text(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    page = browser.new_page()
    serve(page, '"animal"')
    page.goto(f"{site}/{GALLERY}.html")
    live = view(page)
    expect(live.locator(".att-status")).to_contain_text(f"“it” looks at “{HOSTILE}” 0.65")
    option = live.get_by_role("listbox", name="keys").get_by_role("option").nth(2)
    expect(option).to_have_attribute("aria-label", f"“{HOSTILE}” .65")
    expect(option).to_have_attribute("title", HOSTILE)
    expect(live.locator("img")).to_have_count(0)
    assert page.title() != "taken"
    page.close()
