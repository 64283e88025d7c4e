"""A page asks no other host for anything, and carries nothing that it does not use."""

import re
from urllib.parse import urlsplit

import pytest

from tests.site.pages import ALL, SITE, read

FETCHED = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
LOADING = ("src", "srcset", "poster", "data")
CSS_ADDRESS = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""")


def is_foreign(address: str) -> bool:
    return bool(urlsplit(address).netloc)


@pytest.mark.parametrize("name", ALL)
def test_nothing_comes_from_another_host(name: str) -> None:
    soup = read(name).soup
    addresses = [
        address
        for name in LOADING
        for tag in soup.select(f"[{name}]")
        for address in re.split(r"[\s,]+", str(tag[name]))
    ]
    addresses += [str(link["href"]) for link in soup.select("link[href]") if FETCHED & set(link["rel"])]
    styles = " ".join(tag.get_text() for tag in soup.select("style")) + " ".join(
        str(tag["style"]) for tag in soup.select("[style]")
    )
    addresses += CSS_ADDRESS.findall(styles)
    assert not [address for address in addresses if is_foreign(address)]


@pytest.mark.parametrize("name", ALL)
def test_inline_scripts_name_no_other_host(name: str) -> None:
    scripts = [tag.get_text() for tag in read(name).soup.select("script:not([src])")]
    namespace = r"http://www\.w3\.org/2000/svg"  # a name that looks like an address, and is asked of nobody
    assert not [script for script in scripts if re.search(r"https?://", re.sub(namespace, "", script))]


@pytest.mark.parametrize("name", ALL)
def test_thebe_mathjax_and_require_are_gone(name: str) -> None:
    scripts = " ".join(f"{tag.get('src', '')} {tag.get_text()}" for tag in read(name).soup.select("script"))
    styles = " ".join(str(link["href"]) for link in read(name).soup.select("link[href]"))
    assert not re.search(r"thebe|mathjax|require(\.min)?\.js", scripts + styles, re.IGNORECASE)


def test_style_sheets_fetch_nothing_from_another_host() -> None:
    used = {urlsplit(str(link["href"])).path for link in read("index").soup.select("link[rel=stylesheet]")}
    assert used
    foreign = [
        f"{sheet}: {address}"
        for sheet in used
        for address in CSS_ADDRESS.findall((SITE / sheet).read_text("utf8"))
        if is_foreign(address)
    ]
    assert not foreign


def test_katex_comes_as_woff2_alone() -> None:
    folder = SITE / "_static" / "katex"
    fonts = {path.name for path in (folder / "fonts").iterdir()}
    named = set(re.findall(r"fonts/([\w.-]+)", (folder / "katex.min.css").read_text("utf8")))
    assert named == fonts
    assert {name.rpartition(".")[2] for name in fonts} == {"woff2"}
    assert (folder / "LICENSE").exists()
