r"""Train a model: AdamW, a learning rate that warms up, gradients that are clipped, a record of it all.

>>> from companion.models import Seq2SeqTransformer, TransformerConfig
>>> from companion.tasks import reverse
>>> seed_everything(0)
>>> task = reverse(symbols=4, length=3)
>>> model = Seq2SeqTransformer(TransformerConfig(vocab_size=task.vocab_size, d_model=16, num_heads=2))
>>> history = train(model, task.batches(8), steps=3, lr=1e-3)
>>> history.steps
[1, 2, 3]
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from companion import check
from companion.history import History
from companion.losses import Batch, TokenLoss, token_loss
from companion.optimizer import learning_rate, make_optimizer

__all__ = ["History", "learning_rate", "make_optimizer", "seed_everything", "train"]

Loss = Callable[..., TokenLoss]
Evaluate = Callable[[nn.Module], float | Mapping[str, float]]


def seed_everything(seed: int = 0, *, deterministic: bool = False) -> None:
    """Seed every source of random numbers: Python's, NumPy's, PyTorch's on each device.

    On a CPU, with the same number of threads, the same seed then gives the same numbers.

    Args:
        seed: from 0 to 2**64 - 1.
        deterministic: on a GPU too: refuse operations that add up in an order of their own. Slower.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: ``seed`` is out of range.
    """
    if check.integer("seed", seed, minimum=0) >= 2**64:
        raise ValueError(f"seed must be less than 2**64, got {seed}")
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (other people's code draws from it)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(check.flag("deterministic", deterministic))


def train(
    model: nn.Module,
    batches: Iterable[Batch],
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
    evaluate: Evaluate | None = None,
    every: int = 100,
    target: float | None = None,
    progress: bool | None = None,
) -> History:
    """Train a model, on the device it is on.

    Args:
        model: one of :mod:`companion.models`, or called alike. It is left in eval mode, ready for use.
        batches: of a task, or any batches that ``loss`` knows; begun again where they end.
        steps: how many updates, at most.
        lr: the highest learning rate.
        warmup: over how many steps it goes up; see :func:`learning_rate`.
        schedule: what it does then, ``"constant"`` or ``"cosine"``.
        floor: the share of ``lr`` that a cosine ends with.
        weight_decay: see :func:`make_optimizer`.
        betas: see :func:`make_optimizer`.
        clip: the largest norm that the gradient of all parameters together may have; None for no limit.
        label_smoothing: see :func:`~companion.losses.cross_entropy`.
        accumulate: how many batches make one update. It is the update of one large batch: each real token weighs the
            same, in whichever batch it is.
        loss: called as ``loss(model, batch, label_smoothing=...)``, returns a sum and a count.
        evaluate: called with the model, in eval mode and without gradients, returns an accuracy, or several numbers by
            name.
        every: how many steps between evaluations; there is one at the end in any case.
        target: stop when the evaluation's accuracy is at least this.
        progress: show a bar; by default on a terminal and in a notebook. The variable ``TQDM_DISABLE=1`` hides it.

    Returns:
        What happened.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a number out of range, no batches, a batch without a token that counts, or a ``target`` for which
            ``evaluate`` has no accuracy.
        FloatingPointError: the loss or the gradient is no longer finite; the message names the step. The parameters
            are those before that step.
    """
    optimizer = make_optimizer(model, lr=lr, weight_decay=weight_decay, betas=betas)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    rate = {"lr": lr, "steps": steps, "warmup": warmup, "schedule": schedule, "floor": floor}
    learning_rate(1, **rate)  # type: ignore[arg-type]
    limit = math.inf if clip is None else check.positive("clip", clip)
    check.probability("label_smoothing", label_smoothing)
    check.integer("accumulate", accumulate)
    check.integer("every", every)
    _check_hooks(loss, evaluate, target)
    supply = _endless(batches)
    device = parameters[0].device
    history = History()
    model.train()
    try:
        with _bar(steps, progress) as bar:
            for step in range(1, steps + 1):
                begin = time.perf_counter()
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(step, **rate)  # type: ignore[arg-type]
                optimizer.zero_grad()
                total, tokens = _backward(
                    model, [next(supply) for _ in range(accumulate)], loss, label_smoothing, device
                )
                for parameter in parameters:  # the mean's gradient, once all tokens have been counted
                    if parameter.grad is not None:
                        parameter.grad /= tokens
                norm = nn.utils.clip_grad_norm_(parameters, limit)
                mean, size, count = torch.stack([total / tokens, norm.to(total), tokens.to(total)]).tolist()
                _check_finite(step, mean, size, count)
                optimizer.step()
                history.steps.append(step)
                history.loss.append(mean)
                history.learning_rate.append(optimizer.param_groups[0]["lr"])
                history.gradient_norm.append(size)
                history.tokens_per_second.append(count / (time.perf_counter() - begin))
                if evaluate is not None and (step % every == 0 or step == steps):
                    history.evaluations.append({"step": step} | _evaluate(model, evaluate, target))
                    history.reached = target is not None and history.evaluations[-1]["accuracy"] >= target
                bar.update(1)
                bar.set_postfix({k: f"{v:.3g}" for k, v in history.final.items() if k != "step"}, refresh=False)
                if history.reached:
                    break
    finally:
        model.eval()
    return history


def _backward(
    model: nn.Module, batches: list[Batch], loss: Loss, label_smoothing: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Add up losses, tokens and, in the parameters, gradients of the sum."""
    totals, tokens = [], []
    for batch in batches:
        part = loss(model, batch.to(device), label_smoothing=label_smoothing)
        if not isinstance(part, TokenLoss):
            raise TypeError(f"loss must return a TokenLoss, got {type(part).__name__}")
        part.total.backward()
        totals.append(part.total.detach())
        tokens.append(part.tokens)
    return torch.stack(totals).sum(), torch.stack(tokens).sum()


