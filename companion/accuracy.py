"""How often a model is right: by token, and by whole sequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from companion import check
from companion.batch import LabelBatch, PairBatch, TextBatch
from companion.losses import Batch, Predictions, check_predictions, predictions
from companion.typing import Bool, Float, Int

__all__ = ["Accuracy", "accuracy", "sequence_accuracy", "token_accuracy"]


class Accuracy(NamedTuple):
    """How much is right.

    Attributes:
        tokens: the share of tokens.
        sequences: the share of rows without a mistake.
    """

    tokens: float
    sequences: float


def token_accuracy(
    logits: Float[Tensor, "B L V"], labels: Int[Tensor, "B L"], counted: Bool[Tensor, "B L"] | None = None
) -> float:
    """The share of tokens for which the right one is scored highest.

    Args:
        logits: ``(B, L, V)``.
        labels: ``(B, L)``.
        counted: ``True`` where the label counts, ``(B, L)``; everywhere if not given.

    Returns:
        From 0 to 1.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: shapes that do not fit, or nothing that counts.

    Example:
        >>> logits = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])
        >>> token_accuracy(logits, torch.tensor([[1, 0]]))
        0.5
    """
    return _right([Predictions(logits, labels, _all(logits, labels, counted))]).tokens


def sequence_accuracy(
    logits: Float[Tensor, "B L V"], labels: Int[Tensor, "B L"], counted: Bool[Tensor, "B L"] | None = None
) -> float:
    """The share of rows in which every token is right.

    Args:
        logits: ``(B, L, V)``.
        labels: ``(B, L)``.
        counted: ``True`` where the label counts, ``(B, L)``; everywhere if not given. Rows where none does are left
            out.

    Returns:
        From 0 to 1.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: shapes that do not fit, or nothing that counts.

    Example:
        >>> logits = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])
        >>> sequence_accuracy(logits, torch.tensor([[1, 0]]))
        0.0
    """
    return _right([Predictions(logits, labels, _all(logits, labels, counted))]).sequences


@torch.no_grad()
def accuracy(model: nn.Module, batches: Batch | Iterable[Batch]) -> Accuracy:
    """How much a model gets right when it is told all earlier tokens ("teacher forcing").

    What it writes by itself is for :mod:`companion.generate`; a whole sequence is right there exactly where it is here.

    Args:
        model: see :func:`predictions`. It is run in eval mode, and left in the mode it was in.
        batches: one, or several; moved to the model's device.

    Returns:
        The share of tokens, and the share of whole sequences.

    Raises:
        TypeError: ``batches`` is of no such kind.
        ValueError: nothing that counts.
    """
    check.module("model", model)
    some = [batches] if isinstance(batches, (PairBatch, TextBatch, LabelBatch)) else batches
    if not isinstance(some, Iterable):
        raise TypeError(f"batches must be a batch or several, got {type(batches).__name__}")
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        return _right(predictions(model, _batch(batch).to(device)) for batch in some)
    finally:
        model.train(training)


def _batch(batch: Batch) -> Batch:
    if not isinstance(batch, (PairBatch, TextBatch, LabelBatch)):
        raise TypeError(f"batches must be a batch or several, got one that is a {type(batch).__name__}")
    return batch


def _right(several: Iterable[Predictions]) -> Accuracy:
    counts = [0, 0, 0, 0]
    for logits, labels, counted in several:
        right = (logits.argmax(-1) == labels) & counted
        some = counted.any(-1)  # rows where something counts
        whole = (right == counted).all(-1) & some
        for i, number in enumerate(torch.stack([right.sum(), counted.sum(), whole.sum(), some.sum()]).tolist()):
            counts[i] += number
    if not counts[1]:
        raise ValueError("counted must be True for a token at least, got none")
    return Accuracy(counts[0] / counts[1], counts[2] / counts[3])


def _all(logits: Tensor, labels: Tensor, counted: Tensor | None) -> Tensor:
    check_predictions(logits, labels, counted)
    return torch.ones_like(labels, dtype=torch.bool) if counted is None else counted
