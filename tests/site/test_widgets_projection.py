"""The projections in the page: the right scores, symmetry when tied, fields that take numbers alone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.site.test_widgets import FIGURES, GALLERY, figure

pytestmark = pytest.mark.browser


def test_equal_matrices_make_symmetric_scores(open_page: Callable[..., Page]) -> None:
    """cat (1.2, .3) turned by the quarter is q = (−.3, 1.2); with sat as key (−.3, 1.2): 1.53 / √2 = 1.08."""
    live = figure(page := open_page(f"{GALLERY}.html"), FIGURES.index("ProjectionExplorer"))
    status = live.locator(".att-status")
    expect(status).to_contain_text("“cat” scores “sat” with 1.08, “sat” scores “cat” with −1.08.")
    live.get_by_label("W_K = W_Q").press("Space")
    expect(status).to_contain_text("“cat” scores “sat” with 0.00")
    expect(status).to_contain_text("The scores are symmetric")
    live.get_by_role("button", name="identity").press("Enter")
    expect(live.get_by_label("W_K, row 1, column 1")).to_have_value("1")
    assert page.evaluate("document.activeElement.ariaLabel") == "W_Q: identity"


def test_a_field_takes_numbers_in_range_alone(open_page: Callable[..., Page]) -> None:
    live = figure(open_page(f"{GALLERY}.html"), FIGURES.index("ProjectionExplorer"))
    field = live.get_by_label("W_Q, row 1, column 1")
    for typed, kept in (("", "0"), ("99", "3"), ("-0.5", "-0.5")):
        field.fill(typed)
        field.press("Enter")
        expect(field).to_have_value(kept)
