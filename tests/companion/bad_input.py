"""Rows of the table of bad input, and what the areas' files (``bad_input_*.py``) build theirs with.

An area's file has ``MODULES``, whose functions' every argument must have a row, and ``rows()``, which yields them.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

YES = torch.ones(3, 5, dtype=torch.bool)


class Row(NamedTuple):
    """A call that must fail, as which exception, and what the message must say, in any order."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    error: type[Exception]
    words: tuple[str, ...]


def row(
    function: Callable[..., Any], *arguments: Any, error: type[Exception], says: str | tuple[str, ...], **options: Any
) -> Row:
    return Row(function, arguments, options, error, (says,) if isinstance(says, str) else says)


wrong_kind = partial(row, error=TypeError)
wrong_value = partial(row, error=ValueError)


def number_rows(function: Callable[..., Any], name: str, refused: tuple[float, ...]) -> Iterator[Row]:
    for bad in (math.nan, math.inf, -math.inf, 10**400, *refused):
        yield wrong_value(function, **{name: bad}, says=f"{name} must be")
    for bad, kind in (("1", "str"), (True, "bool"), (torch.tensor(1.0), "Tensor"), ([1.0], "list"), (1j, "complex")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a real number", f"got {kind}"))


def integer_rows(function: Callable[..., Any], name: str, *refused: int, none: bool = True) -> Iterator[Row]:
    for bad, kind in (
        ("1", "str"),
        (True, "bool"),
        (1.0, "float"),
        (torch.tensor(1), "Tensor"),
        *([(None, "NoneType")] if none else []),
    ):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be an int", f"got {kind}"))
    for bad in refused:
        yield wrong_value(function, **{name: bad}, says=(f"{name} must be at least", f"got {bad}"))


def float_rows(function: Callable[..., Any], name: str, rank: int) -> Iterator[Row]:
    """One floating-point tensor of at least so many dims."""
    for bad, kind in ((None, "NoneType"), ([1.0], "list"), (np.ones(3), "ndarray"), (1.0, "float")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be a torch.Tensor", f"got {kind}"))
    for dtype in (torch.int64, torch.bool, torch.complex64):
        yield wrong_kind(
            function, **{name: torch.ones(2, 4, 4).to(dtype)}, says=(f"{name} must be float16", f"got {dtype}")
        )
    yield wrong_kind(function, **{name: torch.eye(3).to_sparse()}, says=(f"{name} must be a dense tensor", "sparse"))
    if rank:
        shape = (4,) * (rank - 1)
        yield wrong_value(function, **{name: torch.ones(shape)}, says=(name, f"got shape {shape}"))


def flag_rows(function: Callable[..., Any], name: str) -> Iterator[Row]:
    for bad, kind in ((1, "int"), (None, "NoneType"), ("yes", "str"), (YES, "Tensor")):
        yield wrong_kind(function, **{name: bad}, says=(f"{name} must be True or False", f"got {kind}"))


def device_rows(function: Callable[..., Any]) -> Iterator[Row]:
    yield wrong_value(function, device="gpu", says=("device must name a device", "'gpu'"))
    yield wrong_kind(function, device=3.5, says=("device must be a torch.device or a str", "float"))
