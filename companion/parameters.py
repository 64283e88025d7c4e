"""Another library's parameters, carried over to our names one by one, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor, nn

__all__: list[str] = []

Model = TypeVar("Model", bound=nn.Module)


class Parameters:
    """What is left of theirs, and what has become of ours.

    Args:
        parameters: a state dict, or what a file of weights holds; not changed.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.left = dict(parameters)
        self.ours: dict[str, Tensor] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.left

    def take(self, name: str) -> Tensor:
        """A parameter that must be there."""
        if name not in self.left:
            raise ValueError(f"model has no parameter {name}, as the library's own has")
        return self.left.pop(name)

    def drop(self, *names: str) -> None:
        """What is the same as another, or not carried over."""
        for name in names:
            self.left.pop(name, None)

    def carry(self, names: Mapping[str, str], ours: str = "", theirs: str = "") -> None:
        """Take weights and biases by a table of names."""
        for mine, his in names.items():
            for part in ("weight", "bias"):
                if f"{theirs}{his}.{part}" in self:
                    self.ours[f"{ours}{mine}.{part}"] = self.take(f"{theirs}{his}.{part}")

    def fill(self, model: Model) -> Model:
        """Copy all that was taken into our model; nothing may be left over or missing."""
        if self.left:
            raise ValueError(f"model has parameters that the library's own has not: {', '.join(self.left)}")
        dtypes = {parameter.dtype for parameter in self.ours.values()}
        if len(dtypes) > 1 or not dtypes.pop().is_floating_point:
            found = sorted({str(parameter.dtype) for parameter in self.ours.values()})
            raise ValueError(f"model must have parameters of one floating-point dtype, got {', '.join(found)}")
        first = next(iter(self.ours.values()))
        model.to(device=first.device, dtype=first.dtype)
        try:
            model.load_state_dict(self.ours)
        except RuntimeError as error:
            raise ValueError(f"model has parameters that do not fit its config: {error}") from None
        return model
