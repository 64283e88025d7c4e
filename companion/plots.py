"""The book's figures: one colour a role, zero looks empty, and small tables print their numbers.

Every function takes tensors, draws on ``ax`` or on a new figure, and returns the axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from companion import check
from companion.axes import given_or_new
from companion.curves import curves
from companion.masks import Mask
from companion.typing import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "curves", "heatmap", "mask", "scores_histogram", "use_style"]

COLORS = {
    "query": "#0072B2",
    "key": "#E69F00",
    "value": "#009E73",
    "weight": "#CC79A7",
    "output": "#D55E00",
    "masked": "#999999",
}
"""Okabe and Ito's palette, safe for colour-blind readers: the same thing always has the same colour."""

_NUMBERS_UP_TO = 12
_WEIGHT_RAMP = ("#ffffff", COLORS["weight"], "#571a40")  # from the background upward, each step darker


def use_style() -> None:
    """Draw as the book does, until matplotlib's style is set anew."""
    import matplotlib.pyplot as plt

    plt.style.use(Path(__file__).with_name("attention.mplstyle"))


def heatmap(
    table: Float[Tensor, "L S"],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    signed: bool = False,
    limit: float | None = None,
    digits: int = 2,
    numbers: bool | None = None,
    masked: Bool[Tensor, "L S"] | None = None,
    xlabel: str = "key",
    ylabel: str = "query",
    colorbar: bool | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a table of weights or scores, queries down and keys across.

    Args:
        table: ``(L, S)``; take one batch entry and one head first.
        rows: names of the queries.
        columns: names of the keys.
        signed: the table has a meaningful sign: use two colours, white at zero. Otherwise white is zero and the
            table must not be negative.
        limit: the value of the strongest colour: 1 for weights, the largest magnitude for signed tables.
        digits: decimals of the printed numbers.
        numbers: print them; by default in tables of up to 12 x 12.
        masked: ``True`` where a pair may *not* attend: hatched grey, no number. The inverse of a mask's table, so
            pass ``~mask``.
        xlabel: what the columns are.
        ylabel: what the rows are.
        colorbar: draw a scale beside it; by default where no numbers are printed.
        ax: where to draw; a new figure if not given.

    Returns:
        The axes.

    Raises:
        TypeError: ``table`` is no floating-point tensor, ``masked`` no boolean one, or another argument of a wrong
            kind.
        ValueError: ``table`` is not ``(L, S)``, names do not fit it, or it is negative and not ``signed``.
    """
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    check.floating("table", table)
    _two_dims("table", table)
    check.flag("signed", signed)
    check.integer("digits", digits, minimum=0)
    for name, choice in (("numbers", numbers), ("colorbar", colorbar)):
        if choice is not None:
            check.flag(name, choice)
    hidden = torch.zeros(table.shape, dtype=torch.bool) if masked is None else _boolean("masked", masked, table).cpu()
    values = table.detach().float().cpu().masked_fill(hidden, torch.nan)
    shown = values[~hidden]
    if not signed and shown.numel() and bool((shown < 0).any()):
        raise ValueError(f"table must not be negative unless signed=True, its smallest entry is {float(shown.min()):g}")
    if limit is None:
        limit = max(float(shown.abs().nan_to_num(0, 0, 0).max()), 1e-12) if signed and shown.numel() else 1.0
    else:
        limit = check.positive("limit", limit)
    length, keys = table.shape
    small = max(length, keys) <= _NUMBERS_UP_TO
    printed = small if numbers is None else numbers
    ax = _axes(ax, length, keys)
    colors = matplotlib.colormaps["BrBG"] if signed else LinearSegmentedColormap.from_list("weights", _WEIGHT_RAMP)
    image = ax.imshow(values, cmap=colors, vmin=-limit if signed else 0.0, vmax=limit)
    _hatch(ax, hidden)
    if printed:
        cells = image.to_rgba(values.numpy())
        paper = _over(to_rgba(ax.get_facecolor()), _over(to_rgba(ax.figure.get_facecolor()), (1.0, 1.0, 1.0)))
        for i, j in (~hidden).nonzero().tolist():
            ink = _ink(_over(cells[i, j].tolist(), paper))
            ax.text(j, i, _number(float(values[i, j]), digits), ha="center", va="center", color=ink, fontsize=10)
    if small:
        _grid(ax, length, keys)
    _name_axes(ax, rows, columns, length, keys, xlabel, ylabel)
    if colorbar or (colorbar is None and not printed):
        ax.figure.colorbar(image, ax=ax, shrink=0.85)
    return ax


def mask(
    rule: Mask | Bool[Tensor, "L S"],
    tokens: Sequence[str] | int | None = None,
    *,
    keys: Sequence[str] | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw who may look at whom: filled where a query may attend, hatched grey where it may not.

    Args:
        rule: a ``Mask``, drawn for the first batch entry and head, or a table ``(L, S)``, ``True`` = may attend.
        tokens: names of the queries, or how many; a table brings its own size.
        keys: names of the keys, or how many; the queries again if not given.
        ax: where to draw; a new figure if not given.

    Returns:
        The axes.

    Raises:
        TypeError: ``rule`` is neither a ``Mask`` nor a boolean tensor, or it is a ``Mask`` and no tokens are given.
        ValueError: names do not fit the table.
    """
    from matplotlib.colors import ListedColormap

    if isinstance(rule, Mask):
        if tokens is None:
            raise TypeError("tokens must be given with a Mask: names, or how many there are")
        length = _count("tokens", tokens)
        across = length if keys is None else _count("keys", keys)
        allowed = rule.dense(1 if rule.batch is None else rule.batch, 1, length, across)[0, 0]
    else:
        allowed = check.tensor("rule", rule)
        if allowed.dtype is not torch.bool:
            raise TypeError(f"rule must be a Mask or a boolean tensor, got {allowed.dtype}")
        _two_dims("rule", allowed)
        allowed = allowed.cpu()
    length, across = allowed.shape
    for name, given, size in (("tokens", tokens, length), ("keys", keys, across)):
        if given is not None and _count(name, given) != size:
            raise ValueError(f"{name} must be {size} in number, to fit the table, got {_count(name, given)}")
    names = None if tokens is None or isinstance(tokens, int) else tokens
    across_names = (names if length == across else None) if keys is None else None if isinstance(keys, int) else keys
    ax = _axes(ax, length, across)
    ax.imshow(allowed.float(), cmap=ListedColormap(["white", COLORS["weight"]]), vmin=0, vmax=1)
    _hatch(ax, ~allowed)
    if max(length, across) <= _NUMBERS_UP_TO:
        _grid(ax, length, across)
    _name_axes(ax, names, across_names, length, across, "key", "query")
    return ax


def scores_histogram(
    scores: Tensor, *, bins: int = 60, label: str | None = None, color: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how scores are spread, with their standard deviation in the label.

    Args:
        scores: any shape; minus infinity (masked) is left out.
        bins: how many bars.
        label: what the scores are.
        color: the bars' colour; the axes' next one if not given.
        ax: where to draw; a new figure if not given.

    Returns:
        The axes.

    Raises:
        TypeError: ``scores`` is no floating-point tensor, or ``bins`` no int.
        ValueError: no finite score, or ``bins`` less than 1.
    """
    check.floating("scores", scores)
    count = check.integer("bins", bins)
    finite = scores.detach().float().flatten().cpu()
    finite = finite[finite.isfinite()]
    if not finite.numel():
        raise ValueError(f"scores must hold a finite number, got shape {check.shape(scores)} with none")
    spread = float(finite.std(correction=0))
    words = f"{label}, standard deviation {spread:.2f}" if label else f"standard deviation {spread:.2f}"
    ax = given_or_new(ax)
    ax.hist(finite, bins=count, density=True, alpha=0.75, label=words, color=color)
    ax.set_xlabel("score")
    ax.set_ylabel("density")
    ax.legend()
    return ax


def _axes(ax: Axes | None, length: int, keys: int) -> Axes:
    cell = 0.62 if max(length, keys) <= _NUMBERS_UP_TO else 7.0 / max(length, keys)
    return given_or_new(ax, (max(2.6, cell * keys + 1.4), max(2.0, cell * length + 1.0)))


def _name_axes(
    ax: Axes,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    length: int,
    keys: int,
    xlabel: str,
    ylabel: str,
) -> None:
    for name, names, size, axis in (("rows", rows, length, ax.yaxis), ("columns", columns, keys, ax.xaxis)):
        if names is None:
            continue
        if isinstance(names, Integral) or _count(name, names) != size:
            raise ValueError(f"{name} must be {size} names, got {names!r}")
        # A dollar sign in a token is a dollar sign, no formula.
        axis.set_ticks(range(size), [str(word).replace("$", r"\$") for word in names])
    if columns is not None and max(len(str(word)) for word in columns or [""]) > 4:
        ax.tick_params(axis="x", rotation=45)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color("#bbbbbb")


def _count(name: str, names: object) -> int:
    """How many there are, of names or by number; a str would be taken for a list of letters."""
    if isinstance(names, str) or not isinstance(names, (Integral, Sequence)):
        raise TypeError(f"{name} must be a list of names, got {type(names).__name__}: {names!r}")
    return check.integer(name, len(names) if isinstance(names, Sequence) else names)


def _hatch(ax: Axes, hidden: Tensor) -> None:
    from matplotlib.patches import Rectangle

    for i, j in hidden.nonzero().tolist():
        box = Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="#eeeeee", edgecolor=COLORS["masked"], hatch="///", lw=0)
        ax.add_patch(box)


def _grid(ax: Axes, length: int, keys: int) -> None:
    for row in range(1, length):
        ax.axhline(row - 0.5, color="white", lw=1)
    for column in range(1, keys):
        ax.axvline(column - 0.5, color="white", lw=1)


def _over(cell: Sequence[float], paper: Sequence[float]) -> list[float]:
    """What is seen of a cell (red, green, blue, alpha) on paper: a NaN's cell is transparent, and shows the paper."""
    *color, alpha = cell
    return [alpha * front + (1 - alpha) * back for front, back in zip(color, paper, strict=True)]


def _ink(background: Sequence[float]) -> str:
    """Black or white, whichever stands out more: by WCAG's relative luminance."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in background)
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


def _number(x: float, digits: int) -> str:
    """As people write weights: .32 and −.5, and 0 for what rounds to nothing."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    text = f"{abs(x):.{digits}f}"
    if float(text) == 0:
        return "0"
    return ("−" if x < 0 else "") + text.removeprefix("0")


def _two_dims(name: str, x: Tensor) -> None:
    if x.dim() != 2:
        raise ValueError(f"{name} must be (L, S): one batch entry, one head; got shape {check.shape(x)}")
    if not x.numel():
        raise ValueError(f"{name} must have something to draw, got shape {check.shape(x)}")


def _boolean(name: str, x: Tensor, table: Tensor) -> Tensor:
    if check.tensor(name, x).dtype is not torch.bool:
        raise TypeError(f"{name} must be boolean, got {x.dtype}")
    if x.shape != table.shape:
        raise ValueError(f"{name} must have the table's shape, {check.shape(table)}, got {check.shape(x)}")
    return x
