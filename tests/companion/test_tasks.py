"""Every target is the right answer to its source, and what is said to be real or known is."""

import itertools

import pytest
import torch

from companion import tasks
from companion.tasks import END, PAD, START

SEQUENCES = {tasks.copy: lambda text: text, tasks.reverse: lambda text: text[::-1]}


def real_part(row: torch.Tensor, real: torch.Tensor) -> list[int]:
    """What is real, which is never interrupted."""
    count = int(real.sum())
    assert real.tolist() == [True] * count + [False] * (len(real) - count)
    assert (row[count:] == PAD).all()
    return row[:count].tolist()


@pytest.mark.parametrize("make", SEQUENCES)
@pytest.mark.parametrize("min_length", [None, 1, 6])
def test_the_target_is_the_source_in_its_order(make, min_length: int | None):
    task = make(5, 6, min_length)
    pair = task.batch(200, seed=3)
    assert (pair.source.shape, pair.target.shape) == ((200, 6), (200, 8))
    lengths = set()
    for source, target, source_real, target_real in zip(*pair[:4], strict=True):
        text = real_part(source, source_real)
        assert real_part(target, target_real) == [START, *SEQUENCES[make](text), END]
        assert all(4 <= symbol < task.vocab_size for symbol in text)
        lengths.add(len(text))
    assert lengths == ({1, 2, 3, 4, 5, 6} if min_length == 1 else {6})
    assert task.vocab_size == 9
    assert pair.source.unique().numel() == 5 + (min_length == 1)


@pytest.mark.parametrize("make", SEQUENCES)
def test_the_alignment_says_which_token_was_written(make):
    pair = make(5, 6, 2).batch(50)
    assert torch.equal(pair.alignment.any(-1), pair.target >= 4)
    for source, target, alignment in zip(pair.source, pair.target, pair.alignment, strict=True):
        for t, s in alignment.nonzero().tolist():
            assert target[t] == source[s]
    first = pair.alignment[0, 1].nonzero().item()
    assert first == (0 if make is tasks.copy else pair.source_real[0].sum() - 1)


def test_a_hand_made_case():
    """The top 32 bits of the published sequence are 3793791033, 1853402609 and 113532195; times 4, in units of 2**32,
    3.53, 1.73 and 0.11."""
    pair = tasks.reverse(4, 3).batch(1, seed=0)
    assert pair.source.tolist() == [[4 + 3, 4 + 1, 4 + 0]]
    assert pair.target.tolist() == [[1, 4, 5, 7, 2]]


def test_a_label_for_each_token_of_the_source():
    for min_length in (None, 2):
        pair = tasks.reverse(5, 6, min_length).batch(20)
        batch = pair.labels()
        assert torch.equal(batch.ids, pair.source)
        assert torch.equal(batch.counted, pair.source_real)
        for row in range(20):
            n = int(pair.source_real[row].sum())
            assert batch.labels[row, :n].tolist() == pair.source[row, :n].tolist()[::-1]
    with pytest.raises(ValueError, match="each target must be as long as its source"):
        tasks.dates().batch(3).labels()


def test_repeats_repeat_and_count_what_can_be_known():
    task = tasks.repeats(9, 20, min_period=3, max_period=9)
    text = task.batch(300, seed=1)
    assert text.ids.shape == text.counted.shape == (300, 21)
    assert text.real.all()
    assert (text.ids[:, 0] == START).all()
    assert set(text.period.tolist()) == set(range(3, 10))
    for ids, counted, period in zip(text.ids.tolist(), text.counted.tolist(), text.period.tolist(), strict=True):
        row = ids[1:]
        assert len(set(row[:period])) == period  # nothing twice before it repeats
        assert row == (row * 8)[:period] * (20 // period) + row[: 20 % period]
        for t, known in enumerate(counted):
            # An induction head's rule: find the token before this one earlier on, and take what followed there.
            earlier = [ids[s + 1] for s in range(t - 1) if ids[s] == ids[t - 1]]
            assert known == bool(earlier)
            assert not known or set(earlier) == {ids[t]}


@pytest.mark.parametrize(
    "task",
    [tasks.copy(), tasks.reverse(min_length=2), tasks.repeats(), tasks.dates(), tasks.char_corpus()],
    ids=lambda task: type(task).__name__,
)
def test_a_seed_fixes_every_batch(task):
    def flat(batches) -> list[list]:
        return [[x.tolist() for x in batch if x is not None] for batch in batches]

    torch.manual_seed(0)
    first = flat(itertools.islice(task.batches(4, seed=5), 3))
    torch.manual_seed(1)  # nothing comes from torch's generator
    assert flat(itertools.islice(task.batches(4, seed=5), 3)) == first
    assert flat([task.batch(4, seed=5)]) == first[:1]
    assert first[0] != first[1]
    assert flat([task.batch(4, seed=6)]) != first[:1]


def test_batches_go_to_a_device(device: str):
    for task in (tasks.reverse(), tasks.repeats()):
        batch = task.batch(2)
        moved = batch.to(device)
        assert type(moved) is type(batch)
        assert {x.device.type for x in moved} == {torch.device(device).type} or moved.count(None)
    labels = tasks.reverse().batch(2).labels().to(device)
    assert labels.counted.device.type == torch.device(device).type
    plain = tasks.char_corpus().batch(2).to(device)
    assert (plain.counted, plain.period) == (None, None)


def test_as_many_symbols_as_one_likes():
    task = tasks.copy(1000, 4)
    assert task.vocab_size == 1004
    row = task.batch(1).source[0]
    assert task.vocabulary.encode(task.vocabulary.decode(row)) == row.tolist()
