"""The command line of ``python -m companion.train``: what can be said, and what holds if nothing is."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from companion import checkpoint
from companion.config import POSITIONS, TransformerConfig
from companion.feed_forward import ACTIVATIONS
from companion.optimizer import SCHEDULES
from companion.parallel import KINDS, leads
from companion.recipes import RECIPES, Recipe

__all__: list[str] = []

PROGRAM = "python -m companion.train"
EPILOG = f"""\
examples:
  {PROGRAM} reverse --steps 300 --out runs/reverse
      trains for about ten seconds; then, in Python,
      model, task = companion.checkpoint.load("runs/reverse")
  {PROGRAM} characters --d-model 128 --num-layers 4 --export gpt.safetensors --export-dtype float16
      a larger GPT, its weights alone in a file of their own
  torchrun --nproc-per-node=2 -m companion.train dates --parallel fsdp --out runs/dates
      on two processes, or two GPUs: the same updates, shared

A run that was stopped, by Ctrl-C or by a power cut, goes on where it was:
  {PROGRAM} reverse --out runs/reverse --resume
"""


class Flag(NamedTuple):
    """One option."""

    name: str
    kind: Callable[[str], Any]
    help: str
    default: Any = None
    choices: tuple[str, ...] | None = None
    shown: str | None = None  # the default in words, where it is None
    numbers: int | None = None  # how many it takes, if not one


def _path(text: str) -> Path:
    return Path(text)


def _limit(text: str) -> float | None:
    return None if text == "none" else float(text)


_limit.__name__ = "number or none"  # argparse says so: invalid number or none value: 'all'


TASK = (
    Flag("symbols", int, "how many different symbols there are"),
    Flag("length", int, "of a sequence, in tokens"),
    Flag("min_length", int, "of the shortest; others are padded", shown="--length"),
    Flag("min_period", int, "the shortest after which a row repeats"),
    Flag("max_period", int, "the longest after which a row repeats"),
    Flag("rate", float, "the share of letters that is hidden"),
)
MODEL = (
    Flag("d_model", int, "width"),
    Flag("num_heads", int, "attention heads"),
    Flag("num_layers", int, "blocks; in an encoder-decoder, of each side"),
    Flag("num_decoder_layers", int, "blocks of the decoder", shown="--num-layers"),
    Flag("num_kv_heads", int, "key/value heads: fewer than heads for grouped queries", shown="--num-heads"),
    Flag("d_head", int, "width of a head", shown="--d-model / --num-heads"),
    Flag("d_ff", int, "width of the feed-forward", shown="4 × --d-model; two thirds of that for swiglu"),
    Flag("positions", str, "how a model knows order", choices=POSITIONS),
    Flag("rotary_base", float, "of rotary positions"),
    Flag("max_length", int, "how many learned positions there are"),
    Flag("activation", str, "of the feed-forward", choices=tuple(ACTIVATIONS)),
    Flag("norm", str, "layer norm or RMS norm", choices=("layer", "rms")),
    Flag("norm_first", bool, "norm before each part (pre-LN), not after"),
    Flag("bias", bool, "biases in projections and norms"),
    Flag("dropout", float, "probability"),
    Flag("tie_embeddings", bool, "score tokens by their embeddings"),
    Flag("backend", str, "what attention runs on"),
)
TRAINING = (
    Flag("steps", int, "updates in all"),
    Flag("batch_size", int, "rows of a batch, over all processes"),
    Flag("accumulate", int, "batches to an update", 1),
    Flag("lr", float, "highest learning rate"),
    Flag("warmup", int, "steps over which it goes up", 0),
    Flag("schedule", str, "what it does then", "constant", SCHEDULES),
    Flag("floor", float, "share of it that a cosine ends with", 0.0),
    Flag("weight_decay", float, "of matrices", 0.01),
    Flag("betas", float, "how long AdamW remembers", (0.9, 0.999), numbers=2),
    Flag("clip", _limit, "longest gradient, or none", 1.0),
    Flag("label_smoothing", float, "share that goes to all tokens alike", 0.0),
    Flag("precision", str, "bf16 computes in bfloat16 what bears it", "fp32", ("fp32", "bf16")),
    Flag("seed", int, "of the first parameters, the batches and dropout", 0),
    Flag("evaluate_every", int, "steps between evaluations", 100),
    Flag("target", float, "stop once this accuracy is reached", shown="never"),
)
RUN = (
    Flag("out", _path, "folder for checkpoints and log.jsonl", shown="runs/RECIPE"),
    Flag("every", int, "steps between checkpoints", 100),
    Flag("keep", int, "how many checkpoints stay, the newest", 2),
    Flag("export", _path, "write the weights alone to this file at the end", shown="no"),
    Flag("export_dtype", str, "what it holds them in", "float32", ("float32", "float16")),
    Flag("progress", bool, "show a bar", shown="on a terminal"),
)
MACHINE = (
    Flag("device", str, "cpu, cuda, cuda:1, ...", "auto"),
    Flag("parallel", str, "how processes that torchrun started share the work", choices=KINDS, shown="ddp"),
    Flag("threads", int, "of the CPU, a process", shown="as PyTorch has it"),
    Flag("compile", bool, "compile the blocks: minutes first, then faster on a GPU", False),
)
SECTIONS = {"task": TASK, "model": MODEL, "training": TRAINING}


class Parser(argparse.ArgumentParser):
    """Of several processes, one speaks."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if leads():
            super()._print_message(message, file)


