"""Find misspelled words in what the chapters say; of a notebook's file codespell would read the pictures too."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks import ROOT, read

# codespell prints the line it was given, and below it each word that it would write otherwise.
_LINE = re.compile(r"(\d+): ")
_WORD = re.compile(r"\t(.+ ==> .+)")


def said(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    """Yield the lines that an author wrote, each with its cell's number: prose, code, captions, alt texts."""
    for number, cell in enumerate(notebook.cells, 1):
        shown = cell.metadata.get("mystnb", {})
        texts = [cell.source, shown.get("figure", {}).get("caption", ""), shown.get("image", {}).get("alt", "")]
        for line in "\n".join(texts).splitlines():
            yield number, line


def misspelled(paths: list[Path]) -> list[str]:
    """Return a sentence for each misspelled word of these notebooks."""
    lines = [(path, number, line) for path in paths for number, line in said(read(path))]
    command = [sys.executable, "-m", "codespell_lib", "-"]
    text = "\n".join(line for *_, line in lines)
    printed = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, encoding="utf-8").stdout
    found, at = [], 0
    for line in printed.splitlines():
        if place := _LINE.match(line):
            at = int(place[1]) - 1
        elif word := _WORD.match(line):
            path, number, _ = lines[at]
            found.append(f"{path.name}: cell {number}: {word[1]}")
    return found
