import pytest

from theme.paying_attention.access import amend


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ('<summary aria-label="Toggle hidden content">\n<p>Show', "<summary>\n<p>Show"),
        ('<div class="citation" id="id3" role="doc-biblioentry">', '<div class="citation" id="id3" role="listitem">'),
        ('<th class="head"><p></p></th>', '<td class="head"></td>'),
        ('<th class="head"><p>k</p></th>', '<th class="head"><p>k</p></th>'),
        ("<th>\n</th>", "<td></td>"),
    ],
)
def test_names_and_roles_say_what_is_seen(written: str, wanted: str) -> None:
    assert amend(written) == wanted