@dataclass(frozen=True)
class Order:
    """What was asked for.

    Attributes:
        recipe: which.
        given: what was said on the command line, by section and name.
        run: all of what concerns the run and the machine, defaults included.
    """

    recipe: Recipe
    given: Mapping[str, Mapping[str, Any]]
    run: argparse.Namespace
    parser: Parser

    def refuse(self, message: object) -> NoReturn:
        """Say what is wrong, in the words of the command line, and leave with status 2."""
        self.parser.error(in_flags(str(message)))

    def config(self) -> dict[str, Any]:
        """Everything that the numbers of a run depend on."""
        options = {**self.recipe.options, **self.given["task"]}
        vocab_size = self.recipe.task(**options).vocab_size
        model = self.recipe.config(vocab_size, **self.given["model"])
        return checkpoint.describe(self.recipe.name, options, model) | {"training": self._training()}

    def resumed(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a run that goes on: the saved one, which nothing that was said may contradict.

        More steps are no contradiction where the learning rate does not depend on how many there are.
        """
        if saved["recipe"] != self.recipe.name:
            raise ValueError(f"the run is one of {saved['recipe']}, not of {self.recipe.name}")
        config = {**saved, "training": dict(saved["training"])}
        for section, given in self.given.items():
            for name, value in given.items():
                old = saved[section].get(name)
                if old == value:
                    continue
                if name == "steps" and value > old and saved["training"]["schedule"] == "constant":
                    config["training"]["steps"] = value
                    continue
                raise ValueError(
                    f"{name}={_words(value)} cannot be resumed: the run has {name}={_words(old)}. Leave it out, or "
                    "start another run with another out"
                )
        return config

    def _training(self) -> dict[str, Any]:
        defaults = {flag.name: flag.default for flag in TRAINING}
        training = {**defaults, **self.recipe.training, **self.given["training"]}
        if "warmup" not in self.given["training"]:  # a short run warms up as long as it can
            training["warmup"] = max(min(training["warmup"], training["steps"]), 0)
        return training | {"betas": list(training["betas"])}


def parse(words: Sequence[str]) -> Order:
    """Read a command line; wrong ones end the program, as argparse does it."""
    parser = _parser(RECIPES[words[0]] if words and words[0] in RECIPES else None)
    said = vars(parser.parse_args(words))
    recipe = RECIPES[said["recipe"]]
    for flag in TASK:
        if flag.name in said and flag.name not in recipe.options:
            parser.error(in_flags(f"{flag.name} is nothing that {recipe.name} has"))
    given = {
        section: {flag.name: said[flag.name] for flag in flags if flag.name in said}
        for section, flags in SECTIONS.items()
    }
    run = {flag.name: said.get(flag.name, flag.default) for flag in (*RUN, *MACHINE)}
    run |= {name: name in said for name in ("resume", "overwrite")}
    run["out"] = run["out"] or Path("runs", recipe.name)
    return Order(recipe, given, argparse.Namespace(**run), parser)


def in_flags(message: str) -> str:
    """Name arguments as the command line does: ``d_model=3`` is ``--d-model=3``."""
    for flag in (*TASK, *MODEL, *TRAINING, *RUN, *MACHINE):
        words = rf"\b{flag.name}\b" if "_" in flag.name else rf"(?:^|(?<=and )){flag.name}\b|\b{flag.name}(?==)"
        message = re.sub(words, f"--{flag.name.replace('_', '-')}", message)
    return message


def _parser(recipe: Recipe | None) -> Parser:
    """For one recipe, with its defaults, or for all."""
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} {'RECIPE' if recipe is None else recipe.name} [options]",
        description=_description(recipe),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to train")
    what.add_argument("recipe", choices=tuple(RECIPES), metavar="RECIPE", help=", ".join(RECIPES))
    task = TASK if recipe is None else tuple(flag for flag in TASK if flag.name in recipe.options)
    for title, flags in (("the task", task), ("the model", MODEL), ("the training", TRAINING), ("the run", RUN)):
        if flags:
            group = parser.add_argument_group(title)
            for flag in flags:
                _add(group, flag, recipe)
    group.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in the folder")
    group.add_argument("--overwrite", action="store_true", help="throw away the run that is in the folder")
    group = parser.add_argument_group("the machine")
    for flag in MACHINE:
        _add(group, flag, recipe)
    return parser


def _add(group: Any, flag: Flag, recipe: Recipe | None) -> None:
    name = f"--{flag.name.replace('_', '-')}"
    words = f"{flag.help} (default: {_default(flag, recipe)})".replace("%", "%%")
    if flag.kind is bool:
        group.add_argument(name, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=words)
        return
    metavar = None if flag.choices else {int: "N", float: "X", _limit: "X", _path: "PATH"}.get(flag.kind, "NAME")
    group.add_argument(name, type=flag.kind, choices=flag.choices, nargs=flag.numbers, metavar=metavar, help=words)


def _default(flag: Flag, recipe: Recipe | None) -> str:
    """The default in words: of a recipe, or of all where they agree."""
    chosen = list(RECIPES.values()) if recipe is None else [recipe]
    plain = {each.name: each.default for each in fields(TransformerConfig)}
    found: dict[str, list[str]] = {}
    for each in chosen:
        own = {**each.options, **each.model, **each.training}
        if flag in TASK and flag.name not in own:
            continue
        value = own.get(flag.name, plain.get(flag.name, flag.default) if flag in MODEL else flag.default)
        found.setdefault((flag.shown or "none") if value is None else _words(value), []).append(each.name)
    first, *others = found
    return "; ".join([first, *(f"{words} for {', '.join(found[words])}" for words in others)])


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _description(recipe: Recipe | None) -> str:
    if recipe is not None:
        return (
            f"Train {recipe.name}: {recipe.summary}.\nWith the defaults it takes about {recipe.seconds} s on one core."
        )
    lines = [f"  {each.name:<11} {each.summary}, {each.seconds} s" for each in RECIPES.values()]
    return "\n".join(
        [
            "Train one of the book's models. The recipes, and about how long each takes on one core:",
            "",
            *lines,
            "",
            f"Each has defaults that work; `{PROGRAM} RECIPE --help` shows them alone.",
        ]
    )
