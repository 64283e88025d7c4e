"""Where a figure's still picture is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matplotlib.figure

__all__: list[str] = []


def canvas(columns: int = 1, size: tuple[float, float] = (6.0, 4.0)) -> tuple[matplotlib.figure.Figure, Any]:
    """A figure in the book's style that pyplot does not know of, and its axes: one, or an array of several."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(fname=str(Path(__file__).parents[1] / "attention.mplstyle")):
        picture = Figure(figsize=size, layout="constrained")
        axes = picture.subplots(1, columns)
    return picture, axes
