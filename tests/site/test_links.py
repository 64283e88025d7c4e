"""Every link inside the site leads somewhere, and every file that a page names is there."""

from urllib.parse import unquote, urlsplit

import pytest

from tests.site.pages import ALL, PAGES, SITE, read


def is_inside(address: str) -> bool:
    return bool(address) and not urlsplit(address).scheme and not address.startswith("//")


@pytest.mark.parametrize("name", ALL)
def test_links_and_anchors_resolve(name: str) -> None:
    broken = []
    for link in read(name).soup.select("a[href]"):
        address = urlsplit(str(link["href"]))
        if not is_inside(str(link["href"])) or address.path.startswith("_sources"):
            continue
        target = SITE / unquote(address.path) if address.path else SITE / f"{name}.html"
        if not target.exists():
            broken.append(f"{address.path} does not exist")
        elif address.fragment and target.suffix == ".html":
            anchor = unquote(address.fragment)
            if not read(target.stem).soup.find(id=anchor):
                broken.append(f"{target.name} has no #{anchor}")
    assert not broken


@pytest.mark.parametrize("name", ALL)
def test_files_exist(name: str) -> None:
    soup = read(name).soup
    named = [str(tag["src"]) for tag in soup.select("[src]")]
    named += [str(tag["href"]) for tag in soup.select("link[href]")]
    named += [str(link["href"]) for link in soup.select("a[href^=_sources]")]
    missing = [path for path in named if is_inside(path) and not (SITE / unquote(urlsplit(path).path)).exists()]
    assert not missing


@pytest.mark.parametrize("name", PAGES)
def test_ids_are_unique(name: str) -> None:
    ids = [tag["id"] for tag in read(name).article.select("[id]")]
    assert len(ids) == len(set(ids)), sorted(str(i) for i in set(ids) if ids.count(i) > 1)


def test_every_page_of_the_contents_is_built_and_linked() -> None:
    sidebar = {str(link["href"]) for link in read("index").soup.select(".bd-sidebar-primary nav a.reference")}
    assert {f"{name}.html" for name in PAGES if name != "index"} <= sidebar
