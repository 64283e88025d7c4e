"""The site in a real browser."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.site.pages import ALL, DESKTOP, PAGES, PHONE

pytestmark = pytest.mark.browser


def scroll_to_the_end(page: Page) -> None:
    page.evaluate(
        """async () => {
            for (let y = 0; y < document.body.scrollHeight; y += 700) {
                window.scrollTo(0, y);
                await new Promise(requestAnimationFrame);
            }
            const late = [...document.images].map(i => { i.loading = 'eager'; return i.decode().catch(() => 0); });
            await Promise.all(late);
        }"""
    )
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("name", ALL)
def test_a_page_loads_clean_and_fits_a_phone(open_page: Callable[..., Page], name: str) -> None:
    page = open_page(f"{name}.html", PHONE)
    scroll_to_the_end(page)
    page.evaluate("window.scrollTo(1000, 0)")
    assert page.evaluate("window.scrollX") == 0, "the page scrolls sideways"
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert not page.evaluate(CUT_OFF)
    assert not page.evaluate(FLAT_EQUATIONS)
    for source, shown, natural in page.evaluate(PROPORTIONS):
        assert natural, f"{source} did not load"
        assert shown == pytest.approx(natural, rel=0.02), source
    if page.locator(".bd-article .katex").count():
        page.evaluate("document.fonts.ready.then(() => true)")
        assert page.evaluate("[...document.fonts].some(f => f.family.includes('KaTeX') && f.status === 'loaded')")


# What is too wide must scroll inside itself.
CUT_OFF = """() => [...document.querySelectorAll('.bd-article *')]
    .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1 && e.checkVisibility())
    .filter(e => {
        for (let p = e.parentElement; p; p = p.parentElement)
            if (['auto', 'scroll'].includes(getComputedStyle(p).overflowX)) return false;
        return !e.closest('.katex-mathml, svg');
    }).map(e => e.outerHTML.slice(0, 120))"""

FLAT_EQUATIONS = """() => [...document.querySelectorAll('.bd-article .katex-html')]
    .filter(e => e.checkVisibility())
    .filter(e => { const b = e.getBoundingClientRect(); return b.width < 3 || b.height < 8; })
    .map(e => e.textContent)"""

# Of each picture: its name, width to height as shown, and as drawn.
PROPORTIONS = """() => [...document.querySelectorAll('.bd-article img')]
    .filter(i => i.checkVisibility())
    .map(i => [i.src, i.clientWidth / i.clientHeight, i.naturalWidth && i.naturalWidth / i.naturalHeight])"""


@pytest.mark.parametrize("width", [390, 768, 1024, 1280])
def test_the_sidebar_can_be_reached(open_page: Callable[..., Page], width: int) -> None:
    page = open_page("notation.html", {"width": width, "height": 900})
    link = page.locator(".bd-sidebar-primary nav a", has_text="Glossary").first
    if not link.is_visible() or link.bounding_box()["x"] < 0:  # type: ignore[index]
        page.locator("button.primary-toggle:visible").first.click()
    first = page.locator(".bd-sidebar-primary nav a").first
    expect(first).to_be_in_viewport()
    first.hover()
    page.mouse.wheel(0, 2000)  # by hand: what scrolls by script alone would hide the end from a reader
    expect(link).to_be_in_viewport()
    link.click()
    expect(page).to_have_url(f"{page.url.rpartition('/')[0]}/glossary.html")
    expect(page.locator(".bd-article h1")).to_contain_text("Glossary")


def test_dark_mode_switches_and_stays(open_page: Callable[..., Page]) -> None:
    page = open_page("notation.html")
    brightness = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    seen = set()
    for _ in range(3):
        page.locator("button.theme-switch-button:visible").first.click()
        theme = page.evaluate("document.documentElement.dataset.theme")
        seen.add(theme)
        assert (page.evaluate(brightness) < 60) == (theme == "dark")
    assert seen == {"light", "dark"}
    while page.evaluate("document.documentElement.dataset.mode") != "dark":
        page.locator("button.theme-switch-button:visible").first.click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_readers_own_scheme_is_followed(open_page: Callable[..., Page], scheme: str) -> None:
    page = open_page("index.html", scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme


def test_search_finds_softmax(open_page: Callable[..., Page]) -> None:
    page = open_page("index.html")
    page.keyboard.press("Control+k")
    field = page.locator("input[type=search]:visible").first
    field.fill("softmax")
    field.press("Enter")
    results = page.locator("#search-results ul.search li")
    expect(results.first).to_be_visible()
    expect(results.filter(has_text="Glossary").first).to_be_visible()  # they come one by one


def test_a_marked_letter_is_underlined_in_its_colour(open_page: Callable[..., Page]) -> None:
    page = open_page("notation.html")
    for role, colour in {"query": "rgb(0, 114, 178)", "key": "rgb(230, 159, 0)", "output": "rgb(213, 94, 0)"}.items():
        letter = page.locator(f".katex-html .att-{role}").first
        style = letter.evaluate(
            "e => { const s = getComputedStyle(e); return [s.textDecorationColor, s.textDecorationLine]; }"
        )
        assert style == [colour, "underline"]


def test_the_keyboard_shows_where_it_is(open_page: Callable[..., Page]) -> None:
    page = open_page("notation.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#main-content"
    unseen, seen = [], 0
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            continue  # past the last one, on the way round
        seen += 1
        outline = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
                return [s.outlineStyle, parseFloat(s.outlineWidth), e.outerHTML.slice(0, 100)]; }"""
        )
        if outline[0] == "none" or outline[1] < 2:
            unseen.append(outline)
    assert not unseen
    assert seen > 15


