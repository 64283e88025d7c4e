"""Take pictures of built pages, wide and on a phone, light and dark, so that an author can look at them.

``python -m tools.photograph 05-scaled-dot-product-attention --out /tmp/shots`` (after ``make book``).
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import Page

from tools.browser import chromium, serving
from tools.serve import SITE

WIDTHS = {"wide": 1280, "phone": 390}
PIECE = 1600  # a taller picture is shown too small to read


def settle(page: Page) -> int:
    """Load what loads late, open what is folded, and return the height of the page."""
    page.add_style_tag(content=".bd-sidebar, .bd-header-article { position: static !important; }")
    page.evaluate(
        """async () => {
            document.querySelectorAll('img').forEach(image => { image.loading = 'eager'; });
            document.querySelectorAll('details').forEach(box => { box.open = true; });
            document.querySelectorAll('.toggle-hidden .toggle-button').forEach(button => button.click());
            await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
            await document.fonts.ready;
            for (let top = 0; top < document.body.scrollHeight; top += 500) {  // figures are drawn as one comes near
                window.scrollTo(0, top);
                await new Promise(done => setTimeout(done, 50));
            }
            window.scrollTo(0, 0);
        }"""
    )
    return int(page.evaluate("document.documentElement.scrollHeight"))


def photograph(page: Page, address: str, stem: Path) -> list[Path]:
    """Save a page in pieces of at most ``PIECE`` pixels; return the files."""
    page.goto(address, wait_until="networkidle")
    height = settle(page)
    width = page.evaluate("window.innerWidth")
    saved = []
    for number, top in enumerate(range(0, height, PIECE), start=1):
        file = stem.with_name(f"{stem.name}-{number:02}.png")
        clip = {"x": 0, "y": top, "width": width, "height": min(PIECE, height - top)}
        page.screenshot(path=file, full_page=True, clip=clip)  # type: ignore[arg-type]
        saved.append(file)
    return saved


def main() -> None:
    """Photograph the pages that the command line names."""
    parser = argparse.ArgumentParser(description="Take pictures of built pages.")
    parser.add_argument("pages", nargs="+", help="names without .html: index 01-intuition …")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--width", choices=[*WIDTHS, "both"], default="both")
    parser.add_argument("--scheme", choices=["light", "dark", "both"], default="both")
    chosen = parser.parse_args()
    missing = [name for name in chosen.pages if not (chosen.site / f"{name}.html").exists()]
    if missing:
        sys.exit(f"Not built (make book): {', '.join(missing)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    widths = {name: px for name, px in WIDTHS.items() if chosen.width in (name, "both")}
    schemes = ("light", "dark") if chosen.scheme == "both" else (chosen.scheme,)
    with serving(chosen.site) as address, chromium() as browser:
        for name, px in widths.items():
            for scheme in schemes:
                page = browser.new_page(
                    viewport={"width": px, "height": 900},
                    color_scheme=scheme,  # type: ignore[arg-type]
                    reduced_motion="reduce",
                )
                for chapter in chosen.pages:
                    stem = chosen.out / f"{chapter}-{name}-{scheme}"
                    for file in photograph(page, f"{address}/{chapter}.html", stem):
                        print(file)
                page.close()


if __name__ == "__main__":
    main()
