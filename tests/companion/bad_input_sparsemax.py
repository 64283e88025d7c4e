"""Bad input for sparsemax."""

from collections.abc import Iterator
from functools import partial

import torch

from companion import sparsemax
from tests.companion.bad_input import Row, float_rows, integer_rows, wrong_value

MODULES = (sparsemax,)


def rows() -> Iterator[Row]:
    yield from float_rows(sparsemax.sparsemax, "x", 1)
    yield from integer_rows(partial(sparsemax.sparsemax, torch.ones(2, 3)), "dim", -3)
    yield wrong_value(sparsemax.sparsemax, torch.ones(2, 3), 2, says=("dim must be an axis of x", "(2, 3)", "got 2"))
