"""From token ids to the vectors that the first block reads, and from the last block's vectors to logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import check
from companion.config import TransformerConfig
from companion.norms import make_norm
from companion.positions import LearnedPositions, SinusoidalPositions
from companion.typing import Float, Int

__all__ = ["TokenEmbedding"]


class TokenEmbedding(nn.Module):
    """Look tokens up, add their positions and kinds; and back: score every token of the vocabulary.

    Args:
        config: of the model.

    Raises:
        TypeError: ``config`` is no ``TransformerConfig``.

    Example:
        >>> embed = TokenEmbedding(TransformerConfig(vocab_size=10, d_model=8))
        >>> embed(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if not isinstance(config, TransformerConfig):
            raise TypeError(f"config must be a TransformerConfig, got {type(config).__name__}")
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.types = nn.Embedding(config.num_token_types, config.d_model) if config.num_token_types else None
        self.positions: nn.Module | None = None
        if config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.d_model)
        elif config.positions == "learned":
            self.positions = LearnedPositions(config.max_length, config.d_model)
        self.norm = (
            make_norm(config.norm, config.d_model, config.eps, bias=config.bias) if config.embedding_norm else None
        )
        self.dropout = nn.Dropout(check.probability("dropout", config.dropout))
        std = 1 / math.sqrt(config.d_model) if config.scales_embedding else 0.02
        for table in (self.tokens, self.types):
            if table is not None:
                nn.init.normal_(table.weight, std=std)

    def forward(
        self,
        ids: Int[Tensor, "B L"],
        positions: Int[Tensor, "*some L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L M"]:
        """Turn ids to vectors.

        Args:
            ids: ``(B, L)`` integers.
            positions: ``(L,)`` or ``(B, L)``; 0 on if not given.
            token_types: ``(B, L)``; all 0 if not given.

        Returns:
            ``(B, L, M)``.

        Raises:
            TypeError: no integer tensors.
            ValueError: shapes that do not fit, ids outside the vocabulary (on a CPU), or types that the model has not.
        """
        check.ids("ids", ids, self.config.vocab_size)
        check.on_device("ids", ids, self.tokens.weight)
        x = self.tokens(ids.long())
        if self.config.scales_embedding:
            x = x * math.sqrt(self.config.d_model)
        if self.positions is not None:
            x = self.positions(x, positions)
        if self.types is not None:
            kinds = torch.zeros_like(ids) if token_types is None else token_types
            check.ids("token_types", kinds, self.types.num_embeddings)
            if kinds.shape != ids.shape:
                raise ValueError(
                    f"token_types must have the shape of ids, {check.shape(ids)}, got {check.shape(kinds)}"
                )
            check.on_device("token_types", kinds, self.types.weight)
            x = x + self.types(kinds.long())
        elif token_types is not None:
            raise ValueError("token_types must be None: the model's config has num_token_types=0")
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)

    def logits(self, x: Float[Tensor, "B L M"]) -> Float[Tensor, "B L V"]:
        """Score every token of the vocabulary by the embedding itself: the tied output projection."""
        return F.linear(x, self.tokens.weight)
