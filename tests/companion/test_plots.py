"""What is drawn: numbers, colours and names are read back from the axes."""

import math

import matplotlib
import pytest
import torch
from matplotlib import pyplot
from matplotlib.colors import to_hex, to_rgb

from companion import causal, padding, plots, sliding_window

TABLE = torch.tensor([[0.25, 0.75, 0.0], [1.0, 0.004, 0.1]])


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def hatched(axes) -> list[tuple[float, float]]:
    return [(box.get_x() + 0.5, box.get_y() + 0.5) for box in axes.patches if box.get_hatch()]


def test_a_small_heatmap_prints_its_numbers():
    axes = plots.heatmap(TABLE, ["a", "b"], ["x", "y", "long word"])
    assert texts(axes) == [".25", ".75", "0", "1.00", "0", ".10"]
    assert [t.get_position() for t in axes.texts][:3] == [(0, 0), (1, 0), (2, 0)]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["x", "y", "long word"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
    torch.testing.assert_close(torch.tensor(axes.images[0].get_array().tolist()), TABLE)
    assert axes.images[0].get_clim() == (0, 1)
    assert len(axes.figure.axes) == 1


def test_zero_looks_empty_and_one_is_darkest():
    image = plots.heatmap(TABLE).images[0]
    shades = [sum(image.cmap(x)[:3]) for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert to_hex(image.cmap(0.0)) == "#ffffff"
    assert shades == sorted(shades, reverse=True)


def test_a_signed_heatmap_is_white_at_zero_and_even_on_both_sides():
    axes = plots.heatmap(TABLE - 0.5, signed=True)
    assert axes.images[0].get_clim() == pytest.approx((-0.5, 0.5))
    assert texts(axes)[:3] == ["−.25", ".25", "−.50"]
    assert plots.heatmap(TABLE, signed=True, limit=4.0).images[0].get_clim() == (-4, 4)
    assert plots.heatmap(torch.zeros(2, 2), signed=True).images[0].get_clim()[1] > 0
    with pytest.raises(ValueError, match=r"table must not be negative unless signed=True, its smallest entry is -0.5"):
        plots.heatmap(TABLE - 0.5)


def test_what_is_masked_is_hatched_and_has_no_number():
    hidden = torch.tensor([[False, False, True], [True, False, False]])
    axes = plots.heatmap(TABLE - hidden.float() * 9, masked=hidden)  # what is hidden may well be negative
    assert hatched(axes) == [(2, 0), (0, 1)]
    assert len(axes.texts) == 4
    assert texts(plots.heatmap(TABLE, masked=torch.ones(2, 3, dtype=torch.bool))) == []


def test_a_large_heatmap_has_a_scale_in_place_of_numbers():
    axes = plots.heatmap(torch.rand(13, 5))
    assert not axes.texts
    assert len(axes.figure.axes) == 2
    assert len(plots.heatmap(torch.rand(13, 5), colorbar=False).figure.axes) == 1
    assert len(plots.heatmap(TABLE, colorbar=True).figure.axes) == 2
    assert len(texts(plots.heatmap(torch.rand(13, 5), numbers=True))) == 65
    bare = plots.heatmap(TABLE, numbers=False)
    assert (texts(bare), len(bare.figure.axes)) == ([], 2)


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [(0.5, 1, ".5"), (1.0, 2, "1.00"), (0.999, 2, "1.00"), (-0.001, 2, "0"), (12.3, 0, "12"), (-1.5, 1, "−1.5")],
)
def test_how_numbers_are_written(number: float, digits: int, text: str):
    assert texts(plots.heatmap(torch.tensor([[number]]), signed=True, digits=digits)) == [text]


def test_odd_tables_are_drawn():
    assert texts(plots.heatmap(torch.tensor([[math.nan, 1.0]]))) == ["NaN", "1.00"]
    odd = torch.tensor([[math.inf, -math.inf, math.nan, 2.0]])
    assert texts(plots.heatmap(odd, signed=True)) == ["∞", "−∞", "NaN", "2.00"]
    assert texts(plots.heatmap(TABLE.bfloat16().requires_grad_()))[0] == ".25"


def test_a_dollar_in_a_token_is_no_formula():
    axes = plots.heatmap(torch.ones(1, 2), columns=["$x", "y$"])
    axes.figure.canvas.draw()
    assert [t.get_text() for t in axes.get_xticklabels()] == [r"\$x", r"y\$"]


def test_it_draws_where_it_is_told():
    figure, axes = pyplot.subplots(1, 2)
    assert plots.heatmap(TABLE, ax=axes[0]) is axes[0]
    assert plots.mask(causal(), 3, ax=axes[1]) is axes[1]
    assert plots.scores_histogram(TABLE, ax=axes[1]) is axes[1]
    assert pyplot.get_fignums() == [figure.number]


def test_a_mask_is_filled_where_it_may_be_seen():
    axes = plots.mask(sliding_window(2), ["a", "b"], keys=["x", "y", "z"])
    assert axes.images[0].get_array().tolist() == [[1, 1, 0], [0, 1, 1]]
    assert hatched(axes) == [(2, 0), (0, 1)]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["x", "y", "z"]
    assert plots.mask(padding([1, 2]), 2).images[0].get_array().tolist() == [[1, 0], [1, 0]]
    assert plots.mask(causal(), 2, keys=3).images[0].get_array().shape == (2, 3)
    table = torch.eye(2, dtype=torch.bool)
    for names in (None, 2, ["a", "b"]):
        assert plots.mask(table, names).images[0].get_array().tolist() == [[1, 0], [0, 1]]


def test_a_large_mask_is_drawn_without_a_grid():
    small, large = plots.mask(causal(), 3), plots.mask(causal(), 20)
    assert large.images[0].get_array().sum() == 210
    assert (len(small.lines), len(large.lines)) == (4, 0)


@pytest.mark.parametrize("paper", ["white", "none", "#f4f1ea", "#101418"])
def test_numbers_can_be_read_on_every_shade(paper: str):
    """A contrast of at least 4.5 to 1, as WCAG asks, by its own formula; a cell of NaN shows the paper."""

    def luminance(colour) -> float:
        parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(colour)]
        return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    for signed, lowest in ((False, 0.0), (True, -1.0)):
        table = torch.linspace(lowest, 1, 144).view(12, 12)
        table[3, 4] = math.nan
        ax = pyplot.figure().add_subplot()
        ax.set_facecolor(paper)
        axes = plots.heatmap(table, signed=signed, ax=ax)
        image = axes.images[0]
        assert len(axes.texts) == 144
        for text in axes.texts:
            column, row = text.get_position()
            seen = "white" if paper == "none" else paper
            shade = seen if (row, column) == (3, 4) else image.cmap(image.norm(image.get_array()[row, column]))[:3]
            light, dark = sorted((luminance(text.get_color()), luminance(shade)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, text


def test_a_histogram_says_how_wide_it_is():
    scores = torch.tensor([-1.0, 1.0, -math.inf, math.nan]).bfloat16()
    axes = plots.scores_histogram(scores, bins=2, label="D = 4")
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["D = 4, standard deviation 1.00"]
    assert [bar.get_height() for bar in axes.patches] == [0.5, 0.5]
    axes = plots.scores_histogram(torch.zeros(3), color="red")
    assert axes.get_legend().get_texts()[0].get_text() == "standard deviation 0.00"
    assert to_hex(axes.patches[0].get_facecolor()) == "#ff0000"


def test_the_style_is_the_books():
    with matplotlib.rc_context():
        matplotlib.rcParams["axes.grid"] = True
        plots.use_style()
        style = dict(matplotlib.rcParams)
    written = matplotlib.rc_params_from_file(
        plots.__file__.replace("plots.py", "attention.mplstyle"), use_default_template=False
    )
    assert written
    assert all(style[name] == value for name, value in written.items())


def test_colours_are_the_palette_for_colour_blind_readers():
    """Okabe and Ito, 2008."""
    palette = {"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999"}
    assert {colour.lower() for colour in plots.COLORS.values()} <= palette
    assert len(set(plots.COLORS.values())) == len(plots.COLORS)
