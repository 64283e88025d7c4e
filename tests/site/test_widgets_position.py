"""The figure of positions answers with the right numbers, in all of its views."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser


def explorer(page: Page) -> Locator:
    return figure(page, FIGURES.index("PositionExplorer"))


def test_a_position_is_a_row_of_hands(open_page: Callable[..., Page]) -> None:
    """Pair 3 of 32 features turns by 10000 ** (−6/32) = .1778; 20 of these are 3.557, with sine −.403, cosine −.915."""
    live = explorer(page := open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    expect(status).to_contain_text("Its pair 3 is (−0.40, −0.92): sine and cosine of 3.56")
    live.get_by_label("position", exact=True).focus()
    page.keyboard.press("Home")
    expect(status).to_contain_text("Position 0 adds 32 numbers. Its pair 3 is (0.00, 1.00)")
    live.get_by_label("features", exact=True).focus()
    page.keyboard.press("Home")  # 8 features: pair 3 is the last, 10000 ** (−6/8) = .001 a position
    expect(status).to_contain_text("Position 0 adds 8 numbers")
    expect(status).to_contain_text("The first pair needs 6.3, the last 6,283.")
    assert live.get_by_label("pair", exact=True).get_attribute("max") == "3"


def test_the_map_can_be_pointed_at(open_page: Callable[..., Page]) -> None:
    live = explorer(page := open_page(f"{GALLERY}.html"))
    box = live.locator(".att-map").bounding_box()
    assert box is not None
    zoom = box["width"] / 366
    page.mouse.click(box["x"] + (40 + 320 * 11 / 32) * zoom, box["y"] + (4 + 256 * 10.5 / 64) * zoom)  # feature 11
    expect(live.locator(".att-status")).to_contain_text("Position 10 adds 32 numbers. Its pair 5 ")


@pytest.mark.parametrize(
    ("view", "names", "said"),
    [
        # q · R(5 · .1778) k, where q = (1.5, .5), k = (1.3, 1.1): (1.5, .5) · (−.035, 1.703) = .799
        ("rotary", ("query's position", "key's position"), "Their score is 0.799"),
        ("their products", ("position i", "position j"), ": 11.78, where a position with itself has 16."),
    ],
)
def test_moving_both_changes_nothing(
    open_page: Callable[..., Page], view: str, names: tuple[str, str], said: str
) -> None:
    live = explorer(page := open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    live.get_by_label(view, exact=True).check()
    expect(status).to_contain_text(said)
    live.get_by_label("move both by").focus()
    page.keyboard.press("End")
    expect(status).to_contain_text("1020")
    expect(status).to_contain_text(said)
    for name in names:
        live.get_by_label(name, exact=True).focus()
        page.keyboard.press("ArrowRight")
    expect(status).to_contain_text("1026")
    expect(status).to_contain_text(said)
    page.keyboard.press("ArrowRight")  # the key alone
    expect(status).not_to_contain_text(said)


def test_heads_that_are_no_power_of_two(open_page: Callable[..., Page]) -> None:
    """Of 12 heads the last has the slope of the 7th of 16, 2 ** −3.5 = .0884; its weights are (1 − r) rⁿ, nearly."""
    live = explorer(page := open_page(f"{GALLERY}.html"))
    status = live.locator(".att-status")
    live.get_by_label("ALiBi").check()
    expect(status).to_contain_text("Head 1 of 8 takes 0.5 from the score")
    expect(status).to_contain_text("the nearest key gets 0.39")  # 1 − e^−.5
    live.get_by_label("heads", exact=True).focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    live.get_by_label("head", exact=True).focus()
    page.keyboard.press("End")
    expect(status).to_contain_text(
        "Head 12 of 12 (8 have the slopes of 8 heads, the others fill in from 16) takes 0.0884"
    )
    expect(status).to_contain_text("the nearest key gets 0.08")  # 1 − e^−.0884 = .085
    bias = live.get_by_role("grid", name="What the head adds").locator("[role=gridcell]")
    expect(bias.nth(30)).to_have_text("−0.44")  # five back: 5 · .0884


def test_a_query_is_dragged(open_page: Callable[..., Page]) -> None:
    live = explorer(page := open_page(f"{GALLERY}.html"))
    live.get_by_label("rotary").check()
    query = live.get_by_label("query before it is turned")
    expect(query).to_have_attribute("aria-valuetext", "1.50, 0.50")
    query.focus()
    page.keyboard.press("Shift+ArrowLeft")
    expect(query).to_have_attribute("aria-valuetext", "0.50, 0.50")
    # (.5, .5) · (−.035, 1.703) = .834
    expect(live.locator(".att-status")).to_contain_text("Their score is 0.834")
