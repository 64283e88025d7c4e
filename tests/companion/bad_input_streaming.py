"""Bad input for online softmax, for the merging of partial results, and for attention by chunks."""

from collections.abc import Iterator
from functools import partial

import torch

from companion import masks, online, streaming
from tests.companion.bad_input import (
    Row,
    device_rows,
    flag_rows,
    float_rows,
    integer_rows,
    wrong_kind,
    wrong_value,
)

MODULES = (online, streaming)
Q, K, V = torch.rand(2, 4, 3, 8), torch.rand(2, 2, 5, 8), torch.rand(2, 2, 5, 6)
META = partial(torch.empty, device="meta")


def from_online() -> Iterator[Row]:
    yield from float_rows(online.online_softmax, "x", 1)
    softmax = partial(online.online_softmax, torch.ones(2, 3))
    yield from integer_rows(softmax, "dim", -3)
    yield wrong_value(softmax, 2, says=("dim must be an axis of x", "(2, 3)", "got 2"))
    yield from integer_rows(softmax, "chunk_size", 0, -1)
    yield wrong_kind(online.OnlineSoftmax, torch.zeros(2), says=("total", "output"))
    start = partial(online.OnlineSoftmax.start, rows=(2, 3), width=4)
    for bad, kind in (("23", "str"), (2, "int"), (None, "NoneType"), (torch.ones(2), "Tensor")):
        yield wrong_kind(start, rows=bad, says=("rows must be a tuple or list of ints", kind))
    yield wrong_kind(start, rows=(2.0,), says=("rows must be an int", "float"))
    yield wrong_value(start, rows=[2, -1], says=("rows must be at least 0", "-1"))
    yield from integer_rows(start, "width", -1)
    for bad in (torch.float16, torch.int64, "float32", None):
        yield wrong_kind(start, dtype=bad, says=("dtype must be torch.float32 or torch.float64", str(bad)))
    yield from device_rows(start)
    update = partial(start().update, scores=torch.ones(2, 3, 5), values=torch.ones(2, 5, 4))
    for name, x in (("scores", torch.ones(2, 3, 5)), ("values", torch.ones(2, 5, 4))):
        for bad, kind in ((None, "NoneType"), ([1.0], "list")):
            yield wrong_kind(update, **{name: bad}, says=(f"{name} must be a torch.Tensor", kind))
        yield wrong_kind(update, **{name: x.long()}, says=(f"{name} must be float16", "torch.int64"))
        yield wrong_value(update, **{name: x.to("meta")}, says=("must be on one device", "meta"))
    for shape in ((2, 4, 5), (3, 5), (1, 2, 3, 5), (5,), (2, 3), (1, 3, 5)):
        yield wrong_value(update, scores=torch.ones(shape), says=("scores must have shape (2, 3, 'S')", f"got {shape}"))
    for shape in ((2, 4, 4), (2, 5, 3), (3, 5, 4), (5,), (1, 2, 5, 4)):
        yield wrong_value(update, values=torch.ones(shape), says=("values must have shape (2, 5, 4)", f"got {shape}"))
    merge, pair = online.merge_partials, (torch.ones(2, 3, 4), torch.ones(2, 3))
    for bad, kind in ((None, "NoneType"), (pair[0], "Tensor"), ("text", "str"), ({1: pair}, "dict")):
        yield wrong_kind(merge, bad, says=("partials must be a sequence of pairs (output, logsumexp)", kind))
    for empty in ([], ()):
        yield wrong_value(merge, empty, says=("partials must hold at least one pair", "none"))
    for bad, kind in ((pair[0], "Tensor"), (None, "NoneType"), ((*pair, 1), "3 of them"), (pair[:1], "1 of them")):
        yield wrong_kind(merge, [pair, bad], says=("partials must hold pairs (output, logsumexp)", kind))
    yield wrong_kind(merge, pair, says=("partials must hold pairs (output, logsumexp)", "Tensor"))
    yield wrong_kind(merge, [pair, (None, pair[1])], says=("output must be a torch.Tensor", "NoneType"))
    yield wrong_kind(merge, [(pair[0], 0.0)], says=("logsumexp must be a torch.Tensor", "float"))
    yield wrong_kind(merge, [(pair[0].long(), pair[1])], says=("output must be float16", "torch.int64"))
    yield wrong_kind(merge, [(pair[0], pair[1].long())], says=("logsumexp must be float16", "torch.int64"))
    yield wrong_kind(merge, [pair, (pair[0].double(), pair[1])], says=("must have one dtype", "torch.float64"))
    yield wrong_value(merge, [pair, (META(2, 3, 4), pair[1])], says=("must be on one device", "meta"))
    yield wrong_value(merge, [pair, (pair[0], META(2, 3))], says=("must be on one device", "meta"))
    yield wrong_value(merge, [(torch.ones(3), torch.ones(()))], says=("output must have at least 2 dims", "(3,)"))
    for shape in ((2, 3, 5), (1, 3, 4), (3, 4)):
        other = torch.ones(shape), torch.ones(shape[:-1])
        yield wrong_value(merge, [pair, other], says=("outputs of one shape", "(2, 3, 4)", str(shape)))
    for shape in ((2, 3, 1), (3,), (2, 3, 4), (1, 3)):
        bad = (pair[0], torch.ones(shape))
        yield wrong_value(merge, [bad], says=("logsumexp must have shape (2, 3)", f"got {shape}"))


def from_streaming() -> Iterator[Row]:
    from tests.companion.test_bad_input import attention_rows  # which imports this file

    chunked, window = streaming.chunked_attention, partial(streaming.sliding_window_attention, window=2)
    for each in attention_rows(chunked):
        if "dropout_p" not in each.options:
            yield each
    for each in attention_rows(window, wraps_mask=False):
        yield each
    call = partial(chunked, Q, K, V)
    yield from flag_rows(call, "causal")
    yield from flag_rows(call, "return_logsumexp")
    yield from integer_rows(call, "query_chunk", 0, -1, none=False)
    yield from integer_rows(call, "key_chunk", 0, -1, none=False)
    near = partial(streaming.sliding_window_attention, Q, K, V)
    yield from integer_rows(near, "window", 0, -1)
    yield from flag_rows(partial(near, 2), "causal")
    yield wrong_kind(near, 2, scale="1", says=("scale must be a real number", "str"))
    yield wrong_kind(near, masks.causal(), says=("window must be an int", "Mask"))


def rows() -> Iterator[Row]:
    yield from from_online()
    yield from from_streaming()
