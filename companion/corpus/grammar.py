"""A grammar with a memory: fills templates, lets verbs agree, and never says the same sentence twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from companion.corpus.text import sentences
from companion.corpus.words import IRREGULAR_PLURALS, IRREGULAR_VERBS, WORDS
from companion.splitmix import SplitMix

__all__: list[str] = []

_SLOT = re.compile(r"\{([^}]+)\}|\[([^\]]+)\]|<(=?)([a-z]+)(?: ([A-Za-z]+))?>")
_BEGINNING = re.compile(r'(?:^|(?<=[.?!] ))"?[a-z]')
_TRIES = 60

Choice = TypeVar("Choice")


class Scene:
    """Tells one paragraph: knows the tense, who takes part, and what was said anywhere before.

    Templates have ``{slots}``: what the scene has bound, or a word of that kind, with a capital in ``{^slot}``;
    ``[one|another]``; and ``<verbs>``, in the scene's tense and the number of who does it: ``<take>`` for ``A``,
    ``<take B>`` for another, ``<=take B>`` in the present, as in speech.
    """

    def __init__(self, random: SplitMix, seen: set[str]) -> None:
        self.random = random
        self.seen = seen
        self.past = random.below(3) > 0
        self.bound: dict[str, str] = {"when": "{past}" if self.past else "{present}"}
        self.many: set[str] = {"Many"}
        self.said: list[str] = []
        self.used: set[str] = set()

    def pick(self, choices: Sequence[Choice]) -> Choice:
        """One of them."""
        return choices[self.random.below(len(choices))]

    def fresh(self, words: Sequence[str]) -> str:
        """One of them, preferably one that the paragraph does not have yet."""
        for _ in range(4):
            word = self.pick(words)
            if word not in self.used:
                break
        self.used.add(word)
        return word

    def bind(self, name: str, words: str, *, many: bool = False) -> None:
        """Let a slot stand for the same words through the whole paragraph."""
        self.bound[name] = self.fill(words)
        if many:
            self.many.add(name)

    def fill(self, template: str) -> str:
        """Put words into the slots."""
        parts = []
        for fixed, kind, argument, who in _parts(template):
            if fixed:
                parts.append(fixed)
            if kind == "slot":
                name = argument.removeprefix("^")
                word = self.bound[name] if name in self.bound else self.fresh(WORDS[name])
                word = self.fill(word) if "{" in word or "<" in word else word
                parts.append(word[0].upper() + word[1:] if name != argument else word)
            elif kind == "choice":
                parts.append(self.fill(self.pick(argument.split("|"))))
            elif kind:
                past = self.past and kind == "verb"
                parts.append(conjugate(argument, past=past, many=who in self.many))
        return "".join(parts)

    def say(self, *templates: str) -> None:
        """Add one of these, as it was never said before; nothing, if that cannot be found."""
        for _ in range(_TRIES):
            text = tidy(self.fill(self.pick(templates)))
            new = sentences(text)
            if not self.seen.intersection(new) and len(set(new)) == len(new):
                self.seen.update(new)
                self.said.append(text)
                return


@cache
def _parts(template: str) -> list[tuple[str, str, str, str]]:
    """A template as fixed text, and what follows it: kind, argument, who."""
    parts, end = [], 0
    for match in _SLOT.finditer(template):
        slot, choice, now, verb, who = match.groups()
        kind = "slot" if slot else "choice" if choice else "speech" if now else "verb"
        parts.append((template[end : match.start()], kind, slot or choice or verb, who or "A"))
        end = match.end()
    return [*parts, (template[end:], "", "", "")]


def tidy(text: str) -> str:
    """An before a vowel, cannot in one word, and capitals where sentences begin."""
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text).replace("can not", "cannot")
    return _BEGINNING.sub(lambda match: match.group().upper(), text)


@cache
def conjugate(verb: str, *, past: bool, many: bool) -> str:
    """A verb for one or for many, in the past or the present.

    >>> [conjugate("carry", past=past, many=False) for past in (True, False)]
    ['carried', 'carries']
    """
    if verb in IRREGULAR_VERBS:
        forms = IRREGULAR_VERBS[verb][0 if past else 1].split()
        if len(forms) == 2:
            return forms[many]
        return forms[0] if past or not many else verb
    y = verb.endswith("y") and verb[-2] not in "aeiou"
    if past:
        return verb + "d" if verb.endswith("e") else verb[:-1] + "ied" if y else verb + "ed"
    if many:
        return verb
    return verb[:-1] + "ies" if y else verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s")


def plural(noun: str) -> str:
    """More than one of it.

    >>> plural("apple"), plural("loaf")
    ('apples', 'loaves')
    """
    return IRREGULAR_PLURALS.get(noun, noun + "s")


def in_words(number: int) -> str:
    """A number up to 99 in words.

    >>> in_words(0), in_words(13), in_words(42)
    ('no', 'thirteen', 'forty-two')
    """
    small = (
        "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen"
    ).split()
    if number < 20:
        return small[number]
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()[number // 10 - 2]
    return tens + (f"-{small[number % 10]}" if number % 10 else "")


def quantity(number: int, noun: str) -> str:
    """So many of it.

    >>> quantity(1, "egg"), quantity(3, "egg")
    ('one egg', 'three eggs')
    """
    return f"{in_words(number)} {noun if number == 1 else plural(noun)}"
