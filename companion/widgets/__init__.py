"""Figures to play with: each answers one question, computes in the browser, and needs no kernel to do so.

With a kernel they are ipywidgets: set a trait and the figure follows, move the figure and the trait does.

>>> from companion.widgets import SoftmaxExplorer
>>> explorer = SoftmaxExplorer(scores=[2.0, 1.0, 0.0])
>>> explorer.temperature = 0.5
>>> explorer
SoftmaxExplorer(scores=[2.0, 1.0, 0.0], temperature=0.5, shift=0.0)
"""

from __future__ import annotations

from companion.widgets.base import Figure
from companion.widgets.decode import DecodeExplorer
from companion.widgets.head_view import HeadView
from companion.widgets.lookup import LookupExplorer
from companion.widgets.mask_editor import MaskEditor
from companion.widgets.position import PositionExplorer
from companion.widgets.projection import ProjectionExplorer
from companion.widgets.scaling import ScalingExplorer
from companion.widgets.softmax import SoftmaxExplorer
from companion.widgets.steps import StepThrough
from companion.widgets.tiling import TilingExplorer

__all__ = [
    "DecodeExplorer",
    "Figure",
    "HeadView",
    "LookupExplorer",
    "MaskEditor",
    "PositionExplorer",
    "ProjectionExplorer",
    "ScalingExplorer",
    "SoftmaxExplorer",
    "StepThrough",
    "TilingExplorer",
]
