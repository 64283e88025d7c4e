"""A report as HTML: every text escaped, the page's own colours kept, no scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from companion.clinic.report import Finding, Report

__all__: list[str] = []

# Borders and signs carry the meaning; colours come from the page (currentColor), so that light and dark both read.
_CELL = 'style="text-align:left;vertical-align:top;padding:.2em .6em;border-top:1px solid currentColor"'
_WORDS = {"ok": "✓ holds", "fault": "✗ fault", "note": "· note", "skipped": "– skipped", "untold": "? cannot be told"}


def number(x: float) -> str:
    """A measured number, short."""
    return f"{x:.4g}"


def lines(finding: Finding) -> list[tuple[str, str]]:
    """What is said of a fault, in this order, in text and in HTML."""
    said = [
        ("symptom", finding.symptom),
        ("measured", f"{number(finding.measured)}, which should be {number(finding.expected)}"),
        ("likely cause", finding.cause),
        ("breaks", finding.equation),
        ("read", finding.read),
    ]
    return said + ([("consequences", "; ".join(finding.consequences))] if finding.consequences else [])


def page(report: Report) -> str:
    """The whole report."""
    found = "".join(f"<li>{escape(line)}</li>" for line in report.found_out)
    rows = "".join(
        f"<tr><th scope='row' {_CELL}>{escape(outcome.check)}</th><td {_CELL}>{_WORDS[outcome.status]}</td>"
        f"<td {_CELL}>{escape(outcome.says)}</td></tr>"
        for outcome in report.outcomes
    )
    head = "".join(f"<th scope='col' {_CELL}>{name}</th>" for name in ("check", "outcome", "what was seen"))
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    table = f"<table style='border-collapse:collapse;color:inherit'>{body}</table>"
    faults = "".join(
        f"<details open><summary><strong>{escape(finding.title)}</strong> <code>{escape(finding.name)}</code></summary>"
        + "<dl>"
        + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines(finding))
        + "</dl></details>"
        for finding in report.findings
    )
    return (
        f"<section style='color:inherit;overflow-x:auto'><p><strong>{escape(report.patient)}</strong>: "
        f"{escape(report.verdict)}</p>{faults}<ul>{found}</ul>{table if rows else ''}</section>"
    )
