"""The scaling figure finds what theory says: a standard deviation of √d without the scale, 1 with it."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser


def test_scores_spread_by_the_root_of_the_width(open_page: Callable[..., Page]) -> None:
    """The deviation of 1,024 scores of 64 queries and 16 keys lies within a fifth of √d at d = 512."""
    live = figure(page := open_page(f"{GALLERY}.html"), FIGURES.index("ScalingExplorer"))
    status = live.locator(".att-status")
    live.get_by_label("head width d").focus()
    page.keyboard.press("End")
    expect(status).to_contain_text("d = 512, not divided")
    spread = float(re.search(r"spread by ([\d.]+)", status.inner_text())[1])  # type: ignore[index]
    assert spread == pytest.approx(512**0.5, rel=0.2)
    live.get_by_label("divide by √d").press("Space")
    expect(status).to_contain_text("d = 512, divided by √d")
    scaled = float(re.search(r"spread by ([\d.]+)", status.inner_text())[1])  # type: ignore[index]
    assert scaled == pytest.approx(spread / 512**0.5, abs=0.006)
