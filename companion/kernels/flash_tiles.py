"""How large a block a program takes: by what a GPU has room for, and then by trying.

The larger the blocks, the fewer times the keys are read, and the more a program holds at once: in shared memory (a T4
has 64 KB for it, an RTX 4090 99, an A100 163, an H100 227) and in registers. What does not fit spills, and is
slow.
"""

from __future__ import annotations

from typing import NamedTuple

__all__: list[str] = []


class Tile(NamedTuple):
    """One way to cut the work.

    Attributes:
        BLOCK_L: queries in a block.
        BLOCK_S: keys in a block.
        num_warps: groups of 32 threads that share a block.
        num_stages: blocks under way at once: while one is multiplied, the next are fetched.
    """

    BLOCK_L: int
    BLOCK_S: int
    num_warps: int
    num_stages: int


# With tensor cores, by kernel and head width, the roomiest first; a few each, since every one is compiled and timed.
TENSOR_CORES = {
    ("forward", 64): (Tile(128, 128, 8, 2), Tile(128, 64, 4, 3), Tile(64, 64, 4, 2), Tile(64, 32, 4, 2)),
    ("forward", 128): (Tile(128, 64, 8, 3), Tile(128, 64, 8, 2), Tile(64, 64, 4, 2), Tile(64, 32, 4, 2)),
    ("forward", 256): (Tile(128, 64, 8, 2), Tile(64, 32, 4, 2)),
    ("query", 64): (Tile(128, 64, 8, 2), Tile(64, 64, 4, 2), Tile(64, 32, 4, 2)),
    ("query", 128): (Tile(128, 64, 8, 2), Tile(64, 64, 8, 2), Tile(64, 32, 4, 2)),
    ("query", 256): (Tile(64, 64, 8, 2), Tile(32, 32, 4, 2)),
    ("key", 64): (Tile(64, 128, 8, 2), Tile(64, 64, 8, 2), Tile(64, 32, 4, 2), Tile(32, 64, 4, 2)),
    ("key", 128): (Tile(64, 128, 8, 2), Tile(64, 64, 8, 2), Tile(32, 64, 4, 2)),
    ("key", 256): (Tile(64, 64, 8, 2), Tile(32, 32, 8, 2)),
}
# Without: float32 to its last bit, and Triton on a Turing (T4). Each thread then multiplies alone, out of registers.
ONE_BY_ONE = (Tile(32, 32, 8, 1), Tile(16, 16, 8, 1))


def padded(width: int) -> int:
    """The side of a block that holds a head: a power of two, and at least 16, or tensor cores cannot multiply it."""
    return max(16, 1 << (width - 1).bit_length())


def tiles(kernel: str, D: int, E: int, size: int, *, tensor_cores: bool, shared_memory: int) -> tuple[Tile, ...]:
    """The tiles worth trying, at least one.

    Args:
        kernel: ``"forward"``, ``"query"`` or ``"key"``.
        D: width of a query.
        E: width of a value.
        size: bytes of a number.
        tensor_cores: whether they can be used.
        shared_memory: bytes that a program may have.
    """
    width = max(64, padded(max(D, E)))
    some = TENSOR_CORES[kernel, width] if tensor_cores else ONE_BY_ONE[-1:] if width > 128 else ONE_BY_ONE
    fit = (tile for tile in some if room(kernel, tile, D, E, size, tensor_cores=tensor_cores) <= shared_memory)
    return tuple(fit) or some[-1:]


def room(kernel: str, tile: Tile, D: int, E: int, size: int, *, tensor_cores: bool) -> int:
    """Bytes of shared memory that a program needs, roughly: what proves too large, Triton leaves out itself.

    There lies each stage of what passes by, and weights on their way from thread to thread. What stays with a program
    is in registers, where tensor cores read it (and on a Hopper in both, which has room for all of these tiles).
    """
    L, S, both = tile.BLOCK_L, tile.BLOCK_S, padded(D) + padded(E)
    stays = {"forward": L * padded(D), "query": L * both, "key": S * both}[kernel]  # Q; Q and dO; K and V
    passes = (L if kernel == "key" else S) * both  # Q and dO; K and V
    held = tile.num_stages * passes + 2 * L * S
    if not tensor_cores:
        held, size = held + stays, 4  # one by one, only float32 is multiplied
    return size * held + 4 * tile.num_stages * L  # a log-sum-exp goes with each query
