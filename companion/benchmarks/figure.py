"""The lines behind the exponents: time and memory against length, and a token's time against its position."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from companion.benchmarks.report import digits
from companion.benchmarks.results import Results, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__: list[str] = []

_LOOKS = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "v"))
_WIDTH, _HEIGHT = 3.9, 3.2  # inches; as narrow as a phone, on which the letters then keep their size


class Panel(NamedTuple):
    """One of the figure's, and which rows' lines it shows."""

    shows: Callable[[Row], bool]
    xlabel: str
    ylabel: str
    unit: float


PANELS = (
    Panel(lambda row: row.case == "window" and row.what.startswith("forward, "), "length", "seconds, forward", 1.0),
    Panel(
        lambda row: row.case == "memory" and "backward" in row.what,
        "length",
        "peak memory, MiB",
        2.0**20,
    ),
    Panel(lambda row: row.case == "decoding", "position of the token", "milliseconds a token", 1e-3),
)


def lines(results: Results, panel: Panel) -> dict[str, list[tuple[float, float]]]:
    """What a panel draws: points by name."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in results.rows:
        if row.series and panel.shows(row):
            found |= {name: [(x, y / panel.unit) for x, y in points] for name, points in row.series.items()}
    return found


def draw(results: Results, file: Path) -> bool:
    """Save the figure; False, and no file, where the results have no lines to draw."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from companion import plots

    shown = [(panel, found) for panel in PANELS if (found := lines(results, panel))]
    if not shown:
        return False
    with rc_context():
        plots.use_style()
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(shown)))
        FigureCanvasAgg(figure)
        for i, (panel, found) in enumerate(shown):
            _draw_panel(figure.add_subplot(len(shown), 1, i + 1), panel, found)
        figure.savefig(file, metadata={"Software": None} if file.suffix == ".png" else None)
    return True


def _draw_panel(ax: Axes, panel: Panel, found: dict[str, list[tuple[float, float]]]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    for (name, points), (dash, marker) in zip(found.items(), _LOOKS * len(found), strict=False):
        ax.plot(*zip(*points, strict=True), dash, marker=marker, markersize=4, label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ticks = sorted({x for points in found.values() for x, _ in points})
    ax.set_xticks(ticks, [f"{x:,.0f}" for x in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}" if y >= 100 else f"{y:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(panel.xlabel)
    ax.set_ylabel(panel.ylabel)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.11 * len(found)), ncols=1)
    for points in found.values():
        x, y = points[-1]
        ax.annotate(digits(y), (x, y), textcoords="offset points", xytext=(6, -3), fontsize=9)
