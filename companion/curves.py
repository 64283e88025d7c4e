"""Lines over steps: how a loss came down, one run beside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from companion import check
from companion.axes import given_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves"]

_DASHES = ("-", "--", "-.", ":")


def curves(
    lines: Mapping[str, Sequence[float] | Tensor],
    steps: Sequence[int] | None = None,
    *,
    xlabel: str = "step",
    ylabel: str = "loss",
    smooth: int = 1,
    log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw named lines over the same steps; each has a dash of its own too, for eyes that cannot tell the colours.

    Args:
        lines: the values of each, by its name in the legend; ``(n,)``.
        steps: where the values stand; 1, 2, 3, … if not given.
        xlabel: what the steps are.
        ylabel: what the values are.
        smooth: draw the mean of so many values up to each.
        log: a logarithmic scale of the values.
        ax: where to draw; a new figure if not given.

    Returns:
        The axes.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: no lines, no values, or not as many as steps.
    """
    if not isinstance(lines, Mapping):
        raise TypeError(f"lines must be a dict of values by name, got {type(lines).__name__}")
    if not lines:
        raise ValueError("lines must be at least one, got none")
    window = check.integer("smooth", smooth)
    check.flag("log", log)
    values = {name: _numbers(f"lines[{name!r}]", line) for name, line in lines.items()}
    where = None if steps is None else _numbers("steps", steps)
    for name, line in values.items():
        if where is not None and len(where) != len(line):
            raise ValueError(f"lines[{name!r}] must have a value for each of {len(where)} steps, got {len(line)}")
    ax = given_or_new(ax)
    for name, line in values.items():
        dash = _DASHES[len(ax.lines) % len(_DASHES)]
        ax.plot(range(1, len(line) + 1) if where is None else where, running_mean(line, window), dash, label=str(name))
    if log:
        ax.set_yscale("log")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.legend()
    return ax


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and the ``window - 1`` before it, as far as there are any."""
    recent = (values[max(0, i - window) : i] for i in range(1, len(values) + 1))
    return [sum(some) / len(some) for some in recent]


def _numbers(name: str, x: object) -> list[float]:
    if isinstance(x, Tensor):
        if x.dim() != 1:
            raise ValueError(f"{name} must have shape (n,), got {check.shape(x)}")
        x = x.tolist()
    if isinstance(x, str) or not isinstance(x, Sequence):
        raise TypeError(f"{name} must be a list of numbers, got {type(x).__name__}")
    if not len(x):
        raise ValueError(f"{name} must have a value, got none")
    for number in x:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise TypeError(f"{name} must be numbers, got {type(number).__name__} ({number!r:.40})")
    return [float(number) for number in x]
