"""prefix_lm, longformer and bigbird against brute-force loops, and what they are for: few pairs, short ways."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from companion import Mask, attend, causal, padding, sliding_window
from companion.masks import bigbird, longformer, prefix_lm
from companion.sparse_masks import _scrambled
from tests.companion.helpers import PLACES, Cell, repeat, table, uniform

quick = settings(max_examples=40, deadline=None)

BATCH, HEADS, KEYS = 2, 3, 9
PREFIX = (0, 4)
GLOBAL = torch.tensor([[True] + [False] * 8, [False, False, True, False, False, False, False, True, False]])


def longformer_cell(window: int, chosen: Callable[[int, int], bool], causality: bool, L: int, S: int) -> Cell:
    def cell(b: int, h: int, q: int, k: int) -> bool:
        p = q + S - L
        seen = abs(p - k) < window or chosen(b, k) or (p >= 0 and chosen(b, p))
        return seen and (not causality or k <= p)

    return cell


def bigbird_cell(block: int, window: int, num_global: int, causality: bool, L: int, S: int) -> Cell:
    """Without random blocks."""

    def cell(b: int, h: int, q: int, k: int) -> bool:
        p = q + S - L
        mine, other = p // block, k // block  # Python rounds down, below zero as well
        near = 0 <= mine - other < window if causality else abs(mine - other) <= window // 2
        seen = near or other < num_global or (p >= 0 and mine < num_global)
        return seen and (not causality or k <= p)

    return cell


RULES: dict[str, tuple[Callable[[], Mask], Callable[[int, int], Cell]]] = {
    "prefix": (lambda: prefix_lm(PREFIX), lambda L, S: lambda b, h, q, k: k < PREFIX[b] or k <= q + S - L),
    "longformer": (lambda: longformer(2), lambda L, S: longformer_cell(2, lambda b, k: k == 0, False, L, S)),
    "longformer, some": (
        lambda: longformer(1, torch.tensor([6, 3], dtype=torch.int32)),
        lambda L, S: longformer_cell(1, lambda b, k: k in (3, 6), False, L, S),
    ),
    "longformer, none": (lambda: longformer(3, []), lambda L, S: longformer_cell(3, lambda b, k: False, False, L, S)),
    "longformer, table": (
        lambda: longformer(2, GLOBAL),
        lambda L, S: longformer_cell(2, lambda b, k: bool(GLOBAL[b, k]), False, L, S),
    ),
    "longformer, causal": (
        lambda: longformer(2, (0, 4), causal=True),
        lambda L, S: longformer_cell(2, lambda b, k: k in (0, 4), True, L, S),
    ),
    "bigbird": (lambda: bigbird(2, num_random=0), lambda L, S: bigbird_cell(2, 3, 1, False, L, S)),
    "bigbird, narrow": (
        lambda: bigbird(4, window=1, num_global=0, num_random=0),
        lambda L, S: bigbird_cell(4, 1, 0, False, L, S),
    ),
    "bigbird, causal": (
        lambda: bigbird(2, window=2, num_global=2, num_random=0, causal=True),
        lambda L, S: bigbird_cell(2, 2, 2, True, L, S),
    ),
    "bigbird, one block": (lambda: bigbird(100, num_random=0), lambda L, S: bigbird_cell(100, 3, 1, False, L, S)),
}
DRAWN: dict[str, Callable[[], Mask]] = {
    "bigbird, drawn": lambda: bigbird(2, window=1, num_global=0, num_random=2, seed=7),
    "bigbird, drawn, causal": lambda: bigbird(2, window=1, num_global=0, num_random=3, causal=True),
}
EVERY = [*RULES, *DRAWN]


def make(name: str) -> Mask:
    return RULES[name][0]() if name in RULES else DRAWN[name]()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("length", [KEYS, 4, 1, 14, 0])
def test_dense_equals_loops(name: str, length: int, device: str):
    """As many queries as keys, fewer, one, more, and none."""
    mask, cell = make(name), RULES[name][1](length, KEYS)
    dense = mask.dense(BATCH, HEADS, length, KEYS, device)
    assert dense.device.type == device
    assert torch.equal(dense.cpu(), table(BATCH, HEADS, length, KEYS, cell))


@pytest.mark.parametrize("name", EVERY)
def test_fewer_queries_are_the_last_rows(name: str):
    """What a cache needs: the last query stands at the last key."""
    whole = make(name).dense(BATCH, 1, KEYS, KEYS)
    for length in (1, 4):
        assert torch.equal(make(name).dense(BATCH, 1, length, KEYS), whole[:, :, -length:])
    longer = make(name).dense(BATCH, 1, KEYS + 5, KEYS)
    assert torch.equal(longer[:, :, 5:], whole)


@pytest.mark.parametrize("name", EVERY)
def test_block_mask_agrees_with_dense(name: str):
    from torch.nn.attention.flex_attention import create_mask

    for length in (KEYS, 4, 12):
        block = make(name).block_mask(BATCH, 2, length, KEYS)
        assert block.shape == (BATCH, 2, length, KEYS)
        assert torch.equal(
            create_mask(block.mask_mod, BATCH, 2, length, KEYS, device="cpu"), make(name).dense(BATCH, 2, length, KEYS)
        )


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_rule_answers_scalars(name: str, dtype: torch.dtype):
    """As FlexAttention asks it; its kernels count in 32 bits."""
    dense, rule = make(name).dense(BATCH, 1, 6, KEYS), make(name).rule(BATCH, 6, KEYS)
    for b in range(BATCH):
        for q in range(6):
            for k in range(KEYS):
                answer = rule(*(torch.tensor(i, dtype=dtype) for i in (b, 0, q, k)))
                assert answer.dim() == 0
                assert bool(answer) == bool(dense[b, 0, q, k])


@pytest.mark.parametrize("name", EVERY)
def test_compact_keeps_what_does_not_vary_at_one(name: str):
    rows = BATCH if name in ("prefix", "longformer, table") else 1
    compact = make(name).compact(BATCH, HEADS, 4, KEYS)
    assert compact.shape == (rows, 1, 4, KEYS)
    assert make(name).batch == (BATCH if rows == BATCH else None)
    assert torch.equal(compact.expand(BATCH, HEADS, 4, KEYS), make(name).dense(BATCH, HEADS, 4, KEYS))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("place", PLACES, indirect=True, ids=lambda place: "-".join(place))
@pytest.mark.parametrize(("groups", "length"), [(4, KEYS), (2, 3), (1, 12)])
def test_attention_under_it(name: str, place: tuple[str, str], groups: int, length: int):
    """Every backend, grouped heads, and queries that see nothing, against PyTorch's softmax in float64."""
    device, backend = place
    dtype, bound = (torch.float16, 1e-3) if device == "cuda" else (torch.float32, 2e-6)
    g = torch.Generator().manual_seed(1)
    q = uniform(BATCH, 4, length, 8, generator=g)
    k, v = (uniform(BATCH, groups, KEYS, 8, generator=g) for _ in range(2))
    allowed = make(name).dense(BATCH, 4, length, KEYS)
    scores = (q @ repeat(k, 4).mT / 8**0.5).masked_fill(~allowed, float("-inf"))
    want = scores.softmax(-1).nan_to_num(0.0) @ repeat(v, 4)
    given = (x.to(device, dtype) for x in (q, k, v))
    if device == "cuda" and backend == "flash":
        pytest.skip("flash takes no mask on CUDA")
    output = attend(*given, mask=make(name), backend=backend)
    torch.testing.assert_close(output.double().cpu(), want, rtol=0, atol=bound)
    assert (output[(~allowed.any(-1)).to(device)] == 0).all()


