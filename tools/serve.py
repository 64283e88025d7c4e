"""Show the built book on localhost: ``python -m tools.serve [--port 8000]``."""

import argparse
import os
import sys
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).parent.parent / "book" / "_build" / "html"


class Handler(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of each."""

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the address alone."""


def server(folder: Path, port: int, kind: type[Handler] = Handler) -> ThreadingHTTPServer:
    """Return a server of a folder on localhost, at a free port where the wanted one is taken."""
    handler = partial(kind, directory=str(folder))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:
        return ThreadingHTTPServer(("127.0.0.1", 0), handler)


def has_screen() -> bool:
    """Tell whether a browser window could appear."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def main() -> None:
    """Serve the book until interrupted."""
    parser = argparse.ArgumentParser(description="Show the built book on localhost.")
    parser.add_argument("--port", type=int, default=8000)
    wanted = parser.parse_args().port
    if not (SITE / "index.html").exists():
        sys.exit("The book is not built yet: make book")
    with server(SITE, wanted) as running:
        address = f"http://localhost:{running.server_port}/"
        print(f"The book is at {address}  (Ctrl-C stops it)", flush=True)
        if has_screen():
            webbrowser.open(address)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print("\nStopped.")


if __name__ == "__main__":
    main()
