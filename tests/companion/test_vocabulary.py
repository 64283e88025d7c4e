"""Ids and symbols, there and back; rows of different lengths in one table."""

import pytest
import torch

from companion.vocabulary import END, MASK, PAD, START, Vocabulary, pad


def test_special_tokens_come_first():
    letters = Vocabulary("ab")
    assert (PAD, START, END, MASK) == (0, 1, 2, 3)
    assert letters.symbols == ("<pad>", "<start>", "<end>", "<mask>", "a", "b")
    assert len(letters) == 6
    assert letters.encode("abba") == [4, 5, 5, 4]
    assert letters.encode("") == []


def test_words_are_symbols_too():
    words = Vocabulary(["the", " ", "cat"])
    assert words.decode(words.encode(["the", " ", "cat"])) == "the cat"


def test_decoding_ends_at_the_end_and_leaves_out_what_is_no_text():
    letters = Vocabulary("ab")
    assert letters.decode([START, 4, MASK, 5, END, 4, PAD]) == "ab"
    assert letters.decode(torch.tensor([PAD, PAD, 5])) == "b"
    assert letters.decode([]) == ""


@pytest.mark.parametrize("left", [False, True])
def test_padding(left: bool):
    ids, real = pad([[5, 6], [7], []], length=3, left=left)
    want = [[0, 5, 6], [0, 0, 7], [0, 0, 0]] if left else [[5, 6, 0], [7, 0, 0], [0, 0, 0]]
    assert ids.tolist() == want
    assert ids.dtype is torch.int64
    assert real.tolist() == [[number > 0 for number in row] for row in want]


def test_a_padding_id_inside_a_row_is_real():
    ids, real = pad([[0, 5]])
    assert ids.tolist() == [[0, 5]]
    assert real.all()
