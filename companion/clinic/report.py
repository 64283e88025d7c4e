"""What the doctor says: one line a check, and for each fault what was seen, what it means, and where to read on."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

from companion.clinic import page
from companion.clinic.catalogue import CHAPTERS, FAULTS

__all__ = ["Finding", "Outcome", "Report"]

LATE = "no time left"
SIGNS = {"ok": "✓", "fault": "✗", "note": "·", "skipped": "–", "untold": "?"}


@dataclass(frozen=True)
class Outcome:
    """What came of one check.

    Attributes:
        check: what should hold.
        status: ``"ok"``; ``"fault"``; ``"note"``: unusual, and no fault; ``"skipped"``: does not apply;
            ``"untold"``: cannot be told from outside.
        says: what was measured, or why nothing was.
    """

    check: str
    status: str
    says: str


@dataclass(frozen=True)
class Finding:
    """A fault, and what follows from it.

    Attributes:
        name: of the fault, as scripts know it: ``"softmax-twice"``.
        check: the check that found it.
        symptom: what was done, and what happened.
        measured: a number.
        expected: what that number should be.
        title: the fault in a few words.
        cause: what most likely did it.
        equation: what should hold, and does not.
        chapter: number of the chapter that explains it.
        consequences: other checks that fail because of it.
    """

    name: str
    check: str
    symptom: str
    measured: float
    expected: float
    title: str
    cause: str
    equation: str
    chapter: int
    consequences: tuple[str, ...] = ()

    @staticmethod
    def of(name: str, check: str, symptom: str, measured: float, expected: float) -> Finding:
        """A fault of the catalogue."""
        fault = FAULTS[name]
        return Finding(
            name, check, symptom, measured, expected, fault.title, fault.cause, fault.equation, fault.chapter
        )

    @property
    def read(self) -> str:
        """Where it is explained."""
        file, question = CHAPTERS[self.chapter]
        return f"chapter {self.chapter}, {question} ({file})"


@dataclass(frozen=True)
class Report:
    """What a visit found.

    Attributes:
        patient: what was examined.
        found_out: how it is called, as far as the doctor found it out.
        outcomes: one a check.
        findings: the faults, most fundamental first.
        trouble: why it could not be examined, or None.
        seconds: how long the visit took.
    """

    patient: str
    found_out: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    findings: tuple[Finding, ...] = ()
    trouble: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        """Whether it could be examined, and no fault was found."""
        return self.trouble is None and not self.findings

    @property
    def verdict(self) -> str:
        """The report in a sentence."""
        if self.trouble is not None:
            return f"could not be examined: {self.trouble}"
        if not self.findings:
            passed = sum(outcome.status == "ok" for outcome in self.outcomes)
            late = sum(outcome.says.startswith(LATE) for outcome in self.outcomes)
            return f"healthy: {passed} checks passed" + (f", {late} had no time left" if late else "")
        titles = "; ".join(finding.title for finding in self.findings)
        return f"{len(self.findings)} fault{'s' * (len(self.findings) > 1)}: {titles}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON: a number that is not finite becomes a string."""
        plain = asdict(self) | {"ok": self.ok, "verdict": self.verdict}
        for finding, made in zip(plain["findings"], self.findings, strict=True):
            finding["read"] = made.read
            for name in ("measured", "expected"):
                finding[name] = finding[name] if math.isfinite(finding[name]) else str(finding[name])
        return plain

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def to_html(self) -> str:
        """The report as a piece of HTML, readable on light and dark, without scripts."""
        return page.page(self)

    def __str__(self) -> str:
        lines = [f"{self.patient}: {self.verdict}"]
        lines += [f"  {line}" for line in self.found_out]
        wide = max((len(outcome.check) for outcome in self.outcomes), default=0)
        for outcome in self.outcomes:
            start = f"{SIGNS[outcome.status]} {outcome.check:<{wide}}  "
            lines += textwrap.wrap(outcome.says, 120, initial_indent=start, subsequent_indent=" " * len(start)) or [
                start
            ]
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {finding.title} [{finding.name}]"]
            for name, text in page.lines(finding):
                indent = f"   {name + ':':<14}"
                lines += textwrap.wrap(text, 120, initial_indent=indent, subsequent_indent=" " * len(indent))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_html()
