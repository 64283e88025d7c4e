"""What ranks do in ``test_distributed.py``: run as ``python -m tests.companion.distributed_cases RANK SIZE FOLDER``.

One start runs all cases, for a start costs seconds. Each rank writes a line of JSON a case into the folder. A case that
fails on one rank may leave others waiting, as long as the group's time-out.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from companion import MultiHeadAttention, attend, merge_heads, scaled_dot_product_attention, split_heads, tiles
from companion.distributed import gather_sequence, ring_attention, shard_sequence
from companion.ranks import Arrival, Ranks
from companion.rotary import Rotary

TIMEOUT = timedelta(seconds=40)
CASES: dict[str, Callable[[int, int], None]] = {}
ONLY: dict[str, int] = {}  # cases for one number of ranks


def case(function: Callable[[int, int], None]) -> Callable[[int, int], None]:
    CASES[function.__name__] = function
    return function


def only(size: int) -> Callable[[Callable[[int, int], None]], Callable[[int, int], None]]:
    def mark(function: Callable[[int, int], None]) -> Callable[[int, int], None]:
        ONLY[function.__name__] = size
        return case(function)

    return mark


def names(size: int) -> list[str]:
    return [name for name in CASES if ONLY.get(name, size) == size]


def uniform(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """From -1 to 1, and the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype)


def inputs(
    length: int,
    lead: tuple[int, ...] = (2,),
    heads: int = 4,
    groups: int = 2,
    width: int = 8,
    value_width: int = 8,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, ...]:
    """Query, key, value and the gradient of the output, whole."""
    query, out = ((*lead, heads) if heads else () for _ in "qo")
    held = (*lead, groups) if heads else ()
    shapes = (
        (*query, length, width),
        (*held, length, width),
        (*held, length, value_width),
        (*out, length, value_width),
    )
    return tuple(uniform(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))


def truth(query: Tensor, key: Tensor, value: Tensor, grad: Tensor, causal: bool, scale: float | None = None):
    """PyTorch's own attention over the whole sequence in one process, in float64: output and gradients."""
    leaves = [x.detach().double().requires_grad_() for x in (query, key, value)]
    share = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    q, k, v = leaves
    if query.dim() > 2:
        k, v = (x.repeat_interleave(share, dim=-3) for x in (k, v))
    output = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    output.backward(grad.double())
    return output.detach(), *(x.grad for x in leaves)


