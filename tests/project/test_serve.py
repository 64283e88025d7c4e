"""`make serve` serves the folder it is given, on a free port where the wanted one is taken."""

import threading
import urllib.request
from pathlib import Path

from tools.serve import server


def test_a_page_is_served_and_a_taken_port_is_stepped_over(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>the book</p>", encoding="utf-8")
    with server(tmp_path, 0) as first, server(tmp_path, first.server_port) as second:
        assert first.server_port != second.server_port
        for running in (first, second):
            assert running.server_address[0] == "127.0.0.1"
            threading.Thread(target=running.serve_forever, daemon=True).start()
            with urllib.request.urlopen(f"http://127.0.0.1:{running.server_port}/") as answer:
                assert answer.read() == b"<p>the book</p>"
            running.shutdown()
