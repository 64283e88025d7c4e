"""The built site, and its pages."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("SITE", ROOT / "book" / "_build" / "html")).resolve()
BOOK = SITE.parents[1]

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}

NO_AXE = "no axe-core: make lint fetches it"


def toc() -> list[str]:
    """Names of the pages in the table of contents, in order."""
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text("utf8"))
    return [contents["root"]] + [page["file"] for part in contents["parts"] for page in part["chapters"]]


PAGES = toc()
ALL = [*PAGES, "search", "genindex"]


@dataclass(frozen=True)
class Page:
    name: str
    html: str
    soup: BeautifulSoup

    @property
    def article(self) -> Tag:
        found = self.soup.select_one("article.bd-article")
        assert found is not None, f"{self.name} has no article"
        return found


@cache
def read(name: str) -> Page:
    html = (SITE / f"{name}.html").read_text("utf8")
    return Page(name, html, BeautifulSoup(html, "html.parser"))
