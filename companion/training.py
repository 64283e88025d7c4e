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

import random
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from companion import check
from companion.history import History
from companion.losses import Batch, token_loss
from companion.optimizer import learning_rate, make_optimizer
from companion.trainer import Evaluate, Loss, Trainer

__all__ = ["History", "learning_rate", "make_optimizer", "seed_everything", "train"]


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
    trainer = Trainer(
        model,
        steps=steps,
        lr=lr,
        warmup=warmup,
        schedule=schedule,
        floor=floor,
        weight_decay=weight_decay,
        betas=betas,
        clip=clip,
        label_smoothing=label_smoothing,
        accumulate=accumulate,
        loss=loss,
    )
    return trainer.run(_endless(batches), evaluate=evaluate, every=every, target=target, progress=progress)


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
