"""A chapter's number is the one in its file's name, whether or not the chapters before it exist."""

import re
from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as Collector

CHAPTER = re.compile(r"(\d\d)-")


def renumber(env: BuildEnvironment, docname: str) -> None:
    found = CHAPTER.match(docname)
    if not found or docname not in env.toc_secnumbers:
        return
    chapter = int(found[1])
    numbers = env.toc_secnumbers[docname]
    for anchor, number in numbers.items():
        numbers[anchor] = (chapter, *number[1:]) if number else number
    for node in [env.titles[docname], *env.tocs[docname].findall(nodes.reference)]:
        if number := node.get("secnumber"):
            node["secnumber"] = [chapter, *number[1:]]


def setup(app: Sphinx) -> None:
    assign: Callable[..., list[str]] = Collector.assign_section_numbers

    # Between Sphinx's section numbers and the figure numbers made from them there is no event.
    def assign_by_name(self: Any, env: BuildEnvironment) -> list[str]:
        before = env.toc_secnumbers
        assign(self, env)
        for docname in env.toc_secnumbers:
            renumber(env, docname)
        return [name for name, now in env.toc_secnumbers.items() if now != before.get(name)]

    if not hasattr(Collector.assign_section_numbers, "by_name"):
        assign_by_name.by_name = True  # type: ignore[attr-defined]
        Collector.assign_section_numbers = assign_by_name  # type: ignore[method-assign]
