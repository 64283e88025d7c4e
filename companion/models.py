r"""Three Transformers from one config: encoder-decoder, decoder-only, encoder-only.

All take ids ``(B, L)`` and know padding by ``real``, booleans that are ``True`` for a real token; where the config
names a ``pad_id``, they find it out themselves. Positions count from the first real token, so that a text padded on the
left gives what the text alone gives.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import check
from companion.blocks import DecoderBlock, EncoderBlock
from companion.cache import KVCache
from companion.config import TransformerConfig
from companion.embedding import TokenEmbedding
from companion.masks import Mask, padding
from companion.norms import make_norm
from companion.positions import Rotary, alibi_bias, position_ids
from companion.typing import Bool, Float, Int

__all__ = ["DecoderOnly", "EncoderOnly", "Seq2SeqTransformer", "TransformerConfig"]


class _Stack(nn.Module):
    """Blocks, their positions, and the last norm."""

    def __init__(self, config: TransformerConfig, blocks: list[EncoderBlock] | list[DecoderBlock]) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(blocks)
        self.norm = make_norm(config.norm, config.d_model, config.eps, bias=config.bias) if config.norm_first else None
        if config.norm_first:  # each block adds to the stream: keep its variance from growing with depth
            for block in blocks:
                for projection in (block.attention.W_O, block.feed_forward.W_2):
                    nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2 * len(blocks)))

    def bias(self, length: int, keys: int, device: torch.device) -> Tensor | None:
        """ALiBi's, where the config wants it."""
        if self.config.positions != "alibi":
            return None
        return alibi_bias(self.config.num_heads, length, keys, device)

    def forward(self, x: Tensor, *memory: Tensor, **options: Any) -> Tensor:
        for block in self.blocks:
            x = block(x, *memory, **options)
        return x if self.norm is None else self.norm(x)


