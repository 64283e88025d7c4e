"""What a reader with another sense, or a search engine, needs from each page."""

import re
from itertools import pairwise

import pytest

from tests.site.pages import ALL, PAGES, read


@pytest.mark.parametrize("name", ALL)
def test_the_head_says_what_the_page_is(name: str) -> None:
    soup = read(name).soup
    assert soup.html is not None
    assert soup.html["lang"] == "en"
    assert soup.title is not None
    assert "Paying Attention" in soup.title.get_text()
    descriptions = [str(tag["content"]) for tag in soup.select("meta[name=description]")]
    assert len(descriptions) == 1
    assert 15 <= len(descriptions[0]) <= 160
    assert soup.select_one("meta[name=viewport]")
    assert soup.select_one("link[rel=icon]")


def test_descriptions_differ() -> None:
    descriptions = [str(read(name).soup.select_one("meta[name=description]")) for name in ALL]
    assert len(set(descriptions)) == len(descriptions)


@pytest.mark.parametrize("name", PAGES)
def test_headings_are_in_order(name: str) -> None:
    levels = [int(tag.name[1]) for tag in read(name).article.select("h1, h2, h3, h4, h5, h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_is_described(name: str) -> None:
    for image in read(name).article.select("img"):
        alt = str(image.get("alt", "")).strip()
        assert len(alt) >= 15, f"{image['src']} has the alt text {alt!r}"
        assert not re.search(r"\.(png|svg|jpe?g)$|_images/|^image$", alt), f"{image['src']} has a path as alt text"


@pytest.mark.parametrize("name", PAGES)
def test_pictures_keep_their_place(name: str) -> None:
    for image in read(name).article.select("img[src$='.png']"):
        assert image.get("width"), image["src"]
        assert image.get("height"), image["src"]
        assert "style" not in image.attrs, image["src"]


@pytest.mark.parametrize("name", PAGES)
def test_figures_and_chapters_are_numbered_by_the_file(name: str) -> None:
    found = re.match(r"(\d\d)-", name)
    if found is None:
        return
    article, chapter = read(name).article, str(int(found[1]))
    numbers = [tag.get_text() for tag in article.select(".section-number, .caption-number, .eqno")]
    assert numbers
    first = [match[0] for text in numbers if (match := re.search(r"\d+", text))]
    assert set(first) == {chapter}


@pytest.mark.parametrize("name", PAGES)
def test_solutions_are_folded_and_belong_to_an_exercise(name: str) -> None:
    article = read(name).article
    for solution in article.select("div.solution"):
        assert "dropdown" in solution["class"], solution.get("id")
    assert len(article.select("div.solution")) == len(article.select("div.exercise"))
