"""The numbers are those that the algorithm's authors publish, and as even as they should be."""

import pytest
import torch

from companion.splitmix import SplitMix

# The first outputs of SplitMix64: for seed 0 from Java's SplittableRandom, for 1234567 from Vigna's C code.
PUBLISHED = {
    0: [16294208416658607535, 7960286522194355700, 487617019471545679],
    1234567: [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ],
}


@pytest.mark.parametrize("seed", PUBLISHED)
def test_the_published_sequence(seed: int):
    want = PUBLISHED[seed]
    assert SplitMix(seed).bits(len(want)).tolist() == want
    one_by_one = SplitMix(seed)
    assert [int(one_by_one.bits(1)[0]) for _ in want] == want


def test_large_seeds_wrap_around_as_64_bits_do():
    """Whole numbers without a limit, kept to 64 bits by hand, as the paper writes it."""
    state = 2**64 - 1
    for given in SplitMix(state).bits(5).tolist():
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        assert given == z ^ z >> 31


def test_numbers_come_from_the_top_of_the_bits():
    top = [number >> 32 for number in PUBLISHED[0]]
    assert SplitMix(0).integers(10, (3,)).tolist() == [number * 10 // 2**32 for number in top]
    assert SplitMix(0).integers(2**32, (3,)).tolist() == top
    assert SplitMix(0).uniform((3,)).tolist() == [(number >> 11) / 2**53 for number in PUBLISHED[0]]
    source = SplitMix(0)
    assert [source.below(10) for _ in range(3)] == [number * 10 // 2**32 for number in top]


def test_shapes_and_dtypes():
    source = SplitMix(1)
    assert source.integers(3).shape == ()
    assert source.integers(3, (2, 0)).shape == (2, 0)
    assert source.integers(3, (2, 4)).dtype is torch.int64
    assert source.uniform((2, 4)).dtype is torch.float64
    assert (source.integers(1, (50,)) == 0).all()


def test_each_number_is_as_likely():
    counts = SplitMix(5).integers(7, (70_000,)).bincount()
    assert counts.numel() == 7
    assert (counts - 10_000).abs().max() < 4 * 93  # four standard deviations, √(70000 · 1/7 · 6/7) each
    source = SplitMix(6)
    ones = sum(source.below(2) for _ in range(10_000))
    assert abs(ones - 5_000) < 4 * 50
    mean = SplitMix(7).uniform((10_000,)).mean().item()
    assert mean == pytest.approx(0.5, abs=4 * (1 / 12) ** 0.5 / 100)


def test_permutations_have_everything_once_and_each_order_as_likely():
    orders = SplitMix(3).permutations(6_000, 3)
    assert (orders.sort(1).values == torch.arange(3)).all()
    _, counts = orders.unique(dim=0, return_counts=True)
    assert counts.numel() == 6
    assert (counts - 1_000).abs().max() < 4 * 29  # √(6000 · 1/6 · 5/6)
