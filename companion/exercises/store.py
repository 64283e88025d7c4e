"""Answers in a file beside the notebook, so that they outlive the kernel: ``answers.json``.

A widget's state in a notebook's own metadata is absent, stale or wiped too often to be graded; a file that the kernel
writes is none of these. The format::

    {"format": "companion-answers/1",
     "student": "ada" or null,
     "sets": {"ch05": {"axis": {"kind": "choice", "answer": "keys"}}}}

A question that nobody answered is absent.
"""

from __future__ import annotations

import json
import os
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

FORMAT = "companion-answers/1"
NAME = "answers.json"


def normalised(student: str) -> str:
    """A student's id in one spelling: without spaces around it, in small letters, composed."""
    if not isinstance(student, str):
        raise TypeError(f"student must be a str, got {type(student).__name__}")
    plain = unicodedata.normalize("NFC", student).strip().casefold()
    if not plain:
        raise ValueError("student must not be empty")
    return plain


class Store:
    """The answers of one student: in memory, or, with a folder, also in its ``answers.json``.

    Args:
        student: an id, or ``None``.
        folder: where the file is or will be; ``None`` keeps everything in memory.

    Raises:
        TypeError: a student that is no str, or a folder that is no path.
        ValueError: the folder is not there, or its file is damaged, of another format, or of another student.
    """

    def __init__(self, student: str | None = None, folder: str | os.PathLike[str] | None = None) -> None:
        self.student = None if student is None else normalised(student)
        if folder is not None and not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"folder must be a path, got {type(folder).__name__}")
        self.path = None if folder is None else Path(folder) / NAME
        if self.path is not None and not self.path.parent.is_dir():
            raise ValueError(f"folder must be there, got {str(folder)!r}")
        self._kept: dict[str, dict[str, Any]] = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            form, owner, sets = stored["format"], stored["student"], stored["sets"]
            for answers in sets.values():
                for record in answers.values():
                    record["kind"], record["answer"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{NAME} is damaged ({type(error).__name__}: {error}); move it away to begin anew: {self.path}"
            ) from None
        if form != FORMAT:
            raise ValueError(f"{NAME} must have the format {FORMAT!r}, got {form!r}: {self.path}")
        if owner is not None and self.student is not None and owner != self.student:
            raise ValueError(f"{NAME} must be of student {self.student!r}, got one of {owner!r}: {self.path}")
        self.student = self.student or owner
        found: dict[str, dict[str, Any]] = sets
        return found

    def get(self, name: str, question: str) -> Any:
        """The answer to a question of a set, or ``None``."""
        record = self._kept.get(name, {}).get(question)
        return None if record is None else record["answer"]

    def put(self, name: str, question: str, kind: str, answer: Any) -> None:
        """Keep an answer, in place of an earlier one; ``None`` takes that away."""
        answers = self._kept.setdefault(name, {})
        if answer is None:
            answers.pop(question, None)
        else:
            answers[question] = {"kind": kind, "answer": _rounded(answer)}
        self._write()

    def answered(self, name: str) -> dict[str, Any]:
        """All answers of a set, by question."""
        return {question: record["answer"] for question, record in self._kept.get(name, {}).items()}

    def _write(self) -> None:
        """In one step: a crash leaves the old file or the new one, never half of one."""
        if self.path is None:
            return
        sets = {name: answers for name, answers in self._kept.items() if answers}
        whole = {"format": FORMAT, "student": self.student, "sets": sets}
        text = json.dumps(whole, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        handle, name = tempfile.mkstemp(prefix=".answers-", suffix=".json", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _rounded(x: Any) -> Any:
    """Without what binary fractions add to a slider's steps."""
    if isinstance(x, float):
        return round(x, 9) + 0.0  # no -0.0
    if isinstance(x, (list, tuple)):
        return [_rounded(part) for part in x]
    return {name: _rounded(part) for name, part in x.items()} if isinstance(x, dict) else x
