"""Ring attention on 2 and 4 processes, against PyTorch's attention over the whole in one.

What the processes do is in ``distributed_cases.py``; they are started once for each number, and each case is a test.
"""

import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from companion import attend, ring
from companion.distributed import gather_sequence, pieces, ring_attention, shard_sequence
from companion.ranks import WORDS, Ranks
from tests.companion.distributed_cases import names

ROOT = Path(__file__).parents[2]
PATIENCE = 150  # seconds, after which the processes are killed
COUNTS = [2, 4]


@cache
def answers(size: int, folder: Path) -> list[dict[str, str | None]]:
    """For each rank, what went wrong in each case, or None; a case that is missing was not reached."""
    command = [sys.executable, "-W", "error", "-m", "tests.companion.distributed_cases"]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    local = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    processes = []
    try:
        for rank in range(size):
            with (folder / f"{rank}.txt").open("w") as said:
                process = subprocess.Popen(
                    [*command, str(rank), str(size), str(folder)],
                    cwd=ROOT, env=os.environ | threads | local, stdout=said, stderr=subprocess.STDOUT,
                )  # fmt: skip
            processes.append(process)
        end = time.monotonic() + PATIENCE
        for process in processes:
            process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass  # what was done by then counts
    finally:
        for process in processes:
            process.kill()
            process.wait()
    read = []
    for rank in range(size):
        path = folder / f"{rank}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        read.append({line["case"]: line["why"] for line in map(json.loads, lines)})
    return read


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return {size: tmp_path_factory.mktemp(f"ranks{size}") for size in COUNTS}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "case"), [(size, case) for size in COUNTS for case in names(size)])
def test_ranks(size: int, case: str, folders: dict[int, Path]):
    for rank, done in enumerate(answers(size, folders[size])):
        said = (folders[size] / f"{rank}.txt").read_text()
        assert case in done, f"rank {rank} never came to it; it said:\n{said[-4000:]}"
        assert done[case] is None, f"rank {rank}: {done[case]}"


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_pairs_of_all_steps_are_those_of_the_triangle(size: int, balanced: bool):
    """Each pair that may attend is computed once, in one step of one rank; no other pair is, but in the own square."""
    length = 4 * size
    held = pieces_by_hand(length, size, balanced)
    for causal in (True, False):
        seen = torch.zeros(length, length, dtype=torch.int64)
        for rank in range(size):
            for source in range(size):
                part = ring.visible(rank, source, len(held[rank]), causal=causal, balanced=balanced)
                if part is None:
                    continue
                queries, keys = held[rank][part.queries], held[source][part.keys]
                pairs = torch.ones(len(queries), len(keys), dtype=torch.int64)
                seen[queries.unsqueeze(1), keys] += pairs.tril() if part.causal else pairs
        everything = torch.ones(length, length, dtype=torch.int64)
        assert torch.equal(seen, everything.tril() if causal else everything)


def pieces_by_hand(length: int, size: int, balanced: bool) -> list[torch.Tensor]:
    if not balanced:
        return list(torch.arange(length).view(size, -1))
    rows = torch.arange(length).view(2 * size, -1)
    return [torch.cat([rows[rank], rows[-1 - rank]]) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_piece_is_held_once(size: int):
    assert sorted(piece for rank in range(size) for piece in pieces(rank, size)) == list(range(2 * size))
    assert [piece for rank in range(size) for piece in pieces(rank, size, False)] == list(range(size))


def test_without_a_group_it_is_said_how_to_start_one():
    x = torch.zeros(4, 2)
    for call in (shard_sequence, gather_sequence, lambda x: ring_attention(x, x, x)):
        with pytest.raises(ValueError, match="group is not there yet") as caught:
            call(x)
        assert "init_process_group()" in str(caught.value)
        assert "torchrun" in str(caught.value)


@pytest.fixture
def alone():
    """A group of one, in this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_group_of_one_is_plain_attention():
    query, key, value = (torch.rand(2, heads, 5, 8, dtype=torch.float64, requires_grad=True) for heads in (4, 2, 2))
    for causal in (False, True):
        for balanced in (False, True):
            ours = ring_attention(query, key, value, causal=causal, scale=0.3, balanced=balanced)
            want = attend(query, key, value, causal=causal, scale=0.3)
            assert torch.equal(ours, want)
            grads = (torch.autograd.grad(x.sin().sum(), (query, key, value)) for x in (ours, want))
            assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("balanced", [True, False])
def test_a_group_of_one_holds_the_whole(balanced: bool):
    x = torch.rand(3, 2, requires_grad=True)
    part = shard_sequence(x, balanced=balanced)
    whole = gather_sequence(part, balanced=balanced)
    assert torch.equal(whole, x)
    assert len({y.data_ptr() for y in (x, part, whole)}) == 3  # new tensors, as with more ranks
    whole.sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 2))


@pytest.mark.usefixtures("alone")
def test_long_words_are_told_apart_beyond_their_end():
    ranks = Ranks.of(None)
    long = "x" * WORDS
    (short,), (one,), (two,) = (ranks.tell(words) for words in (long[1:], long + "1", long + "2"))
    assert short == long[1:]
    assert len(one) == len(two) == WORDS
    assert one != two


def test_tensors_that_a_backend_cannot_carry_are_refused(monkeypatch: pytest.MonkeyPatch):
    """gloo would take a pointer into a GPU for one into memory."""
    ranks = Ranks(None, 0, 2)
    for config, kind, fine in (
        ("cpu:gloo,cuda:gloo", "cpu", True),
        ("cpu:gloo,cuda:gloo", "cuda", False),
        ("cpu:gloo,cuda:nccl", "cuda", True),
        ("cuda:nccl", "cuda", True),
        ("cuda:nccl", "cpu", False),
    ):
        monkeypatch.setattr(dist, "get_backend_config", lambda group, config=config: config)
        if fine:
            ranks.check_carries(torch.device(kind))
        else:
            with pytest.raises(ValueError, match=f"group must have a backend that passes on tensors on {kind}"):
                ranks.check_carries(torch.device(kind))