@pytest.mark.parametrize("name", EVERY)
def test_it_composes(name: str):
    sizes = (BATCH, 1, 5, KEYS)
    dense, other = make(name).dense(*sizes), (causal() & padding([3, 9])).dense(*sizes)
    assert torch.equal((make(name) & causal() & padding([3, 9])).dense(*sizes), dense & other)
    assert torch.equal((~make(name)).dense(*sizes), ~dense)
    q, k = torch.rand(BATCH, 1, 5, 4), torch.rand(BATCH, 1, KEYS, 4)
    torch.testing.assert_close(attend(q, k, k, make(name), causal=True), attend(q, k, k, make(name) & causal()))


@pytest.mark.parametrize("name", EVERY)
def test_nothing_to_look_at(name: str):
    if make(name).batch is None and name != "longformer, some":
        assert bigbird(3).dense(1, 1, 2, 0).shape == (1, 1, 2, 0)
        assert longformer(3, []).dense(0, 1, 0, 0).shape == (0, 1, 0, 0)
    assert make(name).dense(BATCH, 0, 2, KEYS).shape == (BATCH, 0, 2, KEYS)


# --- prefix_lm ---


@quick
@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 8))
def test_a_prefix_is_a_square_above_a_triangle(prefix: int, more: int, length: int):
    keys = max(prefix, length) + more
    dense = prefix_lm([prefix]).dense(1, 1, keys, keys)[0, 0]
    assert dense[:, :prefix].all()
    assert torch.equal(dense[:, prefix:], torch.ones(keys, keys, dtype=torch.bool).tril()[:, prefix:])
    assert torch.equal(prefix_lm([0]).dense(1, 1, length, keys), causal().dense(1, 1, length, keys))
    assert prefix_lm([keys]).dense(1, 1, length, keys).all()


