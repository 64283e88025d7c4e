"""Every figure, as Python sees it."""

import base64
import gzip
import inspect
import json
import re
import subprocess
import sys

import pytest
import traitlets
from matplotlib import pyplot

import companion.widgets as widgets
from companion.widgets import Figure
from companion.widgets.base import scripts

KINDS = [getattr(widgets, name) for name in widgets.__all__ if name != "Figure"]
each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@each
def test_it_says_what_it_is(kind: type[Figure]):
    assert kind.question.endswith("?")
    assert len(kind().alt) > 40
    assert kind.state_names()
    text = inspect.getdoc(kind)
    assert text
    for name in kind.state_names():
        assert re.search(rf"^    {name}: ", text, re.MULTILINE), f"{name} is not explained"


@each
def test_its_text_is_alike_in_every_run(kind: type[Figure]):
    assert repr(kind()) == repr(kind())
    assert repr(kind()).startswith(f"{kind.__name__}({kind.state_names()[0]}=")
    assert not re.search("0x|IPY_MODEL|_esm", repr(kind()))


@each
def test_reset_goes_back_to_the_start(kind: type[Figure]):
    figure = kind()
    start = {name: getattr(figure, name) for name in kind.state_names()}
    assert figure._start == {name: value for name, value in start.items() if name not in kind.given}
    changed = 0
    for name in kind.state_names():
        value = _other(figure, name)
        if value is not None:
            setattr(figure, name, value)
            changed += getattr(figure, name) != start[name]
    assert changed
    figure.reset()
    assert {name: getattr(figure, name) for name in kind.state_names()} == start


def _other(figure: Figure, name: str) -> object:
    """Another value that the trait takes, or None if none was found."""
    trait, value = figure.traits()[name], getattr(figure, name)
    if isinstance(trait, traitlets.Enum):
        return next((choice for choice in trait.values if choice != value), None)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        for step in (1, -1):
            try:
                trait.validate(figure, value + step)
            except traitlets.TraitError:
                continue
            return value + step
    return None


@each
def test_it_takes_no_other_names_and_kinds(kind: type[Figure]):
    with pytest.raises(TypeError, match=f"{kind.__name__} takes .*{kind.state_names()[0]}.*got 'nonsense'"):
        kind(nonsense=1)
    figure = kind()
    for name in kind.state_names():
        for wrong in (object(), float("nan"), [float("nan")], [[float("inf")]]):
            with pytest.raises(ValueError, match=name):
                kind(**{name: wrong})
            with pytest.raises(ValueError, match=name):
                setattr(figure, name, wrong)


@pytest.mark.parametrize(
    "figure",
    [
        widgets.DecodeExplorer(tokens=["a", "b"]),
        widgets.TilingExplorer(query_length=1, key_length=1),
        widgets.StepThrough(query=[[1]], key=[[1]] * 5, value=[[1]] * 5, column=4),
        widgets.PositionExplorer(width=8),
        widgets.MaskEditor(tokens=["a", "b"]),
    ],
    ids=lambda figure: type(figure).__name__,
)
def test_one_of_another_size_can_be_reset(figure: Figure):
    before = repr(figure)
    figure.reset()
    assert repr(figure) == before


def test_what_is_built_once_keeps_its_size():
    lookup = widgets.LookupExplorer()
    with pytest.raises(ValueError, match="must stay 4 rows, got 2"), lookup.hold_trait_notifications():
        lookup.key = lookup.value = [[0, 0], [1, 1]]
    with pytest.raises(ValueError, match="scores must stay 5 in number, got 2"):
        widgets.SoftmaxExplorer().scores = [0, 1]


def test_the_picked_number_stays_in_its_table():
    steps = widgets.StepThrough(column=2)
    steps.step = "output"  # has two columns
    assert steps.column == 1


@each
def test_its_picture_is_drawn_apart(kind: type[Figure]):
    before = pyplot.get_fignums()
    data, _ = kind()._repr_mimebundle_()  # type: ignore[misc]
    picture = data["image/png"]
    assert (base64.b64decode(picture) if isinstance(picture, str) else picture).startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in data
    assert pyplot.get_fignums() == before


@each
def test_its_script_is_light_and_asks_nobody(kind: type[Figure]):
    script, style = (path.read_bytes() for path in scripts(kind.__module__))
    assert len(gzip.compress(script, 9)) + len(gzip.compress(style, 9)) <= 12_000
    assert not re.search(
        rb"https?://(?!www\.w3\.org/)|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script
    )


def test_a_state_survives_json():
    for kind in KINDS:
        figure = kind()
        state = {name: getattr(figure, name) for name in kind.state_names()}
        assert json.loads(json.dumps(state)) == state


def test_importing_companion_brings_no_widgets():
    code = "import sys, companion; assert not {'anywidget', 'ipywidgets', 'traitlets'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
