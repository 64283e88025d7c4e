"""The training loop itself, which :func:`companion.training.train` and ``python -m companion.train`` share."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from companion import check
from companion.history import History
from companion.losses import Batch, TokenLoss, token_loss
from companion.optimizer import learning_rate, make_optimizer
from companion.parallel import Alone

__all__: list[str] = []

Loss = Callable[..., TokenLoss]
Evaluate = Callable[[nn.Module], float | Mapping[str, float]]


class Trainer:
    """A model, its optimizer, and what happened to them; the arguments are those of ``train``, and two more.

    Args:
        model: to be trained.
        team: the processes that train it together.
        half: compute in bfloat16 what bears it; parameters, gradients and losses stay as they are.

    Attributes:
        history: so far. A run that goes on from a checkpoint fills it in first.
        parameters: those that are trained, by name.
        optimizer: AdamW.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        steps: int,
        lr: float = 1e-3,
        warmup: int = 0,
        schedule: str = "constant",
        floor: float = 0.0,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        clip: float | None = 1.0,
        label_smoothing: float = 0.0,
        accumulate: int = 1,
        loss: Loss = token_loss,
        team: Alone | None = None,
        half: bool = False,
    ) -> None:
        self.model = check.module("model", model)
        self.team = Alone() if team is None else team
        self.team.wrap(model)
        self.optimizer = make_optimizer(model, lr=lr, weight_decay=weight_decay, betas=betas)
        trained = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.parameters = {names[id(parameter)]: parameter for parameter in trained}
        self.device = trained[0].device
        self.rate: dict[str, Any] = {"lr": lr, "steps": steps, "warmup": warmup, "schedule": schedule, "floor": floor}
        learning_rate(1, **self.rate)
        self.steps = steps
        self.limit = math.inf if clip is None else check.positive("clip", clip)
        self.label_smoothing = check.probability("label_smoothing", label_smoothing)
        self.accumulate = check.integer("accumulate", accumulate)
        if not callable(loss):
            raise TypeError(f"loss must be callable, got {type(loss).__name__}")
        self.loss = loss
        self.half = half
        self.history = History()

    def run(
        self,
        supply: Iterator[Batch],
        *,
        evaluate: Evaluate | None = None,
        every: int = 100,
        target: float | None = None,
        progress: bool | None = None,
        after: Callable[[Trainer], bool] | None = None,
    ) -> History:
        """Take all steps that are left.

        Args:
            supply: batches without an end; of the next step first.
            evaluate: see ``train``.
            every: see ``train``.
            target: see ``train``.
            progress: see ``train``.
            after: called after each step and its evaluation; True ends the run.
        """
        _check_hooks(evaluate, every, target)
        history = self.history
        self.model.train()
        try:
            with _bar(self.steps, len(history.steps), progress) as bar:
                for step in range(len(history.steps) + 1, self.steps + 1):
                    self.update(supply)
                    if evaluate is not None and (step % every == 0 or step == self.steps):
                        history.evaluations.append({"step": step} | self.evaluate(evaluate, target))
                        history.reached = target is not None and history.evaluations[-1]["accuracy"] >= target
                    bar.update(1)
                    bar.set_postfix({k: f"{v:.3g}" for k, v in history.final.items() if k != "step"}, refresh=False)
                    if (after is not None and after(self)) or history.reached:
                        break
        finally:
            self.model.eval()
        return history

    def update(self, supply: Iterator[Batch]) -> None:
        """One step: gradients of the mean over all real tokens, clipped, followed by AdamW."""
        begin = time.perf_counter()
        history, step = self.history, len(self.history.steps) + 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, **self.rate)
        self.optimizer.zero_grad()
        total, tokens = self._backward([next(supply) for _ in range(self.accumulate)])
        weight = tokens / self.team.world  # several processes' gradients come as their mean
        for parameter in self.parameters.values():  # the mean's gradient, once all tokens have been counted
            if parameter.grad is not None:
                parameter.grad /= weight
        norm = self.team.whole(nn.utils.clip_grad_norm_(self.parameters.values(), self.limit))
        mean, size, count = torch.stack([total / tokens, norm.to(total), tokens.to(total)]).tolist()
        _check_finite(step, mean, size, count)
        self.optimizer.step()
        history.steps.append(step)
        history.loss.append(mean)
        history.learning_rate.append(self.optimizer.param_groups[0]["lr"])
        history.gradient_norm.append(size)
        history.tokens_per_second.append(count / (time.perf_counter() - begin))

    @torch.no_grad()
    def evaluate(self, evaluate: Evaluate, target: float | None = None) -> dict[str, float]:
        """What an evaluation says, as numbers by name."""
        self.model.eval()
        with self._precision():
            said = self.team.evaluate(evaluate)
        self.model.train()
        numbers = dict(said) if isinstance(said, Mapping) else {"accuracy": said}
        if target is not None and "accuracy" not in numbers:
            raise ValueError(f"evaluate must return an accuracy where there is a target, got {', '.join(numbers)}")
        numbers = {name: check.real(f"evaluate's {name}", number) for name, number in numbers.items()}
        return self.team.agree(numbers)

    def _backward(self, batches: list[Batch]) -> tuple[Tensor, Tensor]:
        """Add up losses, tokens and, in the parameters, gradients of the sum."""
        totals, tokens = [], []
        for number, batch in enumerate(batches, 1):
            here = self.team.rows(batch).to(self.device)
            with self._precision():
                part = self.team.forward(
                    self.loss, here, last=number == len(batches), label_smoothing=self.label_smoothing
                )
            if not isinstance(part, TokenLoss):
                raise TypeError(f"loss must return a TokenLoss, got {type(part).__name__}")
            part.total.backward()
            totals.append(part.total.detach())
            tokens.append(part.tokens)
        total, count = self.team.add(torch.stack(totals).sum(), torch.stack(tokens).sum())
        return total, count

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self.half else nullcontext()


def watched() -> bool:
    """Whether somebody looks: a terminal or a notebook, no log file."""
    if os.environ.get("TQDM_DISABLE", "0") != "0":  # tqdm itself would look only when it is first imported
        return False
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return sys.stderr.isatty() or getattr(shell, "kernel", None) is not None


def _check_hooks(evaluate: object, every: object, target: object) -> None:
    check.integer("every", every)
    if evaluate is not None and not callable(evaluate):
        raise TypeError(f"evaluate must be callable, got {type(evaluate).__name__}")
    if target is not None:
        check.real("target", target)
        if evaluate is None:
            raise ValueError(f"target={target} needs an evaluate that says when it is met, got None")


def _check_finite(step: int, loss: float, norm: float, tokens: float) -> None:
    if not tokens:
        raise ValueError(f"batches must have a token that counts, got none at step {step}")
    for name, number in (("loss", loss), ("gradient's norm", norm)):
        if not math.isfinite(number):
            raise FloatingPointError(
                f"the {name} is {number} at step {step}: a lower learning rate, warm-up or clipping may help, or the "
                "inputs are not finite"
            )


@contextmanager
def _bar(steps: int, done: int, progress: bool | None) -> Iterator[Any]:
    from tqdm.auto import tqdm

    if progress is not None:
        check.flag("progress", progress)
    shown = watched() if progress is None else progress
    with tqdm(total=steps, initial=done, unit="step", leave=False, disable=not shown) as bar:
        yield bar
