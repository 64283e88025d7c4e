"""The questions of a chapter, in the built page, with no kernel: by keyboard, with what is behind each answer."""

import importlib
import re
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from companion.exercises.spec import Choice, Code, Number
from tests.site.pages import BOOK, PAGES, PHONE
from tests.site.test_widgets import VIEW, figure, names

pytestmark = pytest.mark.browser

FIFTH = "05-scaled-dot-product-attention"


def shown(name: str) -> list[str]:
    """Set and id of each question on a page, in order."""
    outputs = [
        output.data["text/plain"]
        for cell in nbformat.read(BOOK / f"{name}.ipynb", as_version=4).cells
        for output in cell.get("outputs", [])
        if VIEW in output.get("data", {})
    ]
    return [text.removeprefix("QuestionView(").rstrip(")") for text in outputs if text.startswith("QuestionView(")]


def asked(title: str) -> Any:
    """The question that a page shows, as Python has it."""
    of, _, name = title.partition("/")
    return importlib.import_module(f"companion.exercises.sets.{of}").SET[name]


WITH_QUESTIONS = [page for page in PAGES if "QuestionView" in names(page)]


def question(page: Page, name: str, title: str) -> Locator:
    """A question of the page, drawn."""
    places = [count for count, kind in enumerate(names(name)) if kind == "QuestionView"]
    live = figure(page, places[shown(name).index(title)])
    expect(live).to_have_class("att-figure att-question")
    return live


def printed(text: str) -> re.Pattern[str]:
    """A text as the page's own typography has it: its quotes may be curly."""
    return re.compile(re.sub(r"""['"’“”]""", ".", re.escape(text.replace("`", ""))))


def verdict(live: Locator) -> Locator:
    return live.locator(".att-verdict")


def check(live: Locator) -> None:
    live.get_by_role("button", name="Check").press("Enter")


def test_the_first_part_asks() -> None:
    assert FIFTH in WITH_QUESTIONS


@pytest.mark.parametrize("name", WITH_QUESTIONS)
def test_choices_and_numbers_answer_by_keyboard(open_page: Callable[..., Page], name: str) -> None:
    page = open_page(f"{name}.html")
    for title in shown(name):
        ours, live = asked(title), None
        if isinstance(ours, (Choice, Number)):
            live = question(page, name, title)
            check(live)
            expect(verdict(live)).not_to_contain_text("Not yet")
        for answer in ours.answers if live else []:
            if isinstance(ours, Choice):
                live.get_by_label(answer.what.replace("`", ""), exact=True).press("Space")
                expect(verdict(live)).to_have_text("Choose, then press Check.")
                check(live)
            else:
                field = live.get_by_role("textbox")
                field.fill(str(answer.what))
                field.press("Enter")
            start = "Right." if answer.right else "Not yet."
            expect(verdict(live)).to_have_text(f"{start} {answer.say}".replace("`", ""))
            expect(verdict(live)).to_have_attribute("role", "status")


def test_a_figure_is_judged_as_it_stands(open_page: Callable[..., Page]) -> None:
    """A mask that is off, a number of another table, a weight that grew, and one that stayed."""
    page = open_page(f"{FIFTH}.html")
    live = question(page, FIFTH, "ch05/spared")
    said = {answer.name: answer.say for answer in asked("ch05/spared").answers}
    expect(verdict(live)).to_have_text("Work the figure, then press Check.")
    check(live)
    expect(verdict(live)).to_have_text(f"Not yet. {said['no mask']}")
    live.get_by_label("no query sees a later key").press("Space")
    expect(verdict(live)).to_have_text("Work the figure, then press Check.")
    check(live)
    expect(verdict(live)).to_have_text(f"Not yet. {said['other table']}")
    weights = live.get_by_role("grid", name="4 weights A")
    for row, name in ((1, "grown"), (2, "last row")):
        weights.locator("[tabindex='0']").press("ArrowDown")
        check(live)
        expect(verdict(live)).to_have_text(f"{'Right.' if row == 2 else 'Not yet.'} {said[name]}")


def test_what_is_no_number_is_told(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{FIFTH}.html")
    live = question(page, FIFTH, "ch05/masked")
    field = live.get_by_role("textbox")
    for text, says in (("two", "That is no number"), ("2/5", "Right."), ("0,4", "Right."), ("", "Type a number")):
        field.fill(text)
        field.press("Enter")
        expect(verdict(live)).to_contain_text(says)


def test_code_asks_for_a_notebook_and_gives_a_hint(open_page: Callable[..., Page]) -> None:
    page = open_page(f"{FIFTH}.html")
    live = question(page, FIFTH, "ch05/attention")
    expect(verdict(live)).to_contain_text("practice.check('attention', attention)")
    live.get_by_role("button", name="Hint").press("Enter")
    expect(verdict(live)).to_contain_text(asked("ch05/attention").hint)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", WITH_QUESTIONS)
def test_a_phone_shows_them_without_scrolling_sideways(open_page: Callable[..., Page], name: str, scheme: str) -> None:
    page = open_page(f"{name}.html", PHONE, scheme)
    for title in shown(name):
        live = question(page, name, title)
        box = live.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("name", WITH_QUESTIONS)
def test_without_scripts_they_are_text(browser: Browser, site: str, name: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/{name}.html")
    for title in shown(name):
        ours = asked(title)
        place = page.locator(".att-widget").filter(has_text=printed(ours.prompt))
        expect(place).to_be_visible()
        for answer in ours.answers if isinstance(ours, Choice) else []:
            expect(place.get_by_role("listitem").filter(has_text=printed(answer.what)).first).to_be_visible()
        if not isinstance(ours, (Choice, Number, Code)):
            expect(place.locator("img")).to_be_visible()
    context.close()
