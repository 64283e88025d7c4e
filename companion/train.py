"""``python -m companion.train``: train one of the book's models, stop, go on, use what came of it.

In one process, or in several under ``torchrun``, which then make the updates that one would make. What a run writes is
in a folder: checkpoints, from which it goes on bit for bit, and ``log.jsonl``, an object a line.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor

from companion import check, checkpoint, parallel, snapshot
from companion.blocks import DecoderBlock, EncoderBlock
from companion.interrupt import Interrupt
from companion.recipes import batch_at
from companion.run_folder import LOG, RunFolder
from companion.splitmix import SplitMix
from companion.train_flags import PROGRAM, Order, parse
from companion.trainer import Trainer
from companion.training import seed_everything

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Train, as the command line says.

    Args:
        argv: its words, without the program's name; those of this process if not given.

    Returns:
        The exit status: 0 when the run is finished, 1 when it failed (the loss was no longer finite, or the disk full),
        130 or 143 when Ctrl-C or SIGTERM ended it, with a checkpoint.

    Raises:
        SystemExit: ``--help`` (status 0), or words that make no sense (status 2).
        TypeError: ``argv`` is no list of words.
    """
    if argv is not None and (isinstance(argv, str) or not all(isinstance(word, str) for word in _list(argv))):
        raise TypeError(f"argv must be a list of words, got {argv!r:.60}")
    words = list(sys.argv[1:] if argv is None else argv)
    order = parse(words)
    with Interrupt(patient=parallel.launched()) as interrupt:
        try:
            device = parallel.pick_device(order.run.device)
            if order.run.threads is not None:
                torch.set_num_threads(check.integer("threads", order.run.threads))
            kind = order.run.parallel
            if kind is not None and not parallel.launched():
                raise ValueError(f"parallel={kind} needs torchrun to start the processes: {parallel.HOW}")
        except ValueError as error:
            order.refuse(error)
        with parallel.team(kind, device) as team:
            run = _Run(order, words, team, device, interrupt)
            try:
                return run.go()
            except KeyboardInterrupt:
                run.say("Stopped at once.", run.how_to_go_on())
                return 130
            except (FloatingPointError, OSError) as error:
                run.say(f"Stopped: {error}.", run.how_to_go_on(), file=sys.stderr)
                if parallel.launched():  # the others may be waiting for what this one will not say: let them know
                    parallel.leave(1)
                return 1
            finally:
                run.close()