def _rotary(config: TransformerConfig) -> Rotary | None:
    if config.positions != "rotary":
        return None
    return Rotary(config.d_model // config.num_heads, config.rotary_base)


def _encoder(config: TransformerConfig) -> _Stack:
    options = config.block_options()
    return _Stack(config, [EncoderBlock(**options, rotary=_rotary(config), layer=i) for i in range(config.num_layers)])


def _decoder(config: TransformerConfig, num_layers: int, *, cross_attention: bool) -> _Stack:
    options = config.block_options() | {"cross_attention": cross_attention}
    return _Stack(config, [DecoderBlock(**options, rotary=_rotary(config), layer=i) for i in range(num_layers)])


def _real(config: TransformerConfig, name: str, ids: Tensor, real: Tensor | None, seen: int = 0) -> Tensor | None:
    """Which tokens are real, of those seen before and those in ``ids``: as told, else by ``pad_id``, else all."""
    if real is None:
        if config.pad_id is None or seen:
            return None
        return ids != config.pad_id
    table = check.tensor(name, real)
    if table.dtype is not torch.bool:
        raise TypeError(f"{name} must be boolean, True for a real token, got {table.dtype}")
    if check.shape(table) != (ids.shape[0], seen + ids.shape[1]):
        raise ValueError(
            f"{name} must have shape (B, S) = {(ids.shape[0], seen + ids.shape[1])}, {seen} tokens in the cache "
            f"and {ids.shape[1]} new ones; got {check.shape(table)}"
        )
    return table


def _positions(real: Tensor | None, length: int, seen: int, device: torch.device) -> Tensor:
    if real is None:
        return torch.arange(seen, seen + length, device=device)
    return position_ids(real)[:, seen:]


def _mask(real: Tensor | None) -> Mask | None:
    return None if real is None else padding(real)


class DecoderOnly(nn.Module):
    """A GPT: reads what came before, scores what comes next.

    Args:
        config: sizes and choices.

    Example:
        >>> gpt = DecoderOnly(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> gpt(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 10])

    Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (GPT-2).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config)
        self.decoder = _decoder(config, config.num_layers, cross_attention=False)
        self.head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(
        self, ids: Int[Tensor, "B L"], *, real: Bool[Tensor, "B S"] | None = None, cache: KVCache | None = None
    ) -> Float[Tensor, "B L V"]:
        """Score the next token at each position.

        Args:
            ids: ``(B, L)``.
            real: ``True`` for a real token, ``(B, S)``: of those in the cache and then those in ``ids``. If not given,
                all are, but for ``pad_id`` where there is no cache.
            cache: what was seen before; the new tokens are added.

        Returns:
            Logits, ``(B, L, V)``: row t scores token t + 1. Rows of padding mean nothing.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        check.ids("ids", ids, self.config.vocab_size)
        seen = 0 if cache is None else cache.length
        length = ids.shape[1]
        real = _real(self.config, "real", ids, real, seen)
        positions = _positions(real, length, seen, ids.device)
        x = self.embedding(ids, positions)
        bias = self.decoder.bias(length, seen + length, ids.device)
        x = self.decoder(x, mask=_mask(real), bias=bias, cache=cache, positions=positions)
        return self.embedding.logits(x) if self.head is None else self.head(x)

    def new_cache(self, max_length: int) -> KVCache:
        """An empty cache for this model's layers."""
        return KVCache(max_length, self.config.num_layers)


class EncoderOnly(nn.Module):
    """A BERT: reads the whole text, and returns a vector for each token.

    Args:
        config: sizes and choices.
        masked_lm: add BERT's head, which guesses the tokens that were blanked out.

    Raises:
        TypeError: ``masked_lm`` is no bool.

    Example:
        >>> bert = EncoderOnly(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> bert(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 8])

    Source: Devlin et al., "BERT", 2018 (arXiv:1810.04805).
    """

    def __init__(self, config: TransformerConfig, *, masked_lm: bool = False) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config)
        self.encoder = _encoder(config)
        self.head = _MaskedHead(config) if check.flag("masked_lm", masked_lm) else None

    def forward(
        self,
        ids: Int[Tensor, "B L"],
        *,
        real: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L M"]:
        """Read.

        Args:
            ids: ``(B, L)``.
            real: ``True`` for a real token; if not given, all but ``pad_id``.
            token_types: ``(B, L)``, where the config has them.

        Returns:
            ``(B, L, M)``. Rows of padding mean nothing.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        check.ids("ids", ids, self.config.vocab_size)
        length = ids.shape[1]
        real = _real(self.config, "real", ids, real)
        positions = _positions(real, length, 0, ids.device)
        x = self.embedding(ids, positions, token_types)
        bias = self.encoder.bias(length, length, ids.device)
        hidden: Tensor = self.encoder(x, mask=_mask(real), bias=bias, positions=positions)
        return hidden

    def logits(self, hidden: Float[Tensor, "B L M"]) -> Float[Tensor, "B L V"]:
        """Guess the token at each position.

        Args:
            hidden: what ``forward`` returned.

        Returns:
            ``(B, L, V)``.

        Raises:
            ValueError: the model was built without ``masked_lm``.
        """
        if self.head is None:
            raise ValueError("logits need a head: build EncoderOnly(config, masked_lm=True)")
        return self.embedding.logits(self.head(hidden)) + self.head.bias


class _MaskedHead(nn.Module):
    """Project, bend, norm: BERT's before the tied output projection, whose bias it holds."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = make_norm(config.norm, config.d_model, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(F.gelu(self.dense(x)))
        return y


class Seq2SeqTransformer(nn.Module):
    """The Transformer of 2017: an encoder reads, a decoder writes and looks back at what was read.

    Args:
        config: sizes and choices; one vocabulary for both sides.

    Example:
        >>> model = Seq2SeqTransformer(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape
        torch.Size([1, 2, 10])

    Source: Vaswani et al., 2017 (arXiv:1706.03762).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.num_decoder_layers = config.num_decoder_layers or config.num_layers
        self.embedding = TokenEmbedding(config)
        self.encoder = _encoder(config)
        self.decoder = _decoder(config, self.num_decoder_layers, cross_attention=True)
        self.head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B L"],
        *,
        source_real: Bool[Tensor, "B S"] | None = None,
        target_real: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L V"]:
        """Read the source, score the target's next tokens.

        Args:
            source: ``(B, S)``.
            target: ``(B, L)``, what has been written so far, a start token first.
            source_real: ``True`` for a real token; if not given, all but ``pad_id``.
            target_real: likewise.

        Returns:
            Logits, ``(B, L, V)``: row t scores target token t + 1.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        memory = self.encode(source, source_real=source_real)
        real = _real(self.config, "source_real", source, source_real)
        return self.decode(target, memory, source_real=real, target_real=target_real)

    def encode(
        self, source: Int[Tensor, "B S"], *, source_real: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S M"]:
        """Read the source.

        Args:
            source: ``(B, S)``.
            source_real: ``True`` for a real token; if not given, all but ``pad_id``.

        Returns:
            The memory, ``(B, S, M)``.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        check.ids("source", source, self.config.vocab_size)
        length = source.shape[1]
        real = _real(self.config, "source_real", source, source_real)
        positions = _positions(real, length, 0, source.device)
        bias = self.encoder.bias(length, length, source.device)
        memory: Tensor = self.encoder(
            self.embedding(source, positions), mask=_mask(real), bias=bias, positions=positions
        )
        return memory

    def decode(
        self,
        target: Int[Tensor, "B L"],
        memory: Float[Tensor, "B S M"],
        *,
        source_real: Bool[Tensor, "B S"] | None = None,
        target_real: Bool[Tensor, "B T"] | None = None,
        cache: KVCache | None = None,
        memory_cache: KVCache | None = None,
    ) -> Float[Tensor, "B L V"]:
        """Score the target's next tokens, given what was read.

        Args:
            target: ``(B, L)``: all that was written, or with a cache what is new.
            memory: from ``encode``.
            source_real: which of the memory's tokens are real; all, if not given.
            target_real: ``True`` for a real token: of those in the cache and then those in ``target``.
            cache: what was written before.
            memory_cache: keeps the memory's keys and values.

        Returns:
            Logits, ``(B, L, V)``.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        check.ids("target", target, self.config.vocab_size)
        seen = 0 if cache is None else cache.length
        length = target.shape[1]
        real = _real(self.config, "target_real", target, target_real, seen)
        positions = _positions(real, length, seen, target.device)
        x = self.decoder(
            self.embedding(target, positions),
            memory,
            mask=_mask(real),
            memory_mask=_mask(source_real),
            bias=self.decoder.bias(length, seen + length, target.device),
            cache=cache,
            memory_cache=memory_cache,
            positions=positions,
        )
        return self.embedding.logits(x) if self.head is None else self.head(x)

    def new_cache(self, max_length: int) -> KVCache:
        """An empty cache for the decoder's layers; a second one of any length serves as ``memory_cache``."""
        return KVCache(max_length, self.num_decoder_layers)
