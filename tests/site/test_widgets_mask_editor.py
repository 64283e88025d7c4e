"""The mask editor answers with the right numbers, by key, by mouse and by finger."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.site.test_widgets import FIGURES, GALLERY, PHONE, figure

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='taken'>"


def editor(page: Page) -> Locator:
    return figure(page, FIGURES.index("MaskEditor"))


def table(live: Locator, name: str) -> Locator:
    return live.get_by_role("grid", name=name)


def values(live: Locator) -> list[str]:
    """The mask row by row, as it is printed."""
    cells = table(live, "The mask").locator("[role=gridcell]").all_inner_texts()
    return ["".join(cells[i : i + 6]) for i in range(0, 36, 6)]


def test_padding_alone_then_causal_then_on_the_left(open_page: Callable[..., Page]) -> None:
    live = editor(open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    expect(status).to_contain_text("24 of 36 pairs may attend")  # 6 queries by 4 real keys
    assert values(live) == ["TTTTFF"] * 6
    expect(live.locator(".att-code")).to_have_text("mask = padding([4])")
    live.get_by_label("causal: the key comes no later").check()
    expect(status).to_contain_text("18 of 36")  # 1 + 2 + 3 + 4 + 4 + 4
    expect(status).to_contain_text("0.00 lies on padding and 0.00 on later tokens. No row is empty.")
    expect(live.locator(".att-code")).to_have_text("mask = causal() & padding([4])")
    live.get_by_label("left").check()
    expect(status).to_contain_text("10 of 36")  # 0 + 0 + 1 + 2 + 3 + 4
    expect(status).to_contain_text("Rows 1 ([pad]), 2 ([pad]) may see nothing: weights of zero")
    assert values(live)[:3] == ["FFFFFF", "FFFFFF", "FFTFFF"]
    weights = table(live, "Weights A").locator("[role=gridcell]")
    expect(weights.nth(0)).to_have_text("")
    expect(weights.nth(14)).to_have_text("1.00")  # the first real token sees itself alone
    live.get_by_label("score −1e9, plain softmax").check()
    expect(weights.nth(0)).to_have_text("0.17")  # a sixth each
    live.get_by_label("score −∞, plain softmax").check()
    expect(weights.nth(0)).to_have_text("NaN")
    expect(status).to_contain_text("∞ − ∞ is NaN")


def test_rules_are_joined_by_or_and_not(open_page: Callable[..., Page]) -> None:
    live = editor(open_page(f"{GALLERY}.html"))
    live.get_by_label("window: both are near each other").check()
    live.get_by_label("how window is joined").select_option("or")
    assert values(live) == ["TTTTFF", "TTTTFF", "TTTTFF", "TTTTTF", "TTTTTT", "TTTTTT"]  # less than 2 apart
    live.get_by_label("how padding is joined").select_option("if not")
    assert values(live)[0] == "TTFFTT"
    expect(live.locator(".att-code")).to_have_text("mask = ~padding([4]) | sliding_window(2, causal=False)")
    live.get_by_label("documents: both are in the same").check()
    live.get_by_role("button", name="cat, place 2").click()  # documents begin at places 2 and 4
    expect(live.locator(".att-code")).to_contain_text("document(torch.tensor([[0, 1, 1, 2, 2, 2]]))")


def test_read_the_other_way_round_it_leaks(open_page: Callable[..., Page]) -> None:
    """With padding alone, whoever reads True as hidden looks at padding alone: all of the weight."""
    live = editor(open_page(f"{GALLERY}.html"))
    live.get_by_label("the model reads T as hidden").check()
    expect(live.locator(".att-status")).to_contain_text("12 of 36 pairs may attend")
    expect(live.locator(".att-status")).to_contain_text("1.00 lies on padding")
    assert values(live) == ["TTTTFF"] * 6  # the table is as it was
    expect(table(live, "The mask").locator("[role=gridcell]").first).to_have_class("att-open att-hidden")
    marked = table(live, "Weights A").locator(".att-marked")
    expect(marked).to_have_count(12)
    expect(live.locator(".att-status")).to_contain_text("12 weights, framed in dashes")


def test_cells_by_key_and_by_mouse(open_page: Callable[..., Page]) -> None:
    live = editor(page := open_page(f"{GALLERY}.html"))
    cells = table(live, "The mask").locator("[role=gridcell]")
    cells.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert values(live)[:2] == ["TTTTFF", "FTTTFF"]
    expect(cells.nth(6)).to_have_attribute("aria-label", "cat, the: False, hidden, set by hand")
    page.keyboard.press("Enter")
    assert values(live)[1] == "TTTTFF"
    expect(live.locator(".att-code")).to_have_text("mask = padding([4])")
    # A stroke from an open cell closes what it crosses.
    cells.nth(0).scroll_into_view_if_needed()
    boxes = [cells.nth(n).bounding_box() for n in (0, 1, 2, 3)]
    spots = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box]
    page.mouse.move(*spots[0])
    page.mouse.down()
    for spot in spots[1:]:
        page.mouse.move(*spot)
    page.mouse.up()
    assert values(live)[0] == "FFFFFF"
    expect(live.locator(".att-status")).to_contain_text("Row 1 (the) may see nothing")
    expect(live.locator(".att-code")).to_contain_text("mask[[0, 0, 0, 0], [0, 1, 2, 3]] = False")
    cells.nth(1).click()
    assert values(live)[0] == "FTFFFF"
    live.locator(".att-reset").click()
    assert values(live) == ["TTTTFF"] * 6


def test_a_finger_taps_cells_and_scrolls_the_page(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{site}/{GALLERY}.html")
    live = editor(page)
    cell = table(live, "The mask").locator("[role=gridcell]").first
    cell.tap()
    assert values(live)[0] == "FTTTFF"
    assert cell.evaluate("e => getComputedStyle(e).touchAction") == "pan-y"
    context.close()


def test_a_token_is_text(browser, site: str) -> None:  # type: ignore[no-untyped-def]
    page = browser.new_page()
    serve(page, '"cat"')
    page.goto(f"{site}/{GALLERY}.html")
    live = editor(page)
    head = table(live, "The mask").locator("thead th").nth(1)
    expect(head).to_have_text(HOSTILE)
    expect(head).to_have_attribute("title", HOSTILE)
    live.get_by_label("documents: both are in the same").check()
    expect(live.locator("img")).to_have_count(0)
    assert page.title() != "taken"
    page.close()


def serve(page: Page, token: str) -> None:
    """Put a hostile token in the place of another, in the state that the page carries."""

    def answer(route: Route) -> None:
        response = route.fetch()
        spelled = HOSTILE.replace("'", "\\u0027")
        route.fulfill(response=response, body=response.text().replace(token, f'"{spelled}"'))

    page.route(f"**/{GALLERY}.html", answer)
