"""Questions at a chapter's end: each says what is behind a wrong answer.

>>> from companion import exercises
>>> practice = exercises.open("ch05")
>>> practice.questions[0]
'axis'
"""

from __future__ import annotations

from companion.exercises.practice import Practice, names, open

__all__ = ["Practice", "names", "open"]
