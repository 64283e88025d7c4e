"""Bad input for ring attention: no rank is asked before a call's own arguments are looked at."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from companion import distributed
from tests.companion.bad_input import Row, flag_rows, integer_rows, number_rows, wrong_kind, wrong_value

MODULES = (distributed,)
Q, K, V = torch.rand(2, 4, 6, 8), torch.rand(2, 2, 6, 8), torch.rand(2, 2, 6, 5)
X = torch.zeros(4, 2)


def group_rows(function: Callable[..., Any]) -> Iterator[Row]:
    """No group at all, and no group."""
    yield wrong_value(function, says=("group is not there yet", "init_process_group()", "torchrun"))
    for bad, kind in ((0, "int"), ("gloo", "str"), ([0, 1], "list")):
        yield wrong_kind(function, group=bad, says=("group must be a torch.distributed.ProcessGroup", kind))
    outside = torch.distributed.GroupMember.NON_GROUP_MEMBER
    yield wrong_value(function, group=outside, says="group must have this process as a member")


def sequence_rows(function: Callable[..., Any]) -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), ([1, 2], "list"), (1.0, "float")):
        yield wrong_kind(function, bad, says=("x must be a torch.Tensor", kind))
    yield wrong_kind(function, torch.eye(3).to_sparse(), says=("x must be a dense tensor", "sparse"))
    yield wrong_value(function, torch.tensor(1), says=("x must have at least 1 dim", "()"))
    yield from integer_rows(partial(function, X), "dim", -3)
    yield wrong_value(function, X, dim=2, says=("dim must be an axis of x", "(4, 2)", "got 2"))
    yield wrong_value(function, torch.zeros(4), says=("dim must be at least -1", "got -2"))
    yield from flag_rows(partial(function, X), "balanced")
    yield from group_rows(partial(function, X))


def from_distributed() -> Iterator[Row]:
    yield from sequence_rows(distributed.shard_sequence)
    yield from sequence_rows(distributed.gather_sequence)
    ring = distributed.ring_attention
    good = {"query": Q, "key": K, "value": V}
    for name, x in good.items():
        for bad, kind in ((None, "NoneType"), ([[1.0]], "list"), (1.0, "float")):
            yield wrong_kind(ring, **(good | {name: bad}), says=(f"{name} must be a torch.Tensor", kind))
        yield wrong_kind(ring, **(good | {name: x.long()}), says=(f"{name} must be float16", "torch.int64"))
        yield wrong_kind(ring, **(good | {name: x.double()}), says=("must have one dtype", "torch.float64"))
        yield wrong_value(ring, **(good | {name: x.to("meta")}), says=("must be on one device", "meta"))
        yield wrong_value(ring, **(good | {name: x[0]}), says=("same number of dims", str(tuple(x[0].shape))))
    yield wrong_value(ring, Q[:, :3], K, V, says=("query has 3 heads and key has 2",))
    yield wrong_value(ring, Q, K[..., :4], V, says=("query and key must have the same width D", "8 and 4"))
    yield wrong_value(ring, Q, K, V[:, :, :4], says=("key and value must have the same length S", "6 and 4"))
    for short in (1, 4):
        words = ("query and key must have the same length", "self-attention", f"got {short} and 6")
        yield wrong_value(ring, Q[:, :, :short], K, V, says=words)
    yield from number_rows(partial(ring, Q, K, V), "scale", ())
    yield from flag_rows(partial(ring, Q, K, V), "causal")
    yield from flag_rows(partial(ring, Q, K, V), "balanced")
    yield from group_rows(partial(ring, Q, K, V))


def rows() -> Iterator[Row]:
    yield from from_distributed()
