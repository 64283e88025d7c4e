"""What a model is trained on: a batch for each of the three kinds of model, with masks that say what is real."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from companion.typing import Bool, Int

__all__ = ["LabelBatch", "PairBatch", "TextBatch"]


class PairBatch(NamedTuple):
    """For an encoder-decoder: read the source, write the target.

    Attributes:
        source: ids, ``(B, S)``; no start or end.
        target: ids, ``(B, L)``; start token, text, end token. What the decoder reads is ``target[:, :-1]``, what it
            is to answer ``target[:, 1:]``.
        source_real: ``True`` for a real token, ``(B, S)``.
        target_real: likewise, ``(B, L)``; start and end are real.
        alignment: ``True`` where a source token tells a target token, ``(B, L, S)``; None where that is not known. The
            decoder writes target token t at position t - 1: compare ``alignment[:, 1:]`` with the weights of its
            cross attention.
    """

    source: Int[Tensor, "B S"]
    target: Int[Tensor, "B L"]
    source_real: Bool[Tensor, "B S"]
    target_real: Bool[Tensor, "B L"]
    alignment: Bool[Tensor, "B L S"] | None = None

    def to(self, device: torch.device | str) -> PairBatch:
        """The same on another device."""
        alignment = None if self.alignment is None else self.alignment.to(device)
        source, target, source_real, target_real = (x.to(device) for x in self[:4])
        return PairBatch(source, target, source_real, target_real, alignment)

    def labels(self) -> LabelBatch:
        """For an encoder alone: write the target's token t in the place of the source's token t.

        Raises:
            ValueError: a target that is not as long as its source.
        """
        length = self.source.shape[1]
        if not torch.equal(self.target_real[:, 2:], self.source_real):
            raise ValueError("each target must be as long as its source, start and end token apart")
        return LabelBatch(self.source, self.source_real, self.target[:, 1 : 1 + length], self.source_real)


class TextBatch(NamedTuple):
    """For a decoder: predict each next token.

    Attributes:
        ids: ``(B, L)``. What the model reads is ``ids[:, :-1]``, what it is to answer ``ids[:, 1:]``.
        real: ``True`` for a real token, ``(B, L)``.
        counted: ``True`` for a token that can be known from what came before, ``(B, L)``, so that its prediction
            counts; None if all do that are real.
        period: after how many tokens each row repeats, ``(B,)``; None where it does not.
    """

    ids: Int[Tensor, "B L"]
    real: Bool[Tensor, "B L"]
    counted: Bool[Tensor, "B L"] | None = None
    period: Int[Tensor, " B"] | None = None

    def to(self, device: torch.device | str) -> TextBatch:
        """The same on another device."""
        counted, period = (x if x is None else x.to(device) for x in self[2:])
        return TextBatch(self.ids.to(device), self.real.to(device), counted, period)


class LabelBatch(NamedTuple):
    """For an encoder: a label for each token, where one is wanted.

    Attributes:
        ids: ``(B, L)``.
        real: ``True`` for a real token, ``(B, L)``.
        labels: ``(B, L)``.
        counted: ``True`` where the label is wanted, ``(B, L)``.
    """

    ids: Int[Tensor, "B L"]
    real: Bool[Tensor, "B L"]
    labels: Int[Tensor, "B L"]
    counted: Bool[Tensor, "B L"]

    def to(self, device: torch.device | str) -> LabelBatch:
        """The same on another device."""
        return LabelBatch(*(x.to(device) for x in self))