class _Run:
    """One run, from an order to a summary."""

    def __init__(
        self, order: Order, words: list[str], team: parallel.Alone, device: torch.device, interrupt: Interrupt
    ) -> None:
        self.order, self.team, self.device, self.interrupt = order, team, device, interrupt
        self.options = order.run
        self.command = ["python", "-m", "companion.train", *words]
        self.folder: RunFolder | None = None
        self.saved = 0  # the step of the newest checkpoint
        self.logged = 0  # evaluations in the log
        self.stop = 0  # the number of a signal
        self.before, self.began = 0.0, time.perf_counter()  # seconds before this process, and its start

    def go(self) -> int:
        try:
            tensors, about = self._found()
            self.config = self.order.config() if about is None else self.order.resumed(about["config"])
            self._prepare(tensors, about)
        except (ValueError, FileExistsError, BlockingIOError) as error:
            self.order.refuse(error)
        history, training = self.trainer.history, self.config["training"]
        if len(history.steps) < training["steps"] and not history.reached:
            self.trainer.run(
                (self._batch(number) for number in count(len(history.steps) * training["accumulate"])),
                evaluate=self.evaluate,
                every=training["evaluate_every"],
                target=training["target"],
                progress=False if self.team.rank else self.options.progress,
                after=self._after,
            )
            if self.stop and len(history.steps) < training["steps"] and not history.reached:
                self.say(f"Stopped after step {self.saved}.", self.how_to_go_on())
                return 128 + self.stop
        else:
            self.say(f"{self.options.out} is finished already.")
        self._finish()
        return 0

    def say(self, *lines: str, file: Any = None) -> None:
        """Print, where one process speaks for all, and without tearing the bar."""
        if self.team.rank == 0:
            from tqdm.auto import tqdm

            for line in lines:
                tqdm.write(line, file=file or sys.stdout)

    def how_to_go_on(self) -> str:
        """What to type, if there is something to go on from."""
        found = checkpoint.newest(self.options.out)
        if found is None:
            return "There is no checkpoint yet."
        start = (
            PROGRAM if not parallel.launched() else f"torchrun --nproc-per-node={self.team.world} -m companion.train"
        )
        how = f" --parallel {self.team.name}" if self.team.world > 1 else ""
        return f"Go on from {found} with: {start} {self.order.recipe.name} --out {self.options.out} --resume{how}"

    def close(self) -> None:
        """Let go of the folder."""
        if self.folder is not None:
            self.folder.close()

    def _found(self) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
        """What the folder holds of a run that goes on."""
        out, options = self.options.out, self.options
        for name in ("every", "keep"):
            check.integer(name, getattr(options, name))
        if options.resume and options.overwrite:
            raise ValueError("--resume and --overwrite exclude each other")
        if out.exists() and not out.is_dir():
            raise FileExistsError(f"out={out} is a file, and must be a folder")
        found = checkpoint.newest(out)
        if found is not None and not (options.resume or options.overwrite):
            raise FileExistsError(
                f"{out} holds a run already ({found.name}): go on with --resume, throw it away with --overwrite, or "
                "choose another --out"
            )
        if found is None or options.overwrite:
            if options.resume:
                self.say(f"There is no checkpoint in {out} yet: this starts from the beginning.")
            return {}, None
        try:
            return checkpoint.read(found)
        except ValueError as error:
            *older, _ = checkpoint.checkpoints(out)
            raise ValueError(f"{error}{f'; delete it to go on from {older[-1]}' if older else ''}") from None

    def _prepare(self, tensors: dict[str, Tensor], about: dict[str, Any] | None) -> None:
        """Build everything, and put back what a checkpoint holds."""
        training = dict(self.config["training"])
        if check.integer("batch_size", training["batch_size"]) < self.team.world:
            raise ValueError(
                f"batch_size must be at least {self.team.world}, a row a process, got {training['batch_size']}"
            )
        if training["target"] is not None:
            check.probability("target", training["target"])
        check.integer("evaluate_every", training["evaluate_every"])
        seed_everything(training["seed"])
        model, self.task = checkpoint.build(self.config)
        model.to(self.device)
        if about is not None:
            model.load_state_dict({k.removeprefix("model."): x for k, x in tensors.items() if k.startswith("model.")})
        if self.options.compile:
            for module in model.modules():
                if isinstance(module, (EncoderBlock, DecoderBlock)):
                    module.compile()
        names = ("steps", "lr", "warmup", "schedule", "floor", "weight_decay", "clip", "label_smoothing", "accumulate")
        self.trainer = Trainer(
            model,
            **{name: training[name] for name in names},
            betas=tuple(training["betas"]),
            team=self.team,
            half=training["precision"] == "bf16",
        )
        self.evaluate = self.order.recipe.evaluation(**self.config["task"])
        if self.team.rank:  # each drops other features
            torch.manual_seed(int(SplitMix(training["seed"]).bits(self.team.rank + 1)[-1]))
        if about is not None:
            self._restore(tensors, about)
        self.team.wait()  # all have read, and the first may now remove
        if self.team.rank == 0:
            self.folder = RunFolder(self.options.out, self.options.keep)
            self.folder.begin(self.saved)

    def _restore(self, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
        snapshot.restore(self.trainer, tensors)
        history = self.trainer.history
        history.evaluations, history.reached = about["evaluations"], about["reached"]
        self.saved, self.logged, self.before = len(history.steps), len(history.evaluations), about["seconds"]
        self.say(f"Going on after step {self.saved}.")
        for name, now in self._where().items():
            if about["where"].get(name) != now:
                self.say(f"Note: {name} was {about['where'].get(name)} and is {now}: the last digits may differ.")

    def _where(self) -> dict[str, Any]:
        """What a run's last digits may depend on, beside its config."""
        return {
            "torch": torch.__version__,
            "device": self.device.type,
            "threads": torch.get_num_threads(),
            "processes": self.team.world,
            "parallel": self.team.name,
            "compiled": self.options.compile,
        }

    def _batch(self, number: int) -> Any:
        training = self.config["training"]
        return batch_at(self.task, training["batch_size"], training["seed"], number)

    def _after(self, trainer: Trainer) -> bool:
        """After each step: write it down, save if it is time, and say whether to stop."""
        history = trainer.history
        step, seconds = len(history.steps), self._seconds()
        if self.folder is not None:
            self.folder.log(
                event="step",
                step=step,
                loss=history.loss[-1],
                learning_rate=history.learning_rate[-1],
                gradient_norm=history.gradient_norm[-1],
                tokens_per_second=history.tokens_per_second[-1],
                time=seconds,
            )
            for said in history.evaluations[self.logged :]:
                self.folder.log(event="evaluation", **said, time=seconds)
                self.say(f"step {step}: loss {history.loss[-1]:.4f}, {_said(said)}")
        self.logged = len(history.evaluations)
        self.stop = self.team.most(self.interrupt.number or 0)  # a signal that one of the processes got
        if self.stop or step % self.options.every == 0 or step == trainer.steps or history.reached:
            self._save()
        return bool(self.stop)

    def _save(self) -> None:
        tensors = snapshot.capture(self.trainer)
        history = self.trainer.history
        self.saved = len(history.steps)
        if self.folder is not None:
            about = {
                "config": self.config,
                "step": self.saved,
                "evaluations": history.evaluations,
                "reached": history.reached,
                "seconds": self._seconds(),
                "command": self.command,
                "where": self._where(),
            }
            self.folder.save(self.saved, tensors, about)

    def _finish(self) -> None:
        """Export, and say what came of it."""
        history, out = self.trainer.history, self.options.out
        lines = [
            f"{self.order.recipe.name}: {len(history.steps)} steps in {self._seconds():.1f} s, {_said(history.final)}",
            f"checkpoint  {checkpoint.place(out, self.saved)}",
            f"log         {out / LOG}",
        ]
        if self.options.export is not None:
            weights = {name: self.team.whole(x) for name, x in self.trainer.model.state_dict().items()}
            if self.team.rank == 0:
                dtype = getattr(torch, self.options.export_dtype)
                config = {name: self.config[name] for name in ("recipe", "task", "model")}
                checkpoint.export(self.options.export, weights, config, dtype)
            lines.append(f"weights     {self.options.export}")
        lines.append(f'use it      model, task = companion.checkpoint.load("{self.options.export or out}")')
        self.say(*lines)

    def _seconds(self) -> float:
        return round(self.before + time.perf_counter() - self.began, 3)


def _said(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name} {number:.4f}" for name, number in numbers.items() if name != "step")


def _list(argv: object) -> Sequence[object]:
    return argv if isinstance(argv, Sequence) else [None]


if __name__ == "__main__":
    try:
        status = main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    except Exception:
        traceback.print_exc()
        status = 1
    parallel.leave(status)
