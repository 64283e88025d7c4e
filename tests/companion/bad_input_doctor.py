"""Bad input for the doctor."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from companion import clinic, doctor
from companion.clinic import adapter, report
from companion.diagnostics import doctor as examine
from tests.companion.bad_input import Row, flag_rows, integer_rows, number_rows, wrong_kind, wrong_value

MODULES = (clinic, adapter, report, doctor)
GOOD = nn.Identity()


def rows() -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (torch.ones(2), "Tensor"), ("attend", "str"), (3, "int")):
        yield wrong_kind(examine, bad, d_model=16, says=("module must be a module or a function", kind))
    yield wrong_kind(examine, nn.Identity, d_model=16, says=("module must be a module or a function", "class Identity"))
    yield from integer_rows(partial(examine, GOOD), "d_model", 0, -4)
    call = partial(examine, GOOD, d_model=16)
    yield from integer_rows(call, "num_heads", 0, -1, none=False)
    yield wrong_value(examine, len, d_model=16, num_heads=3, says=("d_model=16 must be a multiple of num_heads=3",))
    for name in ("causal", "cross", "positions"):
        for bad, kind in ((1, "int"), ("yes", "str")):
            yield wrong_kind(call, **{name: bad}, says=(f"{name} must be True or False", kind))
    yield from flag_rows(call, "fresh")
    for bad, kind in (({"mask": "mask"}, "dict"), ("mask", "str")):
        yield wrong_kind(call, adapter=bad, says=("adapter must be an Adapter", kind))
    for name in ("mask", "causal"):
        says = (f"{name} must be an argument of the module, which has input", "'nothing'")
        yield wrong_value(call, adapter=adapter.Adapter(**{name: "nothing"}), says=says)
    yield from integer_rows(call, "length", 3, -1, none=False)
    yield from integer_rows(call, "seed", -1)
    yield wrong_value(call, seed=2**63, says=("seed must be less than 2**63", str(2**63)))
    yield from number_rows(call, "time_limit", (0, -1.0))
    for name in ("call", "output", "cached"):
        yield wrong_kind(adapter.Adapter, **{name: "mask"}, says=(f"{name} must be callable", "str"))
    for name in ("inputs", "mask_true", "mask_shape"):
        yield wrong_kind(adapter.Adapter, **{name: True}, says=(f"{name} must be a str", "bool"))
        yield wrong_value(adapter.Adapter, **{name: "any"}, says=(f"{name} must be one of", "'any'"))
    for name in ("mask", "causal"):
        yield wrong_kind(adapter.Adapter, **{name: 3}, says=(f"{name} must be a str", "int"))
    yield wrong_kind(adapter.Adapter, batch_first=1, says=("batch_first must be True or False", "int"))
    yield wrong_kind(doctor.main, 3, says=("arguments must be a list of strings", "int"))
    yield wrong_kind(doctor.main, "companion:attend", says=("arguments must be a list of strings", "str"))
