r"""Three Transformers from one config: encoder-decoder, decoder-only, encoder-only.

All take ids ``(B, L)`` and know padding by ``real``, booleans that are ``True`` for a real token; where the config
names a ``pad_id``, they find it out themselves. Positions count from the first real token, so that a text padded on the
left gives what the text alone gives.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from companion import check
from companion.cache import KVCache
from companion.config import TransformerConfig
from companion.embedding import TokenEmbedding
from companion.feed_forward import ACTIVATIONS
from companion.norms import make_norm
from companion.seq2seq import Seq2SeqTransformer
from companion.stack import Tokens, check_cache, decoder, encoder
from companion.typing import Bool, Float, Int

__all__ = ["DecoderOnly", "EncoderOnly", "Seq2SeqTransformer", "TransformerConfig"]


class DecoderOnly(nn.Module):
    """A GPT: reads what came before, scores what comes next.

    Args:
        config: sizes and choices.

    Raises:
        TypeError: ``config`` is no ``TransformerConfig``.

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
        self.decoder = decoder(config, config.num_layers, cross_attention=False)
        self.head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(
        self, ids: Int[Tensor, "B L"], *, real: Bool[Tensor, "B S"] | None = None, cache: KVCache | None = None
    ) -> Float[Tensor, "B L V"]:
        """Score the next token at each position.

        Args:
            ids: ``(B, L)``.
            real: ``True`` for a real token, ``(B, S)``: of those in the cache and then those in ``ids``. If not given,
                those in ``ids`` are, but for ``pad_id``; of those before, the cache knows.
            cache: what was seen before; the new tokens are added.

        Returns:
            Logits, ``(B, L, V)``: row t scores token t + 1. Rows of padding mean nothing.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: shapes that do not fit, or ids outside the vocabulary.
        """
        check.ids("ids", ids, self.config.vocab_size)
        check_cache("cache", cache, self.config.num_layers)
        tokens = Tokens(self.config, "real", ids, real, cache)
        x = self.decoder(
            self.embedding(ids, tokens.positions),
            mask=tokens.mask,
            bias=self.decoder.bias(ids.shape[1], tokens.seen + ids.shape[1], ids.device),
            cache=cache,
            positions=tokens.positions,
        )
        tokens.note()
        return self.embedding.logits(x) if self.head is None else self.head(x)

    def new_cache(self, max_length: int) -> KVCache:
        """An empty cache for this model's layers.

        Args:
            max_length: how many tokens it can hold.

        Returns:
            The cache.
        """
        return KVCache(max_length, self.config.num_layers)


class EncoderOnly(nn.Module):
    """A BERT: reads the whole text, and returns a vector for each token.

    Args:
        config: sizes and choices.
        masked_lm: add BERT's head, which guesses the tokens that were blanked out.

    Raises:
        TypeError: ``config`` is no ``TransformerConfig``, or ``masked_lm`` no bool.

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
        self.encoder = encoder(config)
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
        tokens = Tokens(self.config, "real", ids, real)
        x = self.embedding(ids, tokens.positions, token_types)
        bias = self.encoder.bias(length, length, ids.device)
        hidden: Tensor = self.encoder(x, mask=tokens.mask, bias=bias, positions=tokens.positions)
        return hidden

    def logits(self, hidden: Float[Tensor, "B L M"]) -> Float[Tensor, "B L V"]:
        """Guess the token at each position.

        Args:
            hidden: what ``forward`` returned.

        Returns:
            ``(B, L, V)``.

        Raises:
            TypeError: ``hidden`` has another dtype than the model.
            ValueError: the model was built without ``masked_lm``, or ``hidden`` does not fit.
        """
        if self.head is None:
            raise ValueError("logits need a head: build EncoderOnly(config, masked_lm=True)")
        check.module_input("hidden", hidden, self.head.dense.weight, "(B, L, M)")
        x = self.head(hidden)
        scores = self.embedding.logits(x) if self.head.output is None else self.head.output(x)
        return scores + self.head.bias


class _MaskedHead(nn.Module):
    """Project, bend, norm: BERT's before the output projection, whose bias it holds, and its weight if not tied."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = config.activation
        self.norm = make_norm(config.norm, config.d_model, config.eps)
        self.output = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        return y
