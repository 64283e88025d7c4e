"""One visit: the checks in order, what each found, and which faults make others impossible to see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from companion.clinic.forms import Form
from companion.clinic.patient import OutOfTime, Patient, Refused
from companion.clinic.report import LATE, Finding, Outcome

__all__: list[str] = []

# What should hold, in the words of the report.
STEADY = "no dropout in eval"
UNTOUCHED = "the input is left alone"
BATCH = "batch entries are apart"
PLACES = "positions run over tokens"
SPLIT = "heads are split by features"
MERGE = "heads are merged in order"
AXIS = "the softmax is over the keys"
ONCE = "one softmax"
ROWS = "rows sum to one"
BEFORE = "masked before the softmax"
FUTURE = "the future does not leak"
PADDING = "padding does not leak"
EMPTY = "a fully masked row is zero"
GRADIENTS = "gradients are finite"
HALF = "half precision stays finite"
ORDER = "equivariant without positions"
GROUPS = "key/value heads in order"
CACHED = "cached equals uncached"
SCALE = "the scale is 1/√D"


@dataclass
class Visit:
    """What is known so far.

    Attributes:
        patient: who is examined.
        causal: what the caller said, or None.
        positions: whether the caller said that there are any inside, or None.
        heads: what the caller or the module said, or None.
        seen: who sees whom by default, ``(B, L, S)``, once known.
        axes: which softmax, its query axis and its key axis, once known.
        unseen: why they are not known: there is no softmax to be seen, or there are several.
        forms: of masks that do hide what they should, by argument.
        causal_options: what makes it causal, once known; None if nothing does.
        blocked: the fault that hides all others, or None.
    """

    patient: Patient
    causal: bool | None = None
    positions: bool | None = None
    heads: int | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    seen: Tensor | None = None
    axes: tuple[int, int, int] | None = None
    unseen: str | None = None
    forms: dict[str, list[Form]] = field(default_factory=dict)
    causal_options: dict[str, Any] | None = None
    blocked: str | None = None

    def say(self, check: str, status: str, says: str) -> None:
        """Note an outcome."""
        self.outcomes.append(Outcome(check, status, says))

    def ok(self, check: str, says: str) -> None:
        """It holds."""
        self.say(check, "ok", says)

    def skip(self, check: str, says: str) -> None:
        """It does not apply."""
        self.say(check, "skipped", says)

    def note(self, check: str, says: str) -> None:
        """Unusual, and no fault."""
        self.say(check, "note", says)

    def untold(self, check: str, says: str) -> None:
        """It cannot be told."""
        self.say(check, "untold", says)

    def fault(
        self, name: str, check: str, symptom: str, measured: float, expected: float, blocks: bool = False
    ) -> None:
        """A fault; ``blocks`` if nothing that comes later could be measured."""
        finding = Finding.of(name, check, symptom, measured, expected)
        self.say(check, "fault", f"{symptom} [{name}]")
        if any(known.name == name for known in self.findings):
            return
        self.findings.append(finding)
        if blocks:
            self.blocked = finding.title

    def follows(self, name: str, because: str) -> None:
        """One fault is a consequence of another, if both were found."""
        effect = next((f for f in self.findings if f.name == name), None)
        reason = next((f for f in self.findings if f.name == because), None)
        if effect is not None and reason is not None:
            self.findings.remove(effect)
            at = self.findings.index(reason)
            self.findings[at] = replace(reason, consequences=(*reason.consequences, effect.symptom))

    def run(self, checks: list[tuple[tuple[str, ...], Callable[[Visit], None]]]) -> None:
        """Do the checks in order; each says something of each of its titles."""
        for titles, check in checks:
            if self.blocked is not None:
                for title in self._silent(titles):
                    self.skip(title, f"not measured: first cure this: {self.blocked}")
                continue
            try:
                check(self)
            except Refused as refusal:
                for title in self._silent(titles):
                    self.untold(title, str(refusal))
            except OutOfTime:
                for title in self._silent(titles):
                    self.skip(title, f"{LATE}: see time_limit")
            except Exception as error:  # the module's own doing, or a fault of ours: either way a line, no traceback
                for title in self._silent(titles):
                    self.untold(
                        title, f"the measurement failed: {type(error).__name__}: {' '.join(str(error).split()):.150}"
                    )

    def _silent(self, titles: tuple[str, ...]) -> list[str]:
        said = {outcome.check for outcome in self.outcomes}
        return [title for title in titles if title not in said]
