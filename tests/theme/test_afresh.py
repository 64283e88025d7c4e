from pathlib import Path

from theme.paying_attention.afresh import fingerprint


def test_any_change_in_the_theme_is_seen(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "book.css").write_text("a {}")
    (tmp_path / "maths.py").write_text("x = 1")
    seen = [fingerprint(tmp_path)]
    (tmp_path / "static" / "book.css").write_text("b {}")
    seen.append(fingerprint(tmp_path))
    (tmp_path / "maths.py").rename(tmp_path / "letters.py")
    seen.append(fingerprint(tmp_path))
    assert len(set(seen)) == 3


def test_what_is_made_or_fetched_does_not_count(tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    for folder in ("__pycache__", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("made")
    assert fingerprint(tmp_path) == before