@torch.no_grad()
def _evaluate(model: nn.Module, evaluate: Evaluate, target: float | None) -> dict[str, float]:
    model.eval()
    said = evaluate(model)
    model.train()
    numbers = dict(said) if isinstance(said, Mapping) else {"accuracy": said}
    if target is not None and "accuracy" not in numbers:
        raise ValueError(f"evaluate must return an accuracy where there is a target, got {', '.join(numbers)}")
    return {name: check.real(f"evaluate's {name}", number) for name, number in numbers.items()}


def _endless(batches: Iterable[Batch]) -> Iterator[Batch]:
    if isinstance(batches, (Tensor, str, tuple)) or not isinstance(batches, Iterable):  # one batch is a tuple
        raise TypeError(f"batches must be several batches, in a list or an iterator, got {type(batches).__name__}")
    return _again_and_again(batches)


def _again_and_again(batches: Iterable[Batch]) -> Iterator[Batch]:
    seen = 0
    while True:
        before = seen
        for batch in batches:
            seen += 1
            yield batch
        if seen == before:
            raise ValueError(f"batches must not end, or be something to begin again; got {seen} and then no more")


def _check_hooks(loss: object, evaluate: object, target: object) -> None:
    if not callable(loss):
        raise TypeError(f"loss must be callable, got {type(loss).__name__}")
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
def _bar(steps: int, progress: bool | None) -> Iterator[Any]:
    from tqdm.auto import tqdm

    if progress is not None:
        check.flag("progress", progress)
    shown = _watched() if progress is None else progress
    with tqdm(total=steps, unit="step", leave=False, disable=not shown) as bar:
        yield bar


def _watched() -> bool:
    """Whether somebody looks: a terminal or a notebook, no log file."""
    if os.environ.get("TQDM_DISABLE", "0") != "0":  # tqdm itself would look only when it is first imported
        return False
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return sys.stderr.isatty() or getattr(shell, "kernel", None) is not None
