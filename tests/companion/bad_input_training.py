"""Bad input for random numbers, vocabularies, tasks, the corpus, losses, training and its curves."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from companion import (
    accuracy,
    characters,
    corpus,
    curves,
    dates,
    history,
    losses,
    masked,
    optimizer,
    splitmix,
    tasks,
    training,
    vocabulary,
)
from companion.models import DecoderOnly, TransformerConfig
from tests.companion.bad_input import (
    Row,
    flag_rows,
    float_rows,
    integer_rows,
    number_rows,
    wrong_kind,
    wrong_value,
)

MODULES = (
    splitmix,
    vocabulary,
    tasks,
    dates,
    characters,
    corpus,
    losses,
    accuracy,
    masked,
    optimizer,
    training,
    curves,
)
MODEL = DecoderOnly(TransformerConfig(vocab_size=12, d_model=8, num_heads=2, num_layers=1))
TEXT = tasks.repeats(8, 6, min_period=2, max_period=3).batch(2)
LOGITS, LABELS = torch.rand(2, 3, 5), torch.ones(2, 3, dtype=torch.long)
COUNTED = torch.ones(2, 3, dtype=torch.bool)


def seed_rows(function: Callable[..., Any]) -> Iterator[Row]:
    yield from integer_rows(function, "seed", -1)
    yield wrong_value(function, seed=2**64, says=("seed must be less than 2**64", str(2**64)))


def from_random() -> Iterator[Row]:
    yield from seed_rows(splitmix.SplitMix)
    source = splitmix.SplitMix()
    yield from integer_rows(source.bits, "count", -1)
    for draw in (source.integers, source.below):
        yield from integer_rows(draw, "high", 0, -3)
        yield wrong_value(draw, 2**32 + 1, says=("high must be at most 2**32", str(2**32 + 1)))
    for draw in (partial(source.integers, 3), source.uniform):
        for bad, kind in (([2], "list"), (2, "int"), (None, "NoneType")):
            yield wrong_kind(draw, shape=bad, says=("shape must be a tuple of ints", kind))
        yield wrong_kind(draw, shape=(2, 1.0), says=("shape must be an int", "float"))
        yield wrong_value(draw, shape=(2, -1), says=("shape must be at least 0", "-1"))
    yield wrong_kind(source.permutations, 2, 1.5, says=("shape must be an int", "float"))
    yield wrong_value(source.permutations, 2, -1, says=("shape must be at least 0", "-1"))


def from_vocabulary() -> Iterator[Row]:
    new = vocabulary.Vocabulary
    for bad, kind in ((3, "int"), (None, "NoneType"), (torch.ones(2), "Tensor"), ([1, 2], "int")):
        yield wrong_kind(new, bad, says=("symbols must be strings", kind))
    for same in ("", "abca", ["a", "<pad>"]):
        yield wrong_value(new, same, says=("symbols must be all different, at least one", "<pad>"))
    letters = new("abc")
    for bad, kind in ((3, "int"), (None, "NoneType"), (torch.ones(2), "Tensor")):
        yield wrong_kind(letters.encode, bad, says=("text must be a str or a list of symbols", kind))
    yield wrong_value(letters.encode, "abz", says=("text must be of the vocabulary's symbols", "'z'"))
    for bad, kind in ((3, "int"), (None, "NoneType"), ("abc", "str")):
        yield wrong_kind(letters.decode, bad, says=("ids must be a list of ints", kind))
    yield wrong_kind(letters.decode, [1.0], says=("ids must be an int", "float"))
    yield wrong_kind(letters.decode, torch.ones(2), says=("ids must be an int", "float"))
    yield wrong_value(letters.decode, torch.ones(1, 2), says=("ids must have shape (L,)", "(1, 2)"))
    yield wrong_value(letters.decode, [7], says=("ids must be less than 7", "got 7"))
    yield wrong_value(letters.decode, [-1], says=("ids must be at least 0", "-1"))
    for bad, kind in ((3, "int"), (None, "NoneType"), ("abc", "str"), (torch.ones(2, 2), "Tensor"), ([3], "int")):
        yield wrong_kind(vocabulary.pad, bad, says=("rows must be a list of ints", kind))
    yield wrong_kind(vocabulary.pad, [[1.0]], says=("rows must be an int", "float"))
    yield wrong_value(vocabulary.pad, [], says=("rows must be at least one", "none"))
    yield wrong_value(vocabulary.pad, [[-1]], says=("rows must be at least 0", "-1"))
    yield wrong_value(vocabulary.pad, [[1, 2]], length=1, says=("length must be at least 2", "got 1"))
    yield from integer_rows(partial(vocabulary.pad, [[]]), "length", 0, none=False)
    yield from flag_rows(partial(vocabulary.pad, [[1]]), "left")


def from_tasks() -> Iterator[Row]:
    for make in (tasks.copy, tasks.reverse):
        yield from integer_rows(make, "symbols", 0)
        yield wrong_value(make, 30_000, says=("symbols must be at most 20062", "30000"))
        yield from integer_rows(make, "length", 0)
        yield from integer_rows(make, "min_length", 0, none=False)
        yield wrong_value(make, length=3, min_length=4, says=("min_length must be at most length=3", "got 4"))
    yield from integer_rows(partial(tasks.Sequences, 5, min_length=None, backwards=True), "length", 0)
    yield from integer_rows(tasks.repeats, "symbols", 0)
    yield from integer_rows(tasks.repeats, "length", 2)
    yield from integer_rows(tasks.repeats, "min_period", 0)
    yield from integer_rows(tasks.repeats, "max_period", 0)
    yield wrong_value(
        tasks.repeats, 5, 20, min_period=2, max_period=6, says=("periods must be at most 5", "max_period=6")
    )
    yield wrong_value(tasks.Repeats, 9, 6, 2, 5, says=("periods must be at most 4", "max_period=5"))
    yield wrong_value(tasks.repeats, 9, 20, min_period=4, max_period=3, says=("min_period=4 and max_period=3",))
    for ask in (tasks.copy().batch, tasks.copy().batches):
        yield from integer_rows(ask, "size", 0, -1)
        yield from seed_rows(partial(ask, 2))
    yield wrong_value(tasks.dates().batch(2).labels, says="each target must be as long as its source")
    yield from flag_rows(tasks.dates, "held_out")
    yield from flag_rows(tasks.Dates, "held_out")
    one = partial(tasks.dates().pair, **{"year": 2020, "month": 2, "day": 2})
    for name in ("year", "month", "day"):
        yield from integer_rows(one, name, 0)
    yield wrong_value(one, day=30, says=("year, month and day must be a date", "2020, 2, 30"))
    yield wrong_value(one, month=13, says=("year, month and day must be a date", "13"))
    yield wrong_value(one, year=1969, says=("year must be from 1970 to 2069", "1969"))
    yield wrong_value(one, form="{d}", says=("form must be one of", "'{d}'"))
    yield wrong_kind(one, form=3, says=("form must be a str", "int"))


def from_corpus() -> Iterator[Row]:
    yield from integer_rows(corpus.corpus, "size", 0)
    yield wrong_value(corpus.corpus, 10**7, says=("size must be at most 1000000", "10000000"))
    yield from seed_rows(corpus.corpus)
    for function in (corpus.split_paragraphs, corpus.sentences, tasks.char_corpus):
        for bad, kind in ((3, "int"), (b"text", "bytes"), (["text"], "list")):
            yield wrong_kind(function, text=bad, says=("text must be a str", kind))
    yield from integer_rows(partial(corpus.split_paragraphs, "a\n\nb"), "every", 1)
    yield wrong_value(corpus.split_paragraphs, "a\n\nb", 3, says=("text must have at least 3 paragraphs", "got 2"))
    yield from flag_rows(tasks.char_corpus, "held_out")
    yield from integer_rows(tasks.char_corpus, "length", 0)
    own = partial(tasks.char_corpus, text="a\n\n" * 20)
    yield wrong_value(own, length=500, says=("length must be less than the text's", "500"))
    yield wrong_value(tasks.char_corpus, text="a b", says=("text must have at least 10 paragraphs", "got 1"))
    new = partial(tasks.CharCorpus, "abc", vocabulary.Vocabulary("abc"))
    yield from integer_rows(new, "length", 0)
    yield wrong_value(new, length=3, says=("length must be less than the text's 3 letters", "got 3"))


def from_losses() -> Iterator[Row]:
    for function in (losses.cross_entropy, accuracy.token_accuracy, accuracy.sequence_accuracy):
        yield from float_rows(partial(function, labels=LABELS), "logits", 0)
        for shape in ((3, 5), (2, 3, 0), (1, 2, 3, 5)):
            yield wrong_value(
                function, torch.rand(shape), LABELS, says=("logits must have shape (B, L, V)", f"got {shape}")
            )
        for bad, kind in ((None, "NoneType"), ([[1]], "list")):
            yield wrong_kind(function, LOGITS, bad, says=("labels must be a torch.Tensor", kind))
        yield wrong_kind(function, LOGITS, LABELS.int(), says=("labels must be int64", "torch.int32"))
        yield wrong_value(function, LOGITS, LABELS[:1], says=("labels must have shape (B, L) = (2, 3)", "got (1, 3)"))
        yield wrong_kind(function, LOGITS, LABELS, LABELS, says=("counted must be boolean", "torch.int64"))
        yield wrong_kind(function, LOGITS, LABELS, [[True]], says=("counted must be a torch.Tensor", "list"))
        yield wrong_value(
            function, LOGITS, LABELS, COUNTED[:, :2], says=("counted must have shape (B, L) = (2, 3)", "got (2, 2)")
        )
    for function in (accuracy.token_accuracy, accuracy.sequence_accuracy):
        yield wrong_value(function, LOGITS, LABELS, ~COUNTED, says=("counted must be True for a token", "none"))
    for function in (partial(losses.cross_entropy, LOGITS, LABELS), partial(losses.token_loss, MODEL, TEXT)):
        yield from number_rows(function, "label_smoothing", (-0.1, 1.1))
    for function in (losses.predictions, losses.token_loss):
        for bad, kind in ((None, "NoneType"), (TEXT.ids, "Tensor"), (tuple(TEXT), "tuple")):
            yield wrong_kind(function, MODEL, bad, says=("batch must be a PairBatch, TextBatch or LabelBatch", kind))
        yield wrong_kind(function, "gpt", TEXT, says=("model must be a torch.nn.Module", "str"))
    for bad, kind in ((None, "NoneType"), (3, "int")):
        yield wrong_kind(accuracy.accuracy, MODEL, bad, says=("batches must be a batch or several", kind))
    yield wrong_kind(accuracy.accuracy, MODEL, TEXT.ids, says=("batches must be a batch or several", "Tensor"))
    yield wrong_kind(accuracy.accuracy, MODEL, [TEXT.ids], says=("batches must be a batch or several", "Tensor"))
    yield wrong_value(accuracy.accuracy, MODEL, [], says="counted must be True for a token at least")
    for bad, kind in ((None, "NoneType"), (DecoderOnly, "type")):
        yield wrong_kind(accuracy.accuracy, bad, TEXT, says=("model must be a torch.nn.Module", kind))
    yield wrong_value(accuracy.accuracy, nn.ReLU(), TEXT, says=("model must have parameters", "ReLU"))
    hide = partial(masked.mask_tokens, LABELS, COUNTED, vocab_size=9, random=splitmix.SplitMix())
    for bad, kind in ((None, "NoneType"), ([[1]], "list")):
        yield wrong_kind(
            partial(hide.func, real=COUNTED, **hide.keywords), ids=bad, says=("ids must be a torch.T", kind)
        )
        yield wrong_kind(
            partial(hide.func, LABELS, **hide.keywords), real=bad, says=("real must be a torch.Tensor", kind)
        )
    yield wrong_kind(hide.func, LABELS, LABELS, **hide.keywords, says=("real must be boolean", "torch.int64"))
    yield wrong_value(hide.func, LABELS, COUNTED[:1], **hide.keywords, says=("real must have shape (B, L)", "(1, 3)"))
    yield wrong_value(hide.func, LABELS * 9, COUNTED, **hide.keywords, says=("ids must be from 0 to 8", "got 9"))
    yield from integer_rows(hide, "vocab_size", 0)
    yield from integer_rows(hide, "first", -1)
    yield wrong_value(hide, first=9, says=("first must be less than vocab_size=9", "got 9"))
    yield from number_rows(hide, "rate", (-0.1, 1.1))
    for bad, kind in ((None, "NoneType"), (3, "int"), (torch.Generator(), "Generator")):
        yield wrong_kind(hide, random=bad, says=("random must be a SplitMix", kind))


def from_training() -> Iterator[Row]:
    yield from seed_rows(training.seed_everything)
    yield from flag_rows(training.seed_everything, "deterministic")
    rate = partial(optimizer.learning_rate, step=1, lr=0.1, steps=10)
    make = partial(optimizer.make_optimizer, MODEL)
    train = partial(training.train, MODEL, [TEXT], steps=10)
    yield from integer_rows(rate, "step", 0)
    yield wrong_value(rate, step=11, says=("step must be at most steps=10", "got 11"))
    for call in (rate, train):
        yield from integer_rows(call, "steps", 0)
        yield from integer_rows(call, "warmup", -1)
        yield wrong_value(call, warmup=11, says=("warmup must be at most steps=10", "got 11"))
        yield wrong_value(call, schedule="linear", says=("schedule must be one of constant, cosine", "'linear'"))
        yield wrong_kind(call, schedule=None, says=("schedule must be a str", "NoneType"))
        yield from number_rows(call, "floor", (-0.1, 1.1))
    for call in (rate, make, train):
        yield from number_rows(call, "lr", (0, -1.0))
    for call in (make, train):
        yield from number_rows(call, "weight_decay", (-0.1,))
        for bad in (0.9, [0.9, 0.99], (0.9,)):
            yield wrong_kind(call, betas=bad, says=("betas must be two numbers", repr(bad)))
        yield wrong_value(call, betas=(0.9, 1.0), says=("betas must be less than 1", "(0.9, 1.0)"))
        yield wrong_value(call, betas=(-0.1, 0.9), says=("betas must be between 0 and 1", "-0.1"))
    for function in (optimizer.make_optimizer, partial(training.train, batches=[TEXT], steps=1)):
        for bad, kind in ((None, "NoneType"), (DecoderOnly, "type"), ([MODEL], "list")):
            yield wrong_kind(function, model=bad, says=("model must be a torch.nn.Module", kind))
        yield wrong_value(function, model=nn.ReLU(), says=("model must have parameters", "ReLU"))
        frozen = nn.Linear(2, 2).requires_grad_(False)
        yield wrong_value(function, model=frozen, says=("model must have a parameter that requires a gradient",))
    for bad, kind in ((None, "NoneType"), (3, "int"), (TEXT.ids, "Tensor"), ("text", "str"), (TEXT, "TextBatch")):
        yield wrong_kind(training.train, MODEL, bad, steps=1, says=("batches must be several batches", kind))
    yield wrong_kind(training.train, MODEL, [TEXT.ids], steps=1, says=("batch must be a PairBatch", "Tensor"))
    yield wrong_value(training.train, MODEL, [], steps=1, says=("batches must not end", "got 0"))
    yield from number_rows(train, "clip", (0, -1.0))
    yield from number_rows(train, "label_smoothing", (-0.1, 1.1))
    yield from integer_rows(train, "accumulate", 0)
    yield from integer_rows(train, "every", 0)
    for name in ("loss", "evaluate"):
        yield wrong_kind(train, **{name: 0.5}, says=(f"{name} must be callable", "float"))
    scored = partial(train, evaluate=lambda model: 0.5)
    yield from number_rows(scored, "target", ())
    yield wrong_value(train, target=0.5, says=("target=0.5 needs an evaluate", "None"))
    for bad, kind in ((1, "int"), ("yes", "str")):
        yield wrong_kind(train, progress=bad, says=("progress must be True or False", kind))


def from_history() -> Iterator[Row]:
    seen = history.History(steps=[1], loss=[0.5])
    for call in (seen.series, seen.plot):
        yield wrong_kind(call, 3, says=("name must be a str", "int"))
        yield wrong_value(call, "accuracy", says=("name must be one of loss, learning_rate", "'accuracy'"))
    for bad, kind in ((None, "NoneType"), ([1.0], "list"), (torch.ones(3), "Tensor")):
        yield wrong_kind(curves.curves, bad, says=("lines must be a dict of values by name", kind))
    yield wrong_value(curves.curves, {}, says=("lines must be at least one", "none"))
    for bad, kind in ((None, "NoneType"), ("abc", "str"), (3.0, "float")):
        yield wrong_kind(curves.curves, {"a": bad}, says=("lines['a'] must be a list of numbers", kind))
    yield wrong_kind(curves.curves, {"a": ["1"]}, says=("lines['a'] must be numbers", "str"))
    yield wrong_kind(curves.curves, {"a": [True]}, says=("lines['a'] must be numbers", "bool"))
    yield wrong_value(curves.curves, {"a": []}, says=("lines['a'] must have a value", "none"))
    yield wrong_value(curves.curves, {"a": torch.ones(2, 2)}, says=("lines['a'] must have shape (n,)", "(2, 2)"))
    draw = partial(curves.curves, {"a": [1.0, 2.0]})
    yield wrong_value(draw, [1], says=("lines['a'] must have a value for each of 1 steps", "got 2"))
    yield wrong_kind(draw, steps=3, says=("steps must be a list of numbers", "int"))
    for call in (draw, seen.plot):
        yield from integer_rows(call, "smooth", 0, -1)
        yield from flag_rows(call, "log")
        yield wrong_kind(call, ax=3, says=("ax must be a matplotlib Axes", "int"))


def rows() -> Iterator[Row]:
    for area in (from_random, from_vocabulary, from_tasks, from_corpus, from_losses, from_training, from_history):
        yield from area()
