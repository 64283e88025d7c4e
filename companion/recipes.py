"""What ``python -m companion.train`` can train: for each of the book's tasks a model, and numbers that work.

A recipe is a description, so that a file of weights can name it and be read back: see :mod:`companion.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import nn

from companion import check
from companion.accuracy import accuracy
from companion.batch import LabelBatch
from companion.characters import CharCorpus
from companion.config import TransformerConfig
from companion.losses import Batch, token_loss
from companion.masked import mask_tokens
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer
from companion.splitmix import SplitMix
from companion.task import Task
from companion.tasks import Sequences, char_corpus, copy, dates, repeats, reverse
from companion.vocabulary import PAD

__all__ = ["MaskedText", "recipe"]

EVALUATED = 256
"""How many rows an evaluation looks at; they are the same in every run."""
_EVALUATION_SEED = 10**6


class MaskedText(Task[LabelBatch]):
    """Windows of a text with some letters hidden, for an encoder.

    Args:
        corpus: where the windows come from.
        rate: how likely a letter is hidden.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: ``rate`` is outside 0 to 1.
    """

    def __init__(self, corpus: CharCorpus, rate: float = 0.15) -> None:
        if not isinstance(corpus, CharCorpus):
            raise TypeError(f"corpus must be a CharCorpus, got {type(corpus).__name__}")
        super().__init__(corpus.vocabulary)
        self.corpus = corpus
        self.rate = check.probability("rate", rate)

    def make(self, size: int, random: SplitMix) -> LabelBatch:
        """The next batch."""
        text = self.corpus.make(size, random)
        return mask_tokens(text.ids, text.real, vocab_size=self.vocab_size, random=random, rate=self.rate)


class InPlace(Task[LabelBatch]):
    """Pairs for an encoder alone: write the target's token t in the place of the source's token t."""

    def __init__(self, pairs: Sequences) -> None:
        super().__init__(pairs.vocabulary)
        self.pairs = pairs

    def make(self, size: int, random: SplitMix) -> LabelBatch:
        """The next batch."""
        return self.pairs.make(size, random).labels()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One thing to train.

    Attributes:
        name: what it is called.
        summary: what the model learns.
        seconds: about how long that takes on one core.
        make: the task from its options and ``held_out``.
        kind: of model.
        options: of the task, with their defaults.
        model: what differs from ``TransformerConfig``'s defaults.
        training: the numbers of the training: steps, batch size, learning rate.
        language: whether the evaluation says the loss in nats, where no text can be told without a mistake.
    """

    name: str
    summary: str
    seconds: int
    make: Callable[..., Task[Any]]
    kind: Callable[[TransformerConfig], nn.Module]
    options: Mapping[str, Any]
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    language: bool = False

    def task(self, *, held_out: bool = False, **options: Any) -> Task[Any]:
        """The task.

        Args:
            held_out: the part kept for validation, where the task has one.
            options: as far as they differ from the recipe's.

        Returns:
            Something that makes batches.

        Raises:
            TypeError: an option of the wrong kind, or one that the task has not.
            ValueError: numbers that do not fit.
        """
        check.flag("held_out", held_out)
        _known(self.name, options, self.options)
        return self.make(held_out, **{**self.options, **options})

    def config(self, vocab_size: int, **options: Any) -> TransformerConfig:
        """The model's config.

        Args:
            vocab_size: of the task.
            options: as far as they differ from the recipe's.

        Returns:
            The config.

        Raises:
            TypeError: an option of the wrong kind, or one that a config has not.
            ValueError: numbers that do not fit.

        Example:
            >>> recipe("characters").config(70, d_model=32).positions
            'rotary'
        """
        _known(self.name, options, {each.name: None for each in fields(TransformerConfig)})
        return TransformerConfig(vocab_size=vocab_size, **{**self.model, **options})

    def evaluation(self, **options: Any) -> Callable[[nn.Module], dict[str, float]]:
        """What says how good a model is, on rows that it was not trained on.

        Args:
            options: of the task.

        Returns:
            A function of a model that returns the share of tokens that are right, and of whole rows, or for a language
            model the loss a token.

        Raises:
            TypeError: an option of the wrong kind, or one that the task has not.
            ValueError: numbers that do not fit.
        """
        batch: Batch = self.task(held_out=True, **options).batch(EVALUATED, seed=_EVALUATION_SEED)

        def evaluate(model: nn.Module) -> dict[str, float]:
            here = batch.to(next(model.parameters()).device)
            right = accuracy(model, here)
            if self.language:
                return {"accuracy": right.tokens, "nats": token_loss(model, here).mean.item()}
            return {"accuracy": right.tokens, "sequences": right.sequences}

        return evaluate


