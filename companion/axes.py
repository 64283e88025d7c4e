"""Where a figure is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__: list[str] = []


def given_or_new(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The axes given, or those of a new figure; refuse what is neither.

    Args:
        ax: what the caller was given.
        size: of the new figure, in inches; matplotlib's own if not given.
    """
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.subplots(figsize=size)[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes, got {type(ax).__name__}")
    return ax
