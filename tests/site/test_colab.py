"""What of Colab can be tested without it: a stand-in for the one module of it that anywidget asks."""

import sys
from types import ModuleType, SimpleNamespace

import anywidget._util as util
import pytest

from companion import widgets

VIEW = "application/vnd.jupyter.widget-view+json"
KINDS = [getattr(widgets, name) for name in widgets.__all__ if name != "Figure"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_figure_turns_colabs_widget_manager_on(kind: type[widgets.Figure], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    output = ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: asked.append("manager")  # type: ignore[attr-defined]
    output._widgets = SimpleNamespace(_installed_url="manager.js")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    util.enable_custom_widget_manager_once.cache_clear()
    data, metadata = kind()._repr_mimebundle_()  # type: ignore[misc]
    util.enable_custom_widget_manager_once.cache_clear()
    assert asked == ["manager"]
    assert metadata[VIEW] == {"colab": {"custom_widget_manager": {"url": "manager.js"}}}
    assert {VIEW, "image/png"} <= set(data)
