"""Dates as people write them, to be written as computers do: "the 3rd of March, 2021" is 2021-03-03.

A translation that a small model learns in a minute, and one whose alignment is known: which letters of the source tell
each digit of the target. What cross attention looks at can be compared with it.
"""

from __future__ import annotations

import re
from datetime import date

import torch

from companion import check
from companion.batch import PairBatch
from companion.splitmix import SplitMix
from companion.task import Task
from companion.vocabulary import END, START, Vocabulary, pad

__all__ = ["FORMS", "Dates", "dates"]

FORMS = (
    "the {dth} of {Month}, {yyyy}",
    "the {dth} of {Month} {yyyy}",
    "{dth} {Month} {yyyy}",
    "{d} {Month} {yyyy}",
    "{d} {Mon} {yyyy}",
    "{d}/{Mon}/{yy}",
    "{d}-{Mon}-{yyyy}",
    "{Month} {d}, {yyyy}",
    "{Month} {dth}, {yyyy}",
    "{Month} {d} {yyyy}",
    "{Mon} {d} '{yy}",
    "{Weekday}, {d} {Month} {yyyy}",
    "{Wkd} {dd} {Mon} {yyyy}",
    "{dd}.{mm}.{yyyy}",
    "{d}.{m}.{yy}",
    "{yyyy}/{mm}/{dd}",
)
"""How people write dates; where day and month are both numbers, the day comes first unless the year does."""

_MONTHS = "January February March April May June July August September October November December".split()
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_LETTERS = "abcdefghijklmnopqrstuvwxyzADFJMNOSTW0123456789 ,.'/-"
_FIRST, _LAST = date(1970, 1, 1), date(2069, 12, 31)  # a hundred years, so that two digits are enough to tell one
_HELD_OUT = 0.1


class Dates(Task[PairBatch]):
    """Makes pairs of dates; ``dates`` makes it.

    Args:
        held_out: the days that are kept for validation, instead of the others.
    """

    def __init__(self, *, held_out: bool) -> None:
        super().__init__(Vocabulary(_LETTERS))
        count = _LAST.toordinal() - _FIRST.toordinal() + 1
        chosen = (SplitMix(0).uniform((count,)) < _HELD_OUT) == check.flag("held_out", held_out)
        self.days: list[int] = (chosen.nonzero().flatten() + _FIRST.toordinal()).tolist()

    def make(self, size: int, random: SplitMix) -> PairBatch:
        """The next batch."""
        texts = []
        for _ in range(size):
            day = date.fromordinal(self.days[random.below(len(self.days))])
            form = FORMS[random.below(len(FORMS))]
            texts.append(_written(day, form, small=random.below(4) == 0))
        return self._batch(texts)

    def pair(self, year: int, month: int, day: int, form: str = FORMS[0]) -> PairBatch:
        """A date of your choice.

        Args:
            year: 1970 to 2069.
            month: 1 to 12.
            day: 1 to 31.
            form: how it is written, one of ``FORMS``.

        Returns:
            A batch of one.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: no such day or form.

        Example:
            >>> task = dates()
            >>> pair = task.pair(2021, 3, 3)
            >>> task.vocabulary.decode(pair.source[0]), task.vocabulary.decode(pair.target[0])
            ('the 3rd of March, 2021', '2021-03-03')
            >>> pair.alignment[0, 6].nonzero().flatten()  # the first digit of the month: the letters of March
            tensor([11, 12, 13, 14, 15])
        """
        for name, number in (("year", year), ("month", month), ("day", day)):
            check.integer(name, number)
        check.one_of("form", form, FORMS)
        try:
            when = date(year, month, day)
        except ValueError as error:
            raise ValueError(f"year, month and day must be a date, got {year}, {month}, {day}: {error}") from None
        if not _FIRST <= when <= _LAST:
            raise ValueError(f"year must be from {_FIRST.year} to {_LAST.year}, got {year}")
        return self._batch([_written(when, form, small=False)])

    def _batch(self, texts: list[tuple[str, str, list[tuple[int, ...]]]]) -> PairBatch:
        encode = self.vocabulary.encode
        source, source_real = pad([encode(text) for text, _, _ in texts])
        target, target_real = pad([[START, *encode(iso), END] for _, iso, _ in texts])
        alignment = torch.zeros(len(texts), target.shape[1], source.shape[1], dtype=torch.bool)
        for i, (_, _, told_by) in enumerate(texts):
            for t, places in enumerate(told_by, 1):  # 0 is the start token
                alignment[i, t, list(places)] = True
        return PairBatch(source, target, source_real, target_real, alignment)


def dates(*, held_out: bool = False) -> Dates:
    """Human dates to ISO dates, letter by letter.

    The years are 1970 to 2069. A tenth of the days is held out. A quarter of the texts is in small letters.

    The alignment of a digit is what it can be read from: for "March" all its letters, for both digits of the month;
    for a day with one digit that digit, for both; for a century left out both digits that are there; nothing for the
    hyphens and for the end.

    Args:
        held_out: make pairs from the days that are held out, for validation.

    Returns:
        The task.

    Raises:
        TypeError: ``held_out`` is no bool.
    """
    return Dates(held_out=held_out)


def _written(day: date, form: str, *, small: bool) -> tuple[str, str, list[tuple[int, ...]]]:
    """A date in a form, in ISO's, and for each character of that the places in the first that tell it."""
    suffix = "th" if 11 <= day.day <= 13 else ["th", "st", "nd", "rd", *["th"] * 6][day.day % 10]  # codespell:ignore
    fields = {
        "d": str(day.day),
        "dd": f"{day.day:02}",
        "dth": f"{day.day}{suffix}",
        "m": str(day.month),
        "mm": f"{day.month:02}",
        "Mon": _MONTHS[day.month - 1][:3],
        "Month": _MONTHS[day.month - 1],
        "yy": f"{day.year % 100:02}",
        "yyyy": str(day.year),
        "Wkd": _WEEKDAYS[day.weekday()][:3],
        "Weekday": _WEEKDAYS[day.weekday()],
    }
    text, told_by = "", {}
    for literal, name in re.findall(r"([^{]*)(?:\{(\w+)\})?", form):
        text += literal
        if name:
            told_by[name[0]] = _digits(fields[name], len(text), 4 if name[0] == "y" else 2)
            text += fields[name]
    places = [*told_by["y"], (), *told_by["M" if "M" in told_by else "m"], (), *told_by["d"]]
    return text.lower() if small else text, day.isoformat(), places


def _digits(field: str, start: int, count: int) -> list[tuple[int, ...]]:
    """Where each of ``count`` digits can be read from, in a field that begins at ``start``."""
    digits = [start + i for i, letter in enumerate(field) if letter.isdigit()]
    everything = tuple(digits or range(start, start + len(field)))
    told = [(place,) for place in digits] if len(digits) > 1 else []
    return [everything] * (count - len(told)) + told