def ringed(query: Tensor, key: Tensor, value: Tensor, grad: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """This rank's output and gradients, by the ring."""
    how = {name: options[name] for name in ("balanced", "group") if name in options}
    leaves = [shard_sequence(x.detach(), **how).requires_grad_() for x in (query, key, value)]
    output = ring_attention(*leaves, **options)
    output.backward(shard_sequence(grad, **how))
    return output.detach(), *(x.grad for x in leaves)


def distance(ours: tuple[Tensor, ...], whole: tuple[Tensor, ...], **how: Any) -> list[float]:
    """The largest error of each tensor, ours being one part of the whole."""
    return [
        (got.double() - shard_sequence(want, **how).double()).abs().max().item()
        for got, want in zip(ours, whole, strict=True)
    ]


WAYS = [(causal, balanced) for causal in (False, True) for balanced in (False, True)]


@case
def equals_one_process_in_float64(rank: int, size: int) -> None:
    shapes: list[dict[str, Any]] = [
        {},
        {"lead": (), "groups": 4},
        {"lead": (), "heads": 0},
        {"lead": (2, 1, 3), "groups": 1, "value_width": 5},
        {"width": 3, "value_width": 12},
    ]
    for causal, balanced in WAYS:
        for shape in shapes:
            for length in (2 * size, 6 * size)[: 1 + (not shape)]:
                whole = inputs(length, **shape)
                ours = ringed(*whole, causal=causal, balanced=balanced)
                errors = distance(ours, truth(*whole, causal), balanced=balanced)
                assert max(errors) < 1e-12, (causal, balanced, shape, length, errors)


@case
def equals_one_process_in_float32(rank: int, size: int) -> None:
    for causal, balanced in WAYS:
        whole = inputs(64 * size, width=16, value_width=16, dtype=torch.float32)
        ours = ringed(*whole, causal=causal, balanced=balanced)
        assert all(x.dtype is torch.float32 for x in ours)
        right = truth(*whole, causal)
        for error, want in zip(distance(ours, right, balanced=balanced), right, strict=True):
            assert error < 1e-6 * max(1.0, want.abs().max().item()), (causal, balanced, error)


@case
def half_precision_is_as_good_as_pytorchs_own(rank: int, size: int) -> None:
    for dtype, bound in ((torch.float16, 1e-3), (torch.bfloat16, 5e-3)):
        for causal in (False, True):
            whole = inputs(32 * size, dtype=dtype)
            ours = ringed(*whole, causal=causal)
            assert all(x.dtype is dtype for x in ours)
            right = truth(*whole, causal)
            errors = distance(ours, right)
            assert errors[0] < bound, (dtype, causal, errors)
            for got, want in ((ours[0], right[0]), (ours[3], right[3])):  # output and gradient of value: rounded once
                want = shard_sequence(want)
                assert ((got.double() - want).abs() <= torch.finfo(dtype).eps / 2 * want.abs() + 1e-6).all()
            leaves = [x.clone().requires_grad_() for x in whole[:3]]
            key, value = (x.repeat_interleave(2, dim=-3) for x in leaves[1:])
            output = F.scaled_dot_product_attention(leaves[0], key, value, is_causal=causal)
            output.backward(whole[3])
            theirs = (output.detach(), *(x.grad for x in leaves))
            for ours_off, got, want in zip(errors, theirs, right, strict=True):
                assert ours_off <= 2 * (got.double() - want).abs().max().item(), (dtype, causal, errors)


@case
def large_scores_stay_finite(rank: int, size: int) -> None:
    """Scaled after the product, 40 x 40 x 64 would overflow float16."""
    query = torch.full((1, 4 * size, 64), 40.0, dtype=torch.float16)
    value = uniform(1, 4 * size, 64, seed=3, dtype=torch.float16)
    output = ring_attention(*(shard_sequence(x) for x in (query, query, value)))
    mean = value.double().mean(-2, keepdim=True)
    assert (output.double() - mean).abs().max() < 1e-3


@case
def scale_and_layout_are_the_callers(rank: int, size: int) -> None:
    whole = inputs(4 * size)
    assert max(distance(ringed(*whole, causal=True, scale=0.7), truth(*whole, True, 0.7))) < 1e-12
    q, k, v = (shard_sequence(x) for x in whole[:3])
    plain = ring_attention(q, k, v, causal=True)
    transposed = (x.transpose(-2, -3).contiguous().transpose(-2, -3) for x in (q, k, v))
    assert torch.equal(ring_attention(*transposed, causal=True), plain)
    strided = (torch.stack([x, x], -1).flatten(-2)[..., ::2] for x in (q, k, v))
    assert torch.equal(ring_attention(*strided, causal=True), plain)
    same = ring_attention(q, k[..., :1, :].expand_as(k), v[..., :1, :].expand_as(v))
    firsts = [gather_sequence(x[..., :1, :], balanced=False) for x in (k, v)]
    want = scaled_dot_product_attention(q, *firsts).output  # each key as often as any other
    assert (same - want).abs().max() < 1e-12


@case
def odd_parts_need_no_balance(rank: int, size: int) -> None:
    for causal in (False, True):
        whole = inputs(3 * size)
        ours = ringed(*whole, causal=causal, balanced=False)
        assert max(distance(ours, truth(*whole, causal), balanced=False)) < 1e-12
    # Without a mask it is all one how the sequence was cut.
    q, k, v = (shard_sequence(x, balanced=False) for x in whole[:3])
    assert torch.equal(ring_attention(q, k, v), ring_attention(q, k, v, balanced=False))
    with pytest.raises(ValueError, match="query must have an even length") as caught:
        ring_attention(q, k, v, causal=True)
    assert "got 3" in str(caught.value)
    assert "balanced=False" in str(caught.value)


@case
def nothing_gives_nothing(rank: int, size: int) -> None:
    for lead, length in (((2,), 0), ((0,), 2)):
        leaves = [uniform(*lead, h, length, 3).requires_grad_() for h in (4, 2, 2)]
        output = ring_attention(*leaves, causal=True)
        assert output.shape == (*lead, 4, length, 3)
        output.sum().backward()
        assert all(x.grad.shape == x.shape for x in leaves)
    assert gather_sequence(torch.zeros(0, 2, 3)).shape == (0, 2 * size, 3)


@case
def some_inputs_may_need_no_gradient(rank: int, size: int) -> None:
    whole = inputs(4 * size)
    right = truth(*whole, True)
    for learns in range(3):
        leaves = [shard_sequence(x).requires_grad_(number == learns) for number, x in enumerate(whole[:3])]
        ring_attention(*leaves, causal=True).backward(shard_sequence(whole[3]))
        assert (leaves[learns].grad - shard_sequence(right[1 + learns])).abs().max() < 1e-12
        assert [x.grad is None for x in leaves].count(True) == 2
    leaves = [shard_sequence(x).requires_grad_() for x in whole[:3]]
    with torch.no_grad():
        assert not ring_attention(*leaves).requires_grad
    with torch.inference_mode():
        assert (ring_attention(*leaves, causal=True) - shard_sequence(right[0])).abs().max() < 1e-12


@case
def autocast_leaves_float32_alone(rank: int, size: int) -> None:
    whole = inputs(8 * size, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        ours = ringed(*whole, causal=True)
    assert max(distance(ours, truth(*whole, True))) < 1e-6


@case
def nan_reaches_who_may_see_it(rank: int, size: int) -> None:
    """Outputs as the reference's, gradients as those of ``attend``."""
    length = 8 * size
    places = [(False, True, 0), *((True, balanced, place) for balanced in (False, True) for place in (1, length - 2))]
    for causal, balanced, place in places:
        for name in ("query", "key", "value"):
            whole = dict(zip(("query", "key", "value", "grad"), inputs(length), strict=True))
            whole[name][1, 0, place, 2] = torch.inf if place == 1 else torch.nan
            whole[name][0, 1, length // 2 - 1, 0] = torch.nan
            q, k, v, grad = whole.values()
            triangle = torch.ones(length, length).tril().bool()
            want = scaled_dot_product_attention(q, k, v, triangle if causal else None).output
            assert want.isnan().any()
            assert not want.isnan().all()
            leaves = [x.clone().requires_grad_() for x in (q, k, v)]
            attend(*leaves, causal=causal).backward(grad)
            right = (want, *(x.grad for x in leaves))
            ours = ringed(q, k, v, grad, causal=causal, balanced=balanced)
            for got, full in zip(ours, right, strict=True):
                part = shard_sequence(full, balanced=balanced)
                torch.testing.assert_close(got, part, rtol=0, atol=1e-12, equal_nan=True)


@case
def pieces_are_where_they_should_be(rank: int, size: int) -> None:
    """By hand: 12 tokens on 2 ranks in pieces of 3, 8 on 4 in pieces of 1."""
    length = {2: 12, 4: 8}[size]
    zigzag = {2: [[0, 1, 2, 9, 10, 11], [3, 4, 5, 6, 7, 8]], 4: [[0, 7], [1, 6], [2, 5], [3, 4]]}[size][rank]
    run = {2: [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]], 4: [[0, 1], [2, 3], [4, 5], [6, 7]]}[size][rank]
    positions = torch.arange(length)
    for balanced, mine in ((True, zigzag), (False, run)):
        assert shard_sequence(positions, dim=0, balanced=balanced).tolist() == mine
        for dtype in (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
                      torch.float64, torch.complex64):  # fmt: skip
            for axis in range(3):
                shape = [2, 3, 5]
                shape[axis] = length
                whole = (torch.arange(torch.Size(shape).numel()) % 7).view(shape).to(dtype)
                for dim in (axis, axis - 3):
                    part = shard_sequence(whole, dim=dim, balanced=balanced)
                    assert torch.equal(part, whole.index_select(axis, torch.tensor(mine)))
                    again = gather_sequence(
                        part.transpose(0, 2).contiguous().transpose(0, 2), dim=dim, balanced=balanced
                    )
                    assert again.dtype is dtype
                    assert torch.equal(again, whole)
    whole = torch.rand(length, 3)
    part = shard_sequence(whole, balanced=False)
    assert part.untyped_storage().nbytes() == part.numel() * 4  # a copy: the whole can be freed


@case
def gather_and_shard_have_the_gradients_of_one_process(rank: int, size: int) -> None:
    """The same loss on every rank counts once; a slice has the gradient of a slice."""
    for balanced in (True, False):
        for dim in (0, -1):
            whole, weight = uniform(4 * size, 4 * size), uniform(4 * size, 4 * size, seed=1)
            one = whole.clone().requires_grad_()
            (one.sin() * weight).sum().backward()
            assert one.grad is not None
            part = shard_sequence(whole, dim=dim, balanced=balanced).requires_grad_()
            (gather_sequence(part, dim=dim, balanced=balanced).sin() * weight).sum().backward()
            assert (part.grad - shard_sequence(one.grad, dim=dim, balanced=balanced)).abs().max() < 1e-15
            full = whole.clone().requires_grad_()
            mine = shard_sequence(weight, dim=dim, balanced=balanced)
            (shard_sequence(full, dim=dim, balanced=balanced).sin() * mine).sum().backward()
            total = full.grad.clone()
            dist.all_reduce(total)
            assert (total - one.grad).abs().max() < 1e-15  # each rank has its part, and zeros
            assert (full.grad != 0).sum() * size == full.numel()


class Parallel(nn.Module):
    """Layers of attention with residuals, on one part of the sequence; and, for comparison, on the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MultiHeadAttention(16, 4, num_kv_heads=2, rotary=Rotary(4)) for _ in range(2))

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        for layer in self.layers:
            query = layer.rotary(split_heads(layer.W_Q(x), 4), where)
            key, value = layer.keys_and_values(x)
            output = ring_attention(query, layer.rotary(key, where), value, causal=True)
            x = x + layer.W_O(merge_heads(output))
        return x

    def whole(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, causal=True)
        return x


@case
def layers_in_parallel_train_as_in_one_process(rank: int, size: int) -> None:
    """Projections, rotary positions and ring, each rank with the mean loss of its own tokens; on two, under DDP."""
    torch.manual_seed(0)
    model, length = Parallel().double(), 6 * size
    x, target = uniform(2, length, 16), uniform(2, length, 16, seed=1)
    want = model.whole(x)
    F.mse_loss(want, target).backward()
    right = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()

    where = shard_sequence(torch.arange(length), dim=0)
    parallel = DistributedDataParallel(model) if size == 2 else model  # whose first call takes seconds
    got = parallel(shard_sequence(x), where)
    assert (gather_sequence(got.detach()) - want).abs().max() < 1e-12
    F.mse_loss(got, shard_sequence(target)).backward()
    for parameter, gradient in zip(model.parameters(), right, strict=True):
        if parallel is model:
            dist.all_reduce(parameter.grad.div_(size))
        assert (parameter.grad - gradient).abs().max() < 1e-12


@case
def every_rank_has_equal_work(rank: int, size: int) -> None:
    """Pairs asked of the kernel, forward and backward: for all ranks L (L + 1) / 2 in sum, and no pair in vain."""
    counts = {"forward": 0, "backward": 0}

    def counting(name: str) -> Callable[..., Any]:
        run = getattr(tiles, name)

        def counted(call: Any, *rest: Any, **options: Any) -> Any:
            length, keys = call.lengths
            assert not call.causal or length == keys
            counts[name] += length * (length + 1) // 2 if call.causal else length * keys
            return run(call, *rest, **options)

        return counted

    length = 12 * size
    part = length // size
    everything = length * (length + 1) // 2
    expected = {
        (True, True): everything // size,
        (True, False): part * (part + 1) // 2 + rank * part**2,
        (False, True): length * part,
        (False, False): length * part,
    }
    for (causal, balanced), pairs in expected.items():
        counts.update(forward=0, backward=0)
        with pytest.MonkeyPatch.context() as patch:
            for name in counts:
                patch.setattr(tiles, name, counting(name))
            ringed(*inputs(length), causal=causal, balanced=balanced)
        assert counts == {"forward": pairs, "backward": pairs}, (causal, balanced, counts)


class Largest(TorchDispatchMode):
    """The most numbers in one tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, Tensor):
                self.numel = max(self.numel, x.numel())
        return result


@case
def no_tensor_grows_with_the_whole(rank: int, size: int) -> None:
    """The largest is one message, keys and values of one part: no part's scores, and, on 4 ranks, nothing whole."""
    part, width = 1024, 256
    q, k, v, grad = (uniform(part, width, seed=size * s + rank, dtype=torch.float32) for s in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    with Largest() as seen:
        ring_attention(*leaves, causal=True).backward(grad)
    assert seen.numel == 2 * part * width < min(part * part, 4 * part * width), seen.numel


@case
def what_is_kept_for_backward_is_local(rank: int, size: int) -> None:
    kept: list[Tensor] = []
    leaves = [shard_sequence(x).requires_grad_() for x in inputs(8 * size)[:3]]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        output = ring_attention(*leaves, causal=True)
    want = sorted(x.numel() for x in (*leaves, output, output[..., 0]))
    assert sorted(x.numel() for x in kept) == want


@case
def the_next_part_travels_while_this_one_is_computed(rank: int, size: int) -> None:
    events: list[str] = []

    def noting(word: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **options: Any) -> Any:
            events.append(word)
            return run(*args, **options)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for word, thing, name in (
            ("post", Ranks, "pass_on"),
            ("wait", Arrival, "wait"),
            ("compute", tiles, "forward"),
            ("compute", tiles, "backward"),
        ):
            patch.setattr(thing, name, noting(word, getattr(thing, name)))
        leaves = [shard_sequence(x).requires_grad_() for x in inputs(4 * size)[:3]]
        output = ring_attention(*leaves, causal=True)
        forward = ["post", "compute", "wait"] * (size - 1) + ["compute"]
        assert events == forward, events
        events.clear()
        output.sum().backward()
    # Keys leave before the work, gradients after it: those of the last step are waited for after this step's work.
    first = ["post", "compute", "post", "wait"]
    later = ["post", "compute", "wait", "post", "wait"]
    assert events == first + later * (size - 2) + ["compute", "wait", "post", "wait"], events


@case
def the_same_call_gives_the_same_bits(rank: int, size: int) -> None:
    whole = inputs(16 * size, dtype=torch.float32)
    first, second = (ringed(*whole, causal=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@case
def ranks_that_differ_are_told_so_on_every_rank(rank: int, size: int) -> None:
    odd = size - 1  # the one that does otherwise
    rest = "rank 0: " if size == 2 else "ranks 0, 1, 2: "
    q, k, v = (shard_sequence(x) for x in inputs(8 * size)[:3])
    me = rank == odd

    def refused(call: Callable[[], Any], *words: str, error: type[Exception] = ValueError) -> None:
        with pytest.raises(error) as caught:
            call()
        for word in words:
            assert word in str(caught.value), (word, str(caught.value))

    alike, who = "every rank of group must call", f"rank {odd}: "
    longer = uniform(2, 4, 12, 8)
    refused(lambda: ring_attention(*([longer] * 3 if me else [q, k, v])), alike, who, rest, "query (2, 4, 12, 8)")
    refused(
        lambda: ring_attention(*(x.float() if me else x for x in (q, k, v))), alike, "torch.float32", "torch.float64"
    )
    refused(lambda: ring_attention(q, k, v, causal=me), alike, "causal=True", "causal=False")
    refused(lambda: ring_attention(q, k, v, balanced=me), alike, "balanced=True", "balanced=False")
    refused(lambda: ring_attention(q, k, v, scale=0.5 if me else None), alike, "scale=0.5")
    learns = q.clone().requires_grad_(me)
    refused(lambda: ring_attention(learns, k, v), alike, "requires_grad=True", "requires_grad=False")
    # A rank that cannot even start: it says why, and the others hear of it.
    if me:
        refused(lambda: ring_attention(q, k, v[..., :3, :]), "key and value must have the same length S")
        refused(lambda: ring_attention(q, k, None), "value must be a torch.Tensor", error=TypeError)
        refused(lambda: ring_attention(q[..., :3, :], k, v), "query and key must have the same length", "got 3 and 8")
    else:
        refused(lambda: ring_attention(q, k, v), alike, who, "refused: key and value must have the same length S")
        refused(lambda: ring_attention(q, k, v), alike, who, "refused: value must be a torch.Tensor")
        refused(lambda: ring_attention(q, k, v), alike, who, "refused: query and key must have the same length")
    refused(lambda: gather_sequence(q[..., : 4 if me else 2, :]), alike, "gather_sequence", "(2, 4, 4, 8)")
    refused(lambda: gather_sequence(q.long() if me else q), alike, "torch.int64")
    refused(lambda: gather_sequence(q, dim=-1 if me else -2), alike, "dim 3", "dim 2")
    refused(lambda: gather_sequence(q) if me else ring_attention(q, k, v), alike, "gather_sequence", "ring_attention")
    # What is wrong in the same way everywhere.
    refused(lambda: shard_sequence(torch.zeros(2 * size + 1, 3)), f"that {2 * size} divides", f"got {2 * size + 1}")
    refused(lambda: shard_sequence(torch.zeros(size + 1, 3), balanced=False), f"that {size} divides", f"got {size + 1}")
    refused(lambda: gather_sequence(torch.zeros(3, 2)), "x must have an even length in dim -2", "got 3")
    refused(lambda: ring_attention(q.to("meta"), k.to("meta"), v.to("meta")), "group must have a backend", "meta")
    # And the group is as good as before.
    assert torch.equal(gather_sequence(shard_sequence(torch.arange(2 * size), dim=0), dim=0), torch.arange(2 * size))


@only(4)
def a_group_within_the_group_works_alone(rank: int, size: int) -> None:
    """Two rings at once, whose ranks are not those of the world."""
    groups = [dist.new_group([3, 1], timeout=TIMEOUT), dist.new_group([0, 2], timeout=TIMEOUT)]
    mine, other = (groups[rank % 2 == 0], groups[rank % 2 == 1])
    whole = tuple(x * (1 + rank % 2) for x in inputs(12))
    for causal, balanced in WAYS:
        ours = ringed(*whole, causal=causal, balanced=balanced, group=mine)
        assert max(distance(ours, truth(*whole, causal), balanced=balanced, group=mine)) < 1e-12
    assert torch.equal(gather_sequence(shard_sequence(whole[0], group=mine), group=mine), whole[0])
    for call in (shard_sequence, gather_sequence):
        with pytest.raises(ValueError, match="group must have this process as a member"):
            call(whole[0], group=other)
    with pytest.raises(ValueError, match="group must have this process as a member"):
        ring_attention(*whole[:3], group=other)


@only(2)
def a_rank_that_stays_away_is_waited_for_no_longer_than_the_timeout(rank: int, size: int) -> None:
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    if rank == 0:
        start = time.monotonic()
        with pytest.raises(RuntimeError, match=r"(?i)timed? ?out"):
            ring_attention(*(shard_sequence(x) for x in inputs(8)[:3]), group=group)
        assert time.monotonic() - start < 20
    dist.barrier()


@only(2)
def a_rank_that_dies_is_an_error_for_the_others(rank: int, size: int) -> None:
    """Between forward and backward; this is the last case of all."""
    leaves = [shard_sequence(x).requires_grad_() for x in inputs(8)[:3]]
    output = ring_attention(*leaves, causal=True)
    if rank == 1:
        return  # and this process exits
    start = time.monotonic()
    with pytest.raises(RuntimeError):
        output.sum().backward()
    assert time.monotonic() - start < TIMEOUT.total_seconds()


def main(rank: int, size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    with (folder / f"{rank}.jsonl").open("w") as answers:
        for name in names(size):
            start = time.monotonic()
            try:
                CASES[name](rank, size)
                why = None
            except BaseException:
                why = traceback.format_exc()
            line = {"case": name, "why": why, "seconds": round(time.monotonic() - start, 2)}
            print(json.dumps(line), file=answers, flush=True)
    os._exit(0)  # a partner may be dead: there is nothing to take leave of


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
