"""A small English book that nobody wrote: about 400 kB of stories, made by a grammar from a seed.

People lose things and find them, buy and sell and count, travel, ask and answer. It has what a language model can
learn: spelling and words, agreement of number and tense, who is meant by "she", quotes that close, sums that are right.
It is the same to the byte wherever it is made, and no sentence stands in it twice, so that what a model has not seen
it has indeed not seen.

Words, grammar and scenes have a file each beside this one.
"""

from __future__ import annotations

from functools import lru_cache

from companion import check
from companion.corpus import days, facts
from companion.corpus.grammar import Scene
from companion.corpus.text import sentences, split_paragraphs
from companion.splitmix import SplitMix

__all__ = ["corpus", "sentences", "split_paragraphs"]

_SCENES = (
    facts.lost,
    facts.counting,
    facts.selling,
    facts.herd,
    facts.who_is_taller,
    days.journey,
    days.trade,
    days.letter,
    days.lesson,
    days.meal,
    days.place,
)


@lru_cache(maxsize=2)
def corpus(size: int = 400_000, seed: int = 0) -> str:
    """The text.

    Args:
        size: at least so many characters (all of them ASCII, so bytes), and not much more.
        seed: another one tells other stories.

    Returns:
        Paragraphs, with an empty line between.

    Raises:
        TypeError: no ints.
        ValueError: ``size`` is less than 1 or more than a million, after which the grammar would repeat itself; or
            ``seed`` is negative.
    """
    if check.integer("size", size) > 1_000_000:
        raise ValueError(f"size must be at most 1000000, got {size}")
    random, seen = SplitMix(seed), set[str]()
    paragraphs: list[str] = []
    length = 0
    while length < size:
        scene = Scene(random, seen)
        scene.pick(_SCENES)(scene)
        paragraphs.append(" ".join(scene.said))
        length += len(paragraphs[-1]) + 2
    return "\n\n".join(paragraphs) + "\n"
