import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from docutils import nodes

from theme.paying_attention import maths
from theme.paying_attention.numbering import renumber
from theme.paying_attention.pages import DESCRIPTION_LENGTH, first_words, png_size


def png(width: int, height: int, dots_per_inch: float | None) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    if dots_per_inch:
        per_metre = round(dots_per_inch / 0.0254)
        parts.append(chunk(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1)))
    return b"".join(parts)


def test_a_picture_has_its_true_size() -> None:
    assert png_size(png(960, 480, 192)) == (480, 240)
    assert png_size(png(960, 480, 96)) == (960, 480)
    assert png_size(png(960, 480, None)) == (960, 480)
    assert png_size(b"GIF89a") is None


def page(*paragraphs: str) -> nodes.document:
    document: Any = nodes.document(None, None)  # type: ignore[arg-type]
    section = nodes.section()
    section += nodes.title(text="Title")
    section += [nodes.paragraph(text=text) for text in paragraphs]
    document += section
    return document  # type: ignore[no-any-return]


def test_a_description_is_the_first_real_paragraph_cut_at_a_word() -> None:
    assert first_words(page("Short.", "A sentence that is long enough to be a description.")) == (
        "A sentence that is long enough to be a description."
    )
    words = first_words(page("attention, " * 40))
    assert words.endswith("attention…")
    assert len(words) <= DESCRIPTION_LENGTH
    assert first_words(page()) == ""


class Environment:
    def __init__(self) -> None:
        link = nodes.reference("", "Softmax", secnumber=[2])
        section = nodes.reference("", "Section", secnumber=[2, 1])
        self.toc_secnumbers = {"04-softmax": {"": (2,), "#section": (2, 1), "#deep": ()}, "notation": {"": (1,)}}
        self.titles = {"04-softmax": nodes.title("", secnumber=[2])}
        self.tocs = {"04-softmax": nodes.bullet_list("", nodes.list_item("", link, section))}


def test_a_chapter_has_the_number_of_its_file() -> None:
    env: Any = Environment()
    renumber(env, "04-softmax")
    renumber(env, "notation")
    assert env.toc_secnumbers["04-softmax"] == {"": (4,), "#section": (4, 1), "#deep": ()}
    assert env.toc_secnumbers["notation"] == {"": (1,)}
    assert env.titles["04-softmax"]["secnumber"] == [4]
    assert [link["secnumber"] for link in env.tocs["04-softmax"].findall(nodes.reference)] == [[4], [4, 1]]


def test_katex_is_the_version_that_the_renderer_expects() -> None:
    package = Path(maths.__file__).parents[1] / "package.json"
    assert f'"katex": "{maths.katex.katex_version}"' in package.read_text("utf8")


def test_the_lock_file_has_hashes_and_names_no_registry() -> None:
    lock = (Path(maths.__file__).parents[1] / "package-lock.json").read_text("utf8")
    assert lock.count('"integrity": "sha512-') == 2
    assert "resolved" not in lock


def test_an_equation_that_numbers_itself_is_refused() -> None:
    with pytest.raises(maths.katex.KaTeXError, match="aligned"):
        maths.render(r"\begin{align} a &= b \end{align}")
