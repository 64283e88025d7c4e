"""A text as paragraphs and sentences."""

from __future__ import annotations

import re

from companion import check

__all__ = ["sentences", "split_paragraphs"]

_SENTENCE_END = re.compile(r'(?<=[.?!]) (?=[A-Z"])|(?<=[.!]") (?=[A-Z"])|(?<=\?") (?=")|\n+')


def split_paragraphs(text: str, every: int = 10) -> tuple[str, str]:
    r"""Part a text for training and for validation, by whole paragraphs.

    Args:
        text: paragraphs with an empty line between.
        every: so many paragraphs give one to the validation.

    Returns:
        The text to train on, and the text to validate on.

    Raises:
        TypeError: ``text`` is no str, or ``every`` no int.
        ValueError: ``every`` is less than 2, or there are fewer paragraphs than that.

    Example:
        >>> split_paragraphs("One.\n\nTwo.\n\nThree.\n", every=3)
        ('One.\n\nTwo.\n', 'Three.\n')
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    check.integer("every", every, minimum=2)
    paragraphs = text.rstrip("\n").split("\n\n")
    if len(paragraphs) < every:
        raise ValueError(f"text must have at least {every} paragraphs, got {len(paragraphs)}")
    parts: tuple[list[str], list[str]] = ([], [])
    for number, paragraph in enumerate(paragraphs, 1):
        parts[number % every == 0].append(paragraph)
    train, validation = ("\n\n".join(part) + "\n" for part in parts)
    return train, validation


def sentences(text: str) -> list[str]:
    """Cut a text into sentences; a quote stays with who says it, and a quoted question with what follows.

    Args:
        text: English.

    Returns:
        The sentences.

    Raises:
        TypeError: ``text`` is no str.

    Example:
        >>> sentences('She came. "Are you well?" asked Tom. "I am," she said.')
        ['She came.', '"Are you well?" asked Tom.', '"I am," she said.']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    return [part for part in _SENTENCE_END.split(text) if part]
