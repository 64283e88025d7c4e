"""What all ways of writing share: texts that grow, a model that scores what comes next, and its cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from companion import check
from companion.models import DecoderOnly, Seq2SeqTransformer
from companion.stack import checked_real
from companion.typing import Bool, Float, Int

__all__: list[str] = []

Model = DecoderOnly | Seq2SeqTransformer


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; afterwards every part of the model is in the mode that it was in."""
    if not isinstance(model, (DecoderOnly, Seq2SeqTransformer)):
        raise TypeError(f"model must be a DecoderOnly or a Seq2SeqTransformer, got {type(model).__name__}")
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


class Writer:
    """Texts that grow by a token at a time.

    A text that has ended is filled up with ``pad_id``, or with ``end_id`` where the model has none.
    """

    def __init__(
        self,
        model: Model,
        prompt: Int[Tensor, "B L"],
        max_new_tokens: int,
        *,
        end_id: int | None,
        real: Bool[Tensor, "B L"] | None,
        source: Int[Tensor, "B S"] | None,
        source_real: Bool[Tensor, "B S"] | None,
        use_cache: bool,
    ) -> None:
        config = model.config
        self.model = model
        self.texts = _checked_prompt(prompt, model).long()
        self.real = _real_of_prompt(self.texts, real, config.pad_id)
        self.left = check.integer("max_new_tokens", max_new_tokens)
        self.end_id = end_id
        if end_id is not None and check.integer("end_id", end_id, minimum=0) >= config.vocab_size:
            raise ValueError(f"end_id must be less than vocab_size={config.vocab_size}, got {end_id}")
        self.fill = config.pad_id if config.pad_id is not None else (end_id or 0)
        self.done = torch.zeros_like(self.texts[:, 0], dtype=torch.bool)
        if config.positions == "learned":
            _check_positions(self.texts, self.real, max_new_tokens, config.max_length)
        self.memory, self.source_real = self._read(source, source_real)
        room = self.texts.shape[1] + max_new_tokens
        self.cache = model.new_cache(room) if check.flag("use_cache", use_cache) else None
        self.memory_cache = model.new_cache(1) if use_cache and self.memory is not None else None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to write."""
        return not self.left or bool(self.done.all())

    def logits(self) -> Float[Tensor, "B V"]:
        """Score the next token of each text, in float32 at least."""
        new = self.texts if self.cache is None else self.texts[:, self.cache.length :]
        if isinstance(self.model, DecoderOnly):
            scores = self.model(new, real=self.real, cache=self.cache)
        else:
            assert self.memory is not None
            scores = self.model.decode(
                new,
                self.memory,
                source_real=self.source_real,
                target_real=self.real,
                cache=self.cache,
                memory_cache=self.memory_cache,
            )
        last: Tensor = scores[:, -1]
        return last if last.dtype is torch.float64 else last.float()

    def write(self, tokens: Int[Tensor, " B"]) -> None:
        """Add a token to each text that has not ended."""
        tokens = tokens.masked_fill(self.done, self.fill)
        self.texts = torch.cat([self.texts, tokens.unsqueeze(1)], dim=1)
        if self.real is not None:  # what is written is real, whatever its id
            self.real = torch.cat([self.real, self.real.new_ones(len(tokens), 1)], dim=1)
        if self.end_id is not None:
            self.done = self.done | (tokens == self.end_id)
        self.left -= 1

    def take(self, rows: Int[Tensor, " R"]) -> None:
        """Go on from these texts, some of them twice and some not at all."""
        grows = len(rows) != len(self.texts)
        self.texts, self.done = self.texts[rows], self.done[rows]
        self.real = None if self.real is None else self.real[rows]
        if self.cache is not None:
            self.cache.reorder(rows)
        if grows:  # beams never leave their entry, whose memory is the same for all
            self.memory = None if self.memory is None else self.memory[rows]
            self.source_real = None if self.source_real is None else self.source_real[rows]
            if self.memory_cache is not None:
                self.memory_cache.reorder(rows)

    def _read(self, source: Tensor | None, source_real: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The memory, and which of it is real."""
        if isinstance(self.model, DecoderOnly):
            for name, given in (("source", source), ("source_real", source_real)):
                if given is not None:
                    raise ValueError(f"{name} must be None for a DecoderOnly model, which reads its prompt alone")
            return None, None
        if source is None:
            raise ValueError("source must be given to a Seq2SeqTransformer: what it is to read")
        config = self.model.config
        check.ids("source", source, config.vocab_size)
        if source.shape[0] != self.texts.shape[0]:
            raise ValueError(
                f"source must have the batch of prompt, {self.texts.shape[0]}, got shape {check.shape(source)}"
            )
        if source_real is None and config.pad_id is not None:
            source_real = source != config.pad_id
        return self.model.encode(source, source_real=source_real), source_real


def _checked_prompt(prompt: Tensor, model: Model) -> Tensor:
    ids = check.ids("prompt", prompt, model.config.vocab_size)
    if not ids.shape[1]:
        raise ValueError(f"prompt must have at least one token to go on from, got shape {check.shape(ids)}")
    device = model.embedding.tokens.weight.device
    if ids.device != device:
        raise ValueError(f"prompt must be on the model's device, {device}, got {ids.device}")
    return ids


def _real_of_prompt(prompt: Tensor, real: Tensor | None, pad_id: int | None) -> Tensor | None:
    if real is not None:
        checked_real("real", real, check.shape(prompt), prompt.device)
    elif pad_id is not None:
        real = prompt != pad_id
    if real is not None and not bool(real[:, -1].all()):
        raise ValueError("prompt must be padded on the left, since writing goes on at its end; see pad_left")
    return real


def _check_positions(prompt: Tensor, real: Tensor | None, max_new_tokens: int, max_length: int) -> None:
    """Refuse now what learned positions would refuse halfway."""
    longest = prompt.shape[1]
    if real is not None:
        longest = int(real.sum(-1).max()) if real.numel() else 0
    needed = longest + max_new_tokens - 1  # the last token is not read again
    if needed > max_length:
        raise ValueError(
            f"max_new_tokens={max_new_tokens} after {longest} tokens needs {needed} positions, "
            f"and the config's max_length is {max_length}"
        )
