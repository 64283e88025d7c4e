"""The Transformer of 2017: an encoder reads, a decoder writes and looks back at what was read."""

from __future__ import annotations

from torch import Tensor, nn

from companion import check
from companion.cache import KVCache
from companion.config import TransformerConfig
from companion.embedding import TokenEmbedding
from companion.masks import Mask, padding
from companion.stack import Tokens, check_cache, checked_real, decoder, encoder
from companion.typing import Bool, Float, Int

__all__ = ["Seq2SeqTransformer"]


class Seq2SeqTransformer(nn.Module):
    """The Transformer of 2017: an encoder reads, a decoder writes and looks back at what was read.

    Args:
        config: sizes and choices; one vocabulary for both sides.

    Raises:
        TypeError: ``config`` is no ``TransformerConfig``.

    Example:
        >>> import torch
        >>> model = Seq2SeqTransformer(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape
        torch.Size([1, 2, 10])

    Source: Vaswani et al., 2017 (arXiv:1706.03762).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config)
        self.num_decoder_layers = config.num_decoder_layers or config.num_layers
        self.encoder = encoder(config)
        self.decoder = decoder(config, self.num_decoder_layers, cross_attention=True)
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
        check.ids("source", source, self.config.vocab_size)
        real = Tokens(self.config, "source_real", source, source_real).real
        memory = self.encode(source, source_real=real)
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
        tokens = Tokens(self.config, "source_real", source, source_real)
        memory: Tensor = self.encoder(
            self.embedding(source, tokens.positions),
            mask=tokens.mask,
            bias=self.encoder.bias(length, length, source.device),
            positions=tokens.positions,
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
            source_real: ``True`` for a real token of the memory, ``(B, S)``. If not given, all are; where the config
                names a ``pad_id`` it must be given, since a memory does not show what was padding.
            target_real: ``True`` for a real token, ``(B, T)``: of those in the cache and then those in ``target``. If
                not given, those in ``target`` are, but for ``pad_id``; of those before, the cache knows.
            cache: what was written before.
            memory_cache: keeps the memory's keys and values.

        Returns:
            Logits, ``(B, L, V)``.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        check.ids("target", target, self.config.vocab_size)
        check.floating("memory", memory)
        check_cache("cache", cache, self.num_decoder_layers)
        check_cache("memory_cache", memory_cache, self.num_decoder_layers)
        tokens = Tokens(self.config, "target_real", target, target_real, cache)
        x = self.decoder(
            self.embedding(target, tokens.positions),
            memory,
            mask=tokens.mask,
            memory_mask=self._memory_mask(memory, source_real),
            bias=self.decoder.bias(target.shape[1], tokens.seen + target.shape[1], target.device),
            cache=cache,
            memory_cache=memory_cache,
            positions=tokens.positions,
        )
        tokens.note()
        return self.embedding.logits(x) if self.head is None else self.head(x)

    def new_cache(self, max_length: int) -> KVCache:
        """An empty cache for the decoder's layers; a second one, of any length, serves as ``memory_cache``.

        Args:
            max_length: how many tokens it can hold.

        Returns:
            The cache.
        """
        return KVCache(max_length, self.num_decoder_layers)

    def _memory_mask(self, memory: Tensor, source_real: Tensor | None) -> Mask | None:
        if source_real is not None:
            return padding(checked_real("source_real", source_real, check.shape(memory)[:2], memory.device))
        if self.config.pad_id is not None:
            raise ValueError(
                f"source_real must be given where the config has pad_id={self.config.pad_id}: "
                "the memory does not show which of its tokens were padding"
            )
        return None