@pytest.fixture
def without_script(browser: Browser, site: str) -> Iterator[Callable[[dict[str, int]], Page]]:
    """Open the first chapter where no script runs."""
    context = browser.new_context(java_script_enabled=False)

    def go(viewport: dict[str, int]) -> Page:
        page = context.new_page()
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        page.goto(f"{site}/01-intuition.html")
        return page

    yield go
    context.close()


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_without_script_all_is_there(without_script: Callable[..., Page], viewport: dict[str, int]) -> None:
    page = without_script(viewport)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")  # else nothing has a colour
    for solution in page.locator("div.solution").all():
        expect(solution.locator("p:not(.admonition-title)").first).to_be_visible()
    page.locator("details.hide summary").first.click()
    expect(page.locator("details.hide div.cell_input").first).to_be_visible()
    link = page.locator(".bd-sidebar-primary nav a").last
    link.scroll_into_view_if_needed()
    expect(link).to_be_in_viewport()
    page.locator(".dropdown-download-buttons button").first.focus()
    expect(page.locator(".btn-download-source-button")).to_be_visible()
    for dead in (".sidebar-toggle", ".search-button", ".theme-switch-button"):
        expect(page.locator(f"{dead}:visible")).to_have_count(0)


def test_paper_has_no_empty_boxes_and_nothing_to_click(open_page: Callable[..., Page]) -> None:
    page = open_page("01-intuition.html")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    # A box that may break, around code that may not, leaves its empty upper half on the page before.
    for box in ("div.cell_input", "div.cell_output", "div.admonition"):
        assert page.locator(box).first.evaluate("e => getComputedStyle(e).breakInside") == "avoid"
    assert not page.locator(".bd-article :is(button, details.hide, .headerlink):visible").all()
    expect(page.locator("div.solution p:not(.admonition-title)").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_text_and_code_have_contrast(open_page: Callable[..., Page], name: str, scheme: str) -> None:
    page = open_page(f"{name}.html", scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate("document.querySelectorAll('.toggle-hidden').forEach(d => d.classList.remove('toggle-hidden'))")
    faint = page.evaluate(CONTRAST)
    assert not faint


# WCAG's ratio of every visible piece of text in the article against the nearest opaque background.
CONTRAST = """() => {
    const brush = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const parse = c => {  // a mix of colours is given in another space: paint it, and look
        if (c.startsWith('rgb')) return c.match(/[\\d.]+/g).map(Number);
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = c;
        brush.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const over = (top, below) => {
        const a = top[3] ?? 1;
        return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a));
    };
    const background = e => {
        if (!e) return [255, 255, 255];
        const c = parse(getComputedStyle(e).backgroundColor);
        return (c[3] ?? 1) === 1 ? c : over(c, background(e.parentElement));
    };
    const faint = new Set();
    const walk = document.createTreeWalker(document.querySelector('.bd-article'), NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const e = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || !e.checkVisibility({opacityProperty: true})) continue;
        if (e.closest('.katex-mathml, .headerlink, script, style, .copybtn')) continue;
        const below = background(e), text = over(parse(getComputedStyle(e).color), below);
        const [high, low] = [light(text), light(below)].sort((a, b) => b - a);
        const ratio = (high + 0.05) / (low + 0.05);
        if (ratio < 4.5) faint.add(`${ratio.toFixed(2)} ${e.className} "${walk.currentNode.data.trim().slice(0, 30)}"`);
    }
    return [...faint];
}"""
