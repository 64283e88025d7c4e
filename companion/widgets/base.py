"""What every figure shares: its script and style, a picture for where no script runs, a way back to the start."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import anywidget
import traitlets

from companion.widgets.values import Unfit

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["Figure"]

_STATIC = Path(__file__).with_name("static")


def scripts(module: str) -> tuple[Path, Path]:
    """The bundled script and style of the figure that a module defines."""
    name = module.rpartition(".")[2]
    return _STATIC / f"{name}.js", _STATIC / f"{name}.css"


@contextmanager
def _fitting() -> Iterator[None]:
    """What traitlets refuses is a ``ValueError`` too, as everywhere in this package."""
    try:
        yield
    except Unfit:
        raise
    except traitlets.TraitError as error:
        raise Unfit(str(error)) from error


class Figure(anywidget.AnyWidget):
    """An interactive figure.

    A subclass names the ``question`` that it answers and the traits that a reader changes (each ``sync=True``),
    describes itself in ``alt`` and draws itself in ``fallback``. Its script and style in ``static`` have the name of
    its own file.
    """

    question: ClassVar[str] = ""
    sized: ClassVar[str] = ""  # a trait with so many entries as the page has places: their number stays
    given: ClassVar[tuple[str, ...]] = ()  # what no reader changes: a reset leaves it, and the page holds it once

    alt = traitlets.Unicode(help="What the figure shows, for who cannot see it.").tag(sync=True)
    _start = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "question" in cls.__dict__:  # adding traits makes a subclass of the class, which has them already
            cls._esm, cls._css = scripts(cls.__module__)
        super().__init_subclass__(**kwargs)

    def __init__(self, **state: Any) -> None:
        known = self.state_names()
        for name in state:
            if name not in {*known, "alt", "layout"}:
                raise TypeError(f"{type(self).__name__} takes {', '.join(known)}; got {name!r}")
        with _fitting():
            super().__init__(**state)
        self._start = {name: getattr(self, name) for name in known if name not in self.given}
        if self.sized:
            self._count = len(getattr(self, self.sized))

    def _require_count(self, name: str, value: Any, unit: str = " in number") -> None:
        """Refuse another number of entries than the page was built for: that would be another figure."""
        if len(value) != getattr(self, "_count", len(value)):
            raise Unfit(f"{name} must stay {self._count}{unit}, got {len(value)}")

    def __setattr__(self, name: str, value: Any) -> None:
        with _fitting():
            super().__setattr__(name, value)

    @classmethod
    def state_names(cls) -> list[str]:
        """The traits that make up what the figure shows, in the order in which they are written."""
        # An instance's class is a subclass made for it, which holds the script's text.
        kind: type[Figure] = next((each for each in cls.__mro__ if "question" in each.__dict__), cls)
        own = kind.class_own_traits(sync=True)
        return [name for name in kind.__dict__ if name in own]

    def reset(self) -> None:
        """Show again what the figure began with."""
        with self.hold_trait_notifications():  # values that must fit each other change together
            for name, value in self._start.items():
                setattr(self, name, value)

    def fallback(self) -> matplotlib.figure.Figure:
        """The figure as it stands, as a picture: for print, and for readers without scripts."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Alike in every run, since nbval compares it."""
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.state_names())})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return data | {"image/png": self._picture()}, metadata

    def _picture(self) -> bytes:
        """The fallback as a PNG, drawn without touching the reader's own matplotlib state."""
        picture = self.fallback()
        file = io.BytesIO()
        picture.savefig(file, format="png", dpi=144, bbox_inches="tight")
        return file.getvalue()
