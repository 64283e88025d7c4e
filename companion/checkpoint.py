"""Trained weights in files: safetensors, with a description as JSON in its header. Nothing is unpickled.

A file is written beside its place, forced to the disk, and then renamed, which is all or nothing: whoever is killed
meanwhile leaves what was there before.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from companion import check
from companion.config import TransformerConfig
from companion.recipes import recipe
from companion.task import Task

__all__ = ["load"]

FORMAT = "companion 1"
_NAME = re.compile(r"checkpoint-(\d+)\.safetensors")
UNFINISHED = ".unfinished"


class Trained(NamedTuple):
    """What a file of weights holds.

    Attributes:
        model: in eval mode.
        task: that it was trained on.
    """

    model: nn.Module
    task: Task[Any]


def load(path: str | Path, device: torch.device | str | None = None) -> Trained:
    """Read a model that ``python -m companion.train`` has trained.

    Args:
        path: a file that it exported, a checkpoint, or the folder of a run, whose newest checkpoint is taken.
        device: where the model is to be; the CPU if not given.

    Returns:
        The model in float32, and its task: ``model, task = load("runs/reverse")``.

    Raises:
        FileNotFoundError: there is nothing at ``path``.
        TypeError: an argument of the wrong kind.
        ValueError: a folder without a checkpoint, a file that is damaged or is none of ours, or no such device.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"path must be a str or a Path, got {type(path).__name__}")
    place = check.device("device", device)
    file: Path | None = Path(path)
    if Path(path).is_dir():
        file = newest(Path(path))
        if file is None:
            raise ValueError(f"path must be a folder with a checkpoint in it, or a file; got {path}")
    assert file is not None
    tensors, about = read(file)
    prefix = "model."
    weights = {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
    try:
        model, task = build(about["config"])
        model.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{file} does not describe the model whose weights it holds: {error}") from None
    return Trained(model.eval().to(place), task)


def build(config: Mapping[str, Any]) -> Trained:
    """A new model, and its task, from what a file says of them."""
    made = recipe(config["recipe"])
    task = made.task(**config["task"])
    shape = TransformerConfig(**config["model"])
    if shape.vocab_size != task.vocab_size:
        raise ValueError(f"vocab_size is {shape.vocab_size}, and the task's is {task.vocab_size}")
    return Trained(made.kind(shape), task)


def describe(name: str, options: Mapping[str, Any], model: TransformerConfig) -> dict[str, Any]:
    """What :func:`build` needs, as JSON takes it."""
    return {"recipe": name, "task": dict(options), "model": asdict(model)}


def export(path: Path, weights: Mapping[str, Tensor], config: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Write weights alone, for :func:`load`."""
    write(path, {f"model.{name}": x.to("cpu", dtype) for name, x in weights.items()}, {"config": dict(config)})


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write a file, all or nothing.

    Not ``save_file``: that makes a temporary file of its own, whose name nobody knows afterwards.

    Args:
        path: where; a file that is there is replaced.
        tensors: on the CPU.
        about: anything that JSON takes.
    """
    from safetensors.torch import save

    ready = {name: x.detach().contiguous() for name, x in tensors.items()}
    words = json.dumps(about)
    header = {"format": FORMAT, "about": words, "crc32": _checksum(ready, words)}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(save(ready, metadata=header))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(path.parent)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file, and see whether it is whole.

    Args:
        path: of a file that :func:`write` wrote.

    Returns:
        Tensors by name, on the CPU, and what was said about them.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged, cut short, or no safetensors file: {error}") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} was not written by companion.train, which would have marked it {FORMAT!r}")
    if header.get("crc32") != _checksum(tensors, header.get("about", "")):
        raise ValueError(f"{path} is damaged: its checksum is not that of what it holds")
    about: dict[str, Any] = json.loads(header["about"])
    return tensors, about


def place(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step belongs."""
    return folder / f"checkpoint-{step:06}.safetensors"


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest last."""
    found = [(int(match[1]), path) for path in folder.glob("*") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def newest(folder: Path) -> Path | None:
    """The newest checkpoint in a folder, if there is one."""
    return next(reversed(checkpoints(folder)), None)


def tidy(folder: Path, keep: int) -> None:
    """Remove what a killed process left half written, and all but the newest checkpoints."""
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)
    found = checkpoints(folder)
    for path in found[: max(len(found) - keep, 0)]:
        path.unlink()


def _checksum(tensors: Mapping[str, Tensor], words: str) -> str:
    """Of all that a file holds: safetensors itself sees only whether the length is right."""
    total = zlib.crc32(words.encode())
    for name in sorted(tensors):
        x = tensors[name]
        total = zlib.crc32(f"{name} {x.dtype} {check.shape(x)}".encode(), total)
        total = zlib.crc32(x.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut; Windows cannot open a folder, and has no such thing."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
