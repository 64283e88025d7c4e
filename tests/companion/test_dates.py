"""Each human date means its ISO date, by another reading of it; the alignment points at what tells each digit."""

import re
from datetime import date

import pytest

from companion.dates import FORMS, dates

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def read(text: str) -> str:
    """What a person makes of it: the month by its first letters, the year by its digits, the day is what is left."""
    word = re.search(r"(?i)(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*", text)
    numbers = re.findall(r"\d+", text)
    if word is None:
        year_first = len(numbers[0]) == 4
        year, month, day = numbers if year_first else numbers[::-1]
    else:
        month = str(MONTHS.index(word.group(1).lower()) + 1)
        day, year = numbers
    full = int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= 70 else 2000)
    return f"{full:04}-{int(month):02}-{int(day):02}"


def test_every_pair_means_the_same_day():
    task = dates()
    pair = task.batch(2_000, seed=1)
    texts = [task.vocabulary.decode(row) for row in pair.source]
    for text, row in zip(texts, pair.target, strict=True):
        assert task.vocabulary.decode(row) == read(text)
    assert any("3rd" in text for text in texts)
    assert any(text == text.lower() and "march" in text for text in texts)


@pytest.mark.parametrize("form", FORMS)
def test_each_form(form: str):
    task = dates()
    pair = task.pair(1999, 12, 31, form)
    text = task.vocabulary.decode(pair.source[0])
    assert read(text) == task.vocabulary.decode(pair.target[0]) == "1999-12-31"
    if "W" in form:
        assert text.startswith("Friday," if "Weekday" in form else "Fri ")  # the last day of 1999


def test_the_examples_of_the_design():
    task = dates()
    written = {task.vocabulary.decode(task.pair(2021, 3, 3, form).source[0]) for form in FORMS}
    assert {"the 3rd of March, 2021", "3/Mar/21", "March 3 2021", "Wednesday, 3 March 2021", "03.03.2021"} <= written


def test_ordinals():
    task = dates()
    said = {n: task.vocabulary.decode(task.pair(2021, 1, n).source[0]).split()[1] for n in range(1, 32)}
    odd = {1: "1st", 2: "2nd", 3: "3rd", 21: "21st", 22: "22nd", 23: "23rd", 31: "31st"}
    assert said == {n: odd.get(n, f"{n}th") for n in range(1, 32)}


def aligned(year: int, month: int, day: int, form: str) -> list[str]:
    """For each character of the ISO date, the letters that tell it."""
    task = dates()
    pair = task.pair(year, month, day, form)
    text = task.vocabulary.decode(pair.source[0])
    assert not pair.alignment[0, 0].any()  # the start
    assert not pair.alignment[0, 11:].any()  # the end
    return ["".join(text[s] for s in row.nonzero().flatten()) for row in pair.alignment[0, 1:11]]


def test_the_alignment_by_hand():
    assert aligned(2021, 3, 3, "the {dth} of {Month}, {yyyy}") == "2 0 2 1".split() + [""] + ["March"] * 2 + [
        "",
        "3",
        "3",
    ]
    assert aligned(1987, 11, 26, "{d}.{m}.{yy}") == ["87", "87", "8", "7", "", "1", "1", "", "2", "6"]
    assert aligned(2004, 7, 9, "{dd}.{mm}.{yyyy}") == ["2", "0", "0", "4", "", "0", "7", "", "0", "9"]
    assert aligned(2004, 7, 9, "{d}.{m}.{yy}") == ["04", "04", "0", "4", "", "7", "7", "", "9", "9"]
    assert aligned(2004, 5, 12, "{Wkd} {dd} {Mon} {yyyy}") == ["2", "0", "0", "4", "", "May", "May", "", "1", "2"]
    # The two sevens of 7.7.2004 are told apart by where they stand.
    pair = dates().pair(2004, 7, 7, "{d}.{m}.{yy}")
    assert pair.alignment[0, 6].nonzero().tolist() == [[2]]
    assert pair.alignment[0, 9].nonzero().tolist() == [[0]]


def test_digits_are_aligned_to_themselves_or_to_words():
    task = dates()
    pair = task.batch(500, seed=2)
    for row in range(500):
        iso, source = pair.target[row], pair.source[row]
        for t in (3, 4, 6, 7, 9, 10):  # all digits but the century's
            places = pair.alignment[row, t].nonzero().flatten().tolist()
            letters = task.vocabulary.decode(source[places])
            assert places
            assert pair.source_real[row, places].all()
            digit = task.vocabulary.decode([int(iso[t])])
            assert letters == digit or letters[:3].lower() in MONTHS or (digit == "0" and len(letters) == 1)


def test_held_out_days_are_others():
    train, rest = dates(), dates(held_out=True)
    days = set(train.days) | set(rest.days)
    assert not set(train.days) & set(rest.days)
    assert days == set(range(date(1970, 1, 1).toordinal(), date(2070, 1, 1).toordinal()))
    assert len(rest.days) == pytest.approx(len(days) / 10, rel=0.05)
    held_out = {date.fromordinal(day).isoformat() for day in rest.days}
    for row in train.batch(300).target:
        assert train.vocabulary.decode(row) not in held_out
    for row in rest.batch(300).target:
        assert rest.vocabulary.decode(row) in held_out