def test_a_prefix_that_does_not_fit_is_refused_by_its_own_name():
    with pytest.raises(ValueError, match="prefix_lm was given 3 lengths, used with a batch of 2"):
        prefix_lm([1, 2, 3]).dense(2, 1, 3, 3)
    with pytest.raises(ValueError, match="prefix_lm was given a length of 4, used with 3 keys"):
        prefix_lm([1, 4]).dense(2, 1, 3, 3)


# --- longformer ---


@quick
@given(st.integers(1, 6), st.lists(st.integers(0, 11), max_size=4), st.booleans())
def test_longformer_is_a_window_and_crosses(window: int, chosen: list[int], causality: bool):
    dense = longformer(window, chosen, causal=causality).dense(1, 1, 12, 12)[0, 0]
    want = sliding_window(window, causal=False).dense(1, 1, 12, 12)[0, 0]
    for position in chosen:
        want[position] = True
        want[:, position] = True
    assert torch.equal(dense, want.tril() if causality else want)


def test_a_global_token_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="global_tokens has position 7, used with 5 keys"):
        longformer(2, [0, 7]).dense(1, 1, 5, 5)
    with pytest.raises(ValueError, match=r"global_tokens has shape \(2, 9\), used with \(B, S\) = \(2, 8\)"):
        longformer(2, GLOBAL).dense(2, 1, 8, 8)
    with pytest.raises(ValueError, match=r"global_tokens has shape \(2, 9\), used with \(B, S\) = \(3, 9\)"):
        attend(*(torch.rand(3, 1, 9, 4) for _ in range(3)), mask=longformer(2, GLOBAL))


# --- bigbird's draw ---


def extra_blocks(num_random: int, seed: int, blocks: int, block: int = 3) -> Tensor:
    """``(blocks, blocks)``: what is seen beyond a window of one block, read off the table of tokens."""
    size = blocks * block
    dense = bigbird(block, window=1, num_global=0, num_random=num_random, seed=seed).dense(1, 1, size, size)[0, 0]
    cells = dense.view(blocks, block, blocks, block).transpose(1, 2).flatten(2)  # (blocks, blocks, block²)
    assert torch.equal(cells.all(-1), cells.any(-1))  # blocks are seen whole
    return cells.all(-1) & ~torch.eye(blocks, dtype=torch.bool)


