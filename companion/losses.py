r"""How wrong a model is, over real tokens, each counted once.

.. math:: \text{loss} = -\frac1N \sum_{t\ \text{real}} \log p(x_t \mid \dots)

A sum and a count are kept apart, so that padding weighs nothing, and several batches together give what one large
batch gives. What the labels of a batch are depends on its kind, and is said once, in :func:`predictions`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import check
from companion.batch import LabelBatch, PairBatch, TextBatch
from companion.typing import Bool, Float, Int

__all__ = [
    "Predictions",
    "TokenLoss",
    "cross_entropy",
    "predictions",
    "token_loss",
]

Batch: TypeAlias = PairBatch | TextBatch | LabelBatch
_IGNORED = -100


class Predictions(NamedTuple):
    """What a model says, what is right, and where it counts.

    Attributes:
        logits: ``(B, L, V)``.
        labels: ``(B, L)``.
        counted: ``True`` where the label counts, ``(B, L)``.
    """

    logits: Float[Tensor, "B L V"]
    labels: Int[Tensor, "B L"]
    counted: Bool[Tensor, "B L"]


class TokenLoss(NamedTuple):
    """A loss as a sum and a count.

    Attributes:
        total: the sum over all tokens that count, in nats.
        tokens: how many those are.
    """

    total: Float[Tensor, ""]
    tokens: Int[Tensor, ""]

    @property
    def mean(self) -> Float[Tensor, ""]:
        """The loss a token; 0 where there is none."""
        return self.total / self.tokens.clamp(min=1)


def predictions(model: nn.Module, batch: Batch) -> Predictions:
    """Run a model on a batch, with the labels in their places.

    For an encoder-decoder the decoder reads the target without its last token, and is to answer the target without its
    first: the shift is here, and nowhere else. A decoder alone reads a text likewise. An encoder answers in place.

    Args:
        model: called as the models of :mod:`companion.models`: a ``Seq2SeqTransformer`` for a ``PairBatch``, a
            ``DecoderOnly`` for a ``TextBatch``, an ``EncoderOnly`` with a head for a ``LabelBatch``.
        batch: on the model's device.

    Returns:
        Logits, labels, and where they count. Padding does not, nor what stands right after padding on the left.

    Raises:
        TypeError: ``model`` is no module, or ``batch`` of no such kind.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(batch, PairBatch):
        read, real = batch.target[:, :-1], batch.target_real[:, :-1]
        logits = model(batch.source, read, source_real=batch.source_real, target_real=real)
        return Predictions(logits, batch.target[:, 1:], batch.target_real[:, 1:])
    if isinstance(batch, TextBatch):
        real = batch.real[:, :-1]
        counted = (batch.real if batch.counted is None else batch.counted & batch.real)[:, 1:] & real
        return Predictions(model(batch.ids[:, :-1], real=real), batch.ids[:, 1:], counted)
    if isinstance(batch, LabelBatch):
        hidden = model(batch.ids, real=batch.real)
        return Predictions(model.logits(hidden), batch.labels, batch.counted & batch.real)  # type: ignore[operator]
    raise TypeError(f"batch must be a PairBatch, TextBatch or LabelBatch, got {type(batch).__name__}")


def token_loss(model: nn.Module, batch: Batch, *, label_smoothing: float = 0.0) -> TokenLoss:
    """The loss of a model on a batch of any kind.

    Args:
        model: see :func:`predictions`.
        batch: see :func:`predictions`.
        label_smoothing: see :func:`cross_entropy`.

    Returns:
        Sum and count; ``.mean`` is the loss a token.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: ``label_smoothing`` is outside 0 to 1.
    """
    return cross_entropy(*predictions(model, batch), label_smoothing=label_smoothing)


def cross_entropy(
    logits: Float[Tensor, "B L V"],
    labels: Int[Tensor, "B L"],
    counted: Bool[Tensor, "B L"] | None = None,
    *,
    label_smoothing: float = 0.0,
) -> TokenLoss:
    r"""How surprised the model is by what is right.

    .. math:: (1 - \epsilon)\,(-\log p_{\text{right}}) + \frac{\epsilon}{V} \sum_v -\log p_v

    Args:
        logits: ``(B, L, V)``.
        labels: ``(B, L)``; what stands where ``counted`` is ``False`` may be anything.
        counted: ``True`` where the label counts, ``(B, L)``; everywhere if not given.
        label_smoothing: the share :math:`\epsilon` that goes to all tokens alike, so that the model does not become
            too sure.

    Returns:
        Sum and count, computed in float32 at least.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: shapes that do not fit, or ``label_smoothing`` outside 0 to 1.

    Example:
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 9.0]]])  # a guess, and a token that is padding
        >>> cross_entropy(logits, torch.tensor([[1, 0]]), torch.tensor([[True, False]])).mean  # log 2
        tensor(0.6931)

    Source: Szegedy et al., 2015 (arXiv:1512.00567), section 7, for the smoothing.
    """
    check_predictions(logits, labels, counted)
    epsilon = check.probability("label_smoothing", label_smoothing)
    tokens = torch.as_tensor(labels.numel(), device=labels.device)
    if counted is not None:
        labels, tokens = labels.masked_fill(~counted, _IGNORED), counted.sum()
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    total = F.cross_entropy(
        wide.flatten(0, 1), labels.flatten(), ignore_index=_IGNORED, reduction="sum", label_smoothing=epsilon
    )
    return TokenLoss(total, tokens)


def check_predictions(logits: Tensor, labels: Tensor, counted: Tensor | None) -> None:
    check.floating("logits", logits)
    if logits.dim() != 3 or not logits.shape[-1]:
        raise ValueError(f"logits must have shape (B, L, V), got {check.shape(logits)}")
    table = check.tensor("labels", labels)
    if table.dtype is not torch.int64:
        raise TypeError(f"labels must be int64, got {table.dtype}")
    if table.shape != logits.shape[:2]:
        raise ValueError(f"labels must have shape (B, L) = {check.shape(logits)[:2]}, got {check.shape(table)}")
    if counted is not None:
        check_table("counted", counted, labels)


def check_table(name: str, x: Tensor, ids: Tensor) -> None:
    if check.tensor(name, x).dtype is not torch.bool:
        raise TypeError(f"{name} must be boolean, got {x.dtype}")
    if x.shape != ids.shape:
        raise ValueError(f"{name} must have shape (B, L) = {check.shape(ids)}, got {check.shape(x)}")