def batch_at(task: Task[Any], size: int, seed: int, number: int) -> Any:
    """The batch of a number from 0, made without those before it: a run that was stopped goes on where it was."""
    start = int(SplitMix(seed).bits(1)[0])  # runs with seeds 0 and 1 must not read the same batches, one step apart
    return task.batch(size, seed=int(SplitMix((start + number) % 2**64).bits(1)[0]))


def recipe(name: str) -> Recipe:
    """A recipe by its name.

    Args:
        name: ``"reverse"``, ``"copy"``, ``"in-place"``, ``"dates"``, ``"repeats"``, ``"characters"`` or ``"masked"``.

    Returns:
        The recipe.

    Raises:
        TypeError: ``name`` is no str.
        ValueError: there is none of that name.

    Example:
        >>> recipe("reverse").task(length=4).vocab_size  # sixteen symbols, and four special tokens
        20
    """
    return RECIPES[check.one_of("name", name, tuple(RECIPES))]


def _known(name: str, options: Mapping[str, Any], all_options: Mapping[str, Any]) -> None:
    for option in options:
        if option not in all_options:
            raise TypeError(f"options of {name} must be among {', '.join(all_options)}; got {option!r}")


def _masked_encoder(config: TransformerConfig) -> EncoderOnly:
    return EncoderOnly(config, masked_lm=True)


_SYMBOLS = {"symbols": 16, "length": 10, "min_length": None}
_WINDOW = {"length": 64}

RECIPES: dict[str, Recipe] = {
    each.name: each
    for each in (
        Recipe(
            name="reverse",
            summary="write symbols backwards (encoder-decoder)",
            seconds=10,
            make=lambda held_out, **options: reverse(**options),
            kind=Seq2SeqTransformer,
            options=_SYMBOLS,
            model={"pad_id": PAD},
            training={"steps": 300, "batch_size": 64, "lr": 1e-3},
        ),
        Recipe(
            name="copy",
            summary="write symbols again (encoder-decoder)",
            seconds=10,
            make=lambda held_out, **options: copy(**options),
            kind=Seq2SeqTransformer,
            options=_SYMBOLS,
            model={"pad_id": PAD},
            training={"steps": 300, "batch_size": 64, "lr": 1e-3},
        ),
        Recipe(
            name="in-place",
            summary="write symbols backwards, each answer in a place of its own (encoder)",
            seconds=5,
            make=lambda held_out, **options: InPlace(reverse(**options)),
            kind=_masked_encoder,
            options=_SYMBOLS,
            model={"pad_id": PAD},
            training={"steps": 300, "batch_size": 64, "lr": 1e-3},
        ),
        Recipe(
            name="dates",
            summary='read "the 3rd of March, 2021", write 2021-03-03 (encoder-decoder)',
            seconds=30,
            make=lambda held_out: dates(held_out=held_out),
            kind=Seq2SeqTransformer,
            options={},
            model={"pad_id": PAD},
            training={"steps": 600, "batch_size": 64, "lr": 2e-3, "warmup": 50, "schedule": "cosine"},
        ),
        Recipe(
            name="repeats",
            summary="go on with a row that repeats itself: induction heads (decoder)",
            seconds=20,
            make=lambda held_out, **options: repeats(**options),
            kind=DecoderOnly,
            options={"symbols": 26, "length": 48, "min_period": 4, "max_period": 20},
            model={"positions": "alibi"},
            training={"steps": 400, "batch_size": 64, "lr": 2e-3, "warmup": 50},
        ),
        Recipe(
            name="characters",
            summary="a small GPT that reads the book's corpus letter by letter (decoder)",
            seconds=40,
            make=lambda held_out, length: char_corpus(length, held_out=held_out),
            kind=DecoderOnly,
            options=_WINDOW,
            model={"positions": "rotary"},
            training={"steps": 1000, "batch_size": 32, "lr": 3e-3, "warmup": 20, "schedule": "cosine"},
            language=True,
        ),
        Recipe(
            name="masked",
            summary="a small BERT that guesses hidden letters of the book's corpus (encoder)",
            seconds=40,
            make=lambda held_out, length, rate: MaskedText(char_corpus(length, held_out=held_out), rate),
            kind=_masked_encoder,
            options={**_WINDOW, "rate": 0.15},
            model={"positions": "rotary"},
            training={"steps": 1000, "batch_size": 32, "lr": 3e-3, "warmup": 20, "schedule": "cosine"},
            language=True,
        ),
    )
}
"""All recipes by name."""