@pytest.mark.parametrize("num_random", [0, 1, 3])
def test_each_block_sees_at_most_so_many_more(num_random: int):
    seen = extra_blocks(num_random, 0, 50).sum(-1)
    assert (seen <= num_random).all()
    assert seen.sum() >= 0.8 * num_random * 50  # a draw may repeat what is seen, but not often


def test_the_same_seed_draws_the_same_and_another_another():
    one, again, other = (extra_blocks(2, seed, 50) for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert (one & other).sum() < 0.2 * one.sum()
    torch.manual_seed(99)  # the library's own generator has no say, and is left alone
    before = torch.get_rng_state()
    assert torch.equal(extra_blocks(2, 3, 50), one)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_draw_is_even():
    """Chi-squared over which block is drawn, 64 blocks by 200 seeds: 63 degrees of freedom, so 63 on average."""
    counts = torch.stack([extra_blocks(1, seed, 64, 1) for seed in range(200)]).sum((0, 1)).double()
    expected = counts.mean()
    chi = ((counts - expected).square() / expected).sum().item()
    assert 63 - 4 * (2 * 63) ** 0.5 < chi < 63 + 4 * (2 * 63) ** 0.5
    # Neither do neighbours draw alike, nor do the columns of one row.
    pairs = [extra_blocks(2, seed, 64, 1) for seed in range(50)]
    together = sum((x[:-1] & x[1:]).sum().item() for x in pairs)
    assert together == pytest.approx(50 * 63 * 64 * (2 / 64) ** 2, rel=0.25)
    assert sum(x.sum().item() for x in pairs) == pytest.approx(50 * 64 * 2, rel=0.05)


def test_scrambling_needs_no_more_than_64_bits():
    """In tensors as in Python's whole numbers, which have no end; and no two numbers become one."""
    numbers = [0, 1, 2, 2**16, 2**31, 2**32 - 1, *range(10**6, 10**6 + 100)]
    assert _scrambled(torch.tensor(numbers)).tolist() == [_scrambled(x) for x in numbers]
    many = _scrambled(torch.arange(2**18))
    assert len(many.unique()) == 2**18
    assert many.min() >= 0
    assert many.max() < 2**32


# --- few pairs, short ways ---


@pytest.mark.parametrize("causality", [False, True])
def test_pairs_grow_with_the_length_and_not_with_its_square(causality: bool):
    def pairs(mask: Mask, size: int) -> int:
        return int(mask.dense(1, 1, size, size).sum())

    sizes = (64, 128, 256, 512)
    few = [pairs(longformer(5, (0, 1), causal=causality), size) for size in sizes]
    assert few[2] - few[1] == 2 * (few[1] - few[0])  # on a straight line
    assert few[3] - few[2] == 2 * (few[2] - few[1])
    for size, count in zip(sizes, few, strict=True):
        assert count <= size * (2 * 5 - 1 + 2 * 2)
        birds = pairs(bigbird(4, window=3, num_global=1, num_random=2, causal=causality), size)
        assert birds <= size * 4 * (3 + 2 * 1 + 2)
    assert pairs(causal(), 512) == 512 * 513 // 2


def layers_until_all_is_reached(mask: Mask, size: int, most: int = 200) -> int:
    """The power of the table from which each position has heard of each that it may hear of."""
    step = mask.dense(1, 1, size, size)[0, 0].double()
    reached = torch.eye(size, dtype=torch.float64)
    for layer in range(1, most):
        reached = (step @ reached).clamp(max=1)
        if bool(reached.all()):
            return layer
    return most


def test_a_few_layers_join_all_tokens():
    size = 61
    assert layers_until_all_is_reached(sliding_window(5, causal=False), size) == 15  # four positions a layer
    assert layers_until_all_is_reached(longformer(1, [30]), size) == 2  # by way of the global token
    assert layers_until_all_is_reached(bigbird(1, num_random=0), size) == 2
    for seed in range(5):  # at random, without a leader; a window of three blocks alone takes 60
        assert layers_until_all_is_reached(bigbird(1, num_global=0, num_random=2, seed=seed), size) <= 10
    assert layers_until_all_is_reached(bigbird(1, num_global=0, num_random=0), size) == 60


# --- a million tokens ---


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any tensor had which was made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, Tensor):
                self.numbers = max(self.numbers, x.untyped_storage().nbytes() // x.element_size())
        return out


MILLION = 1_000_000


@pytest.mark.parametrize(
    ("mask", "most", "seen", "hidden"),
    [
        (sliding_window(4096), 10, [(999_999, 999_000), (5000, 905)], [(999_999, 995_903), (5000, 5001), (5000, 904)]),
        (causal() & ~sliding_window(8), 10, [(999_999, 0)], [(999_999, 999_992)]),
        (prefix_lm([1000]), 10, [(0, 999), (500_000, 500_000)], [(0, 1000), (500_000, 500_001)]),
        (
            longformer(512, [0, 777_777]),
            MILLION,
            [(999_999, 0), (0, 999_999), (777_777, 123), (123, 777_777), (5000, 5511)],
            [(5000, 5512), (5000, 1)],
        ),
        (bigbird(64), 10, [(500_000, 63), (3, 999_999), (500_000, 500_090)], []),
    ],
    ids=["window", "combined", "prefix", "longformer", "bigbird"],
)
def test_a_million_tokens_without_a_table(mask: Mask, most: int, seen: list, hidden: list):
    """Asked of chosen pairs; a table of all would take 10**12 bytes. Longformer marks its global tokens, one a key."""
    pairs = torch.tensor([*seen, *hidden])
    with Largest() as largest:
        rule = mask.rule(1, MILLION, MILLION)
        zero = torch.zeros(len(pairs), dtype=torch.long)
        answers = rule(zero, zero, pairs[:, 0], pairs[:, 1])
    assert answers.tolist() == [True] * len(seen) + [False] * len(hidden)
    assert largest.numbers <= most


def test_bigbirds_random_block_in_a_million_tokens():
    """One row of blocks: its window of three, the first, and its random one; nothing else."""
    rule = bigbird(64, num_random=1).rule(1, MILLION, MILLION)
    zero, other = torch.zeros((), dtype=torch.long), torch.arange(0, MILLION, 64)
    seen = other[rule(zero, zero, torch.tensor(640_000), other)] // 64
    assert {0, 9999, 10000, 10001} <= set(seen.tolist())
    assert len(seen) in (4, 5)


# --- as others use them ---


def test_made_under_another_default_device():
    with torch.device("meta"):
        rules = [prefix_lm([2, 3]), longformer(2, [0, 3]), bigbird(2)]
        tables = [rule.dense(2, 1, 5, 5, "cpu") for rule in rules]
    for rule, got in zip([prefix_lm([2, 3]), longformer(2, [0, 3]), bigbird(2)], tables, strict=True):
        assert torch.equal(got, rule.dense(2, 1, 5, 5))


@pytest.mark.slow
def test_compiled_equals_eager(compiled):
    q = torch.rand(2, 4, 8, 8)
    mask = (bigbird(2, num_global=0) | longformer(1, [3])) & prefix_lm([2, 5]) & padding([6, 8])
    fast = compiled(lambda x: attend(x, x, x, mask), fullgraph=True)
    torch.testing.assert_close(fast(q), attend(q, q, q, mask), rtol=0, atol=1e-6)


def test_names():
    assert repr(prefix_lm([1])) == "Mask(prefix_lm(...))"
    assert repr(longformer(3)) == "Mask(longformer(3, ...))"
    assert repr(longformer(3, causal=True) & causal()) == "Mask((longformer(3, ..., causal=True) & causal()))"
    assert repr(bigbird(2, num_random=0)) == "Mask(bigbird(2, window=3, num_global=1, num_random=0))"
    assert "causal=True" in repr(bigbird(2, causal=True))
