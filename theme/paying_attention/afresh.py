"""What Sphinx leaves alone and must not: a site built with warnings, or by another version of this theme."""

from hashlib import sha256
from pathlib import Path

from sphinx.application import ENV_PICKLE_FILENAME, Sphinx
from sphinx.config import Config

THEME = Path(__file__).parents[1]
_NOT_OURS = {"node_modules", "__pycache__"}


def fingerprint(folder: Path) -> str:
    """One word for what a folder holds; another word after any change."""
    held = sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not _NOT_OURS & set(inside.parts):
            held.update(f"{inside} {path.stat().st_size} ".encode() + path.read_bytes())
    return held.hexdigest()


def _remember(app: Sphinx, config: Config) -> None:
    config.paying_attention_theme = fingerprint(THEME)


def _forget(app: Sphinx, exception: Exception | None) -> None:
    # Else the second build finds nothing to do, says nothing, and succeeds: the first one's fault would pass.
    if app._warncount:
        Path(app.doctreedir, ENV_PICKLE_FILENAME).unlink(missing_ok=True)


def setup(app: Sphinx) -> None:
    # Sphinx builds every page again when the value of a setting is not the last build's.
    app.add_config_value("paying_attention_theme", "", "env")
    app.connect("config-inited", _remember)
    app.connect("build-finished", _forget)
