"""Bad input for the Triton kernels: errors come before any kernel is needed, so that none has to run."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from companion.kernels import flash
from tests.companion.bad_input import YES, Row, flag_rows, integer_rows, number_rows, wrong_kind, wrong_value

MODULES = (flash,)
Q, K, V = torch.rand(2, 4, 3, 8), torch.rand(2, 2, 5, 8), torch.rand(2, 2, 5, 6)


def rows() -> Iterator[Row]:
    call = flash.flash_attention
    good = {"query": Q, "key": K, "value": V}
    for name, x in good.items():
        for bad, kind in ((None, "NoneType"), ([[1.0]], "list"), (np.ones((2, 2)), "ndarray"), (1.0, "float")):
            yield wrong_kind(call, **(good | {name: bad}), says=(f"{name} must be a torch.Tensor", f"got {kind}"))
        for dtype in (torch.int64, torch.bool, torch.complex64):
            yield wrong_kind(call, **(good | {name: x.to(dtype)}), says=(f"{name} must be float16", f"got {dtype}"))
        yield wrong_kind(call, **(good | {name: x.half()}), says=("must have one dtype", "torch.float16"))
        yield wrong_value(call, **(good | {name: x.to("meta")}), says=("must be on one device", "meta", "cpu"))
        yield wrong_value(call, **(good | {name: torch.rand(3)}), says=(f"{name} must have at least 2 dims", "(3,)"))
        yield wrong_value(call, **(good | {name: x[0]}), says=("same number of dims", str(tuple(x[0].shape))))
    yield wrong_value(call, Q, K[..., :4], V, says=("query and key must have the same width D", "8 and 4"))
    yield wrong_value(call, Q, K[:, :, :4], V, says=("key and value must have the same length S", "4 and 5"))
    yield wrong_value(call, Q, K, V[:, :1], says=("key and value must have the same leading dims", "(2, 1, 5, 6)"))
    yield wrong_value(call, Q[:1], K, V, says=("query and key must have the same batch dims", "(1, 4, 3, 8)"))
    yield wrong_value(call, Q[:, :3], K, V, says=("query has 3 heads and key has 2", "(2, 3, 3, 8)"))
    served = partial(call, Q, K, V)
    yield from flag_rows(served, "causal")
    yield from flag_rows(served, "return_logsumexp")
    yield from integer_rows(served, "window", 0, -2, none=False)
    yield from number_rows(served, "scale", ())
    for bad, kind in ((3, "int"), ("3", "str"), (np.ones(2, int), "ndarray"), ({1: 2}, "dict")):
        yield wrong_kind(served, lengths=bad, says=("lengths must be a tensor or a sequence of ints", kind))
    for bad, kind in (([1.5, 2.0], "torch.float32"), (YES[:2], "torch.bool")):
        yield wrong_kind(served, lengths=bad, says=("lengths must be integers (B,)", kind))
    yield wrong_value(served, lengths=[2, -1], says=("lengths must not be negative", "[2, -1]"))
    yield wrong_value(served, lengths=[1, 2, 3], says=("3 lengths", "batch of 2"))
    yield wrong_value(served, lengths=[1, 6], says=("a length of 6", "5 keys"))
    yield wrong_value(
        served, lengths=torch.ones(2, 1, dtype=torch.long), says=("lengths must have shape (B,)", "(2, 1)")
    )
    cannot = "flash_attention cannot serve this call"
    yield wrong_value(call, Q.double(), K.double(), V.double(), says=(cannot,))
    yield wrong_value(call, *(x.to("meta") for x in (Q, K, V)), says=(cannot, "not on meta"))
