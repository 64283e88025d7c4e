"""Bad input for recipes, files of weights and the command line that trains; its flags are in ``test_train_cli.py``."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from companion import checkpoint, recipes, train
from companion.tasks import char_corpus, reverse
from tests.companion.bad_input import Row, device_rows, flag_rows, integer_rows, number_rows, wrong_kind, wrong_value

MODULES = (checkpoint, recipes, train)


def from_recipes() -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (3, "int"), (recipes.recipe("copy"), "Recipe")):
        yield wrong_kind(recipes.recipe, bad, says=("name must be a str", kind))
    yield wrong_value(recipes.recipe, "translate", says=("name must be one of reverse, copy", "'translate'"))
    made = recipes.recipe("reverse")
    yield from flag_rows(made.task, "held_out")
    for call in (made.task, made.evaluation):
        yield wrong_kind(call, colours=3, says=("options of reverse must be among symbols, length", "'colours'"))
        yield from integer_rows(call, "length", 0)
    new = partial(made.config, 9)
    yield wrong_kind(new, depth=3, says=("options of reverse must be among vocab_size, d_model", "'depth'"))
    yield from integer_rows(new, "d_model", 0)
    yield from integer_rows(made.config, "vocab_size", 0)
    for bad, kind in ((None, "NoneType"), ("text", "str"), (reverse(), "Sequences")):
        yield wrong_kind(recipes.MaskedText, bad, says=("corpus must be a CharCorpus", kind))
    yield from number_rows(partial(recipes.MaskedText, char_corpus(8)), "rate", (-0.1, 1.1))


def from_checkpoint() -> Iterator[Row]:
    for bad, kind in ((None, "NoneType"), (3, "int"), (["a"], "list"), (b"a", "bytes")):
        yield wrong_kind(checkpoint.load, bad, says=("path must be a str or a Path", kind))
    for folder in (str(Path(__file__).parent), Path(__file__).parent):
        yield wrong_value(checkpoint.load, folder, says=("path must be a folder with a checkpoint in it", str(folder)))
    yield wrong_value(checkpoint.load, __file__, says=(__file__, "damaged, cut short, or no safetensors file"))
    yield from device_rows(partial(checkpoint.load, "runs"))


def from_train() -> Iterator[Row]:
    for bad in ("reverse", 3, ["reverse", 3], b"copy", {"copy"}):
        yield wrong_kind(train.main, bad, says=("argv must be a list of words", repr(bad)))


def rows() -> Iterator[Row]:
    for area in (from_recipes, from_checkpoint, from_train):
        yield from area()
