"""One description of a Transformer, from which all three kinds are built."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from companion import check

__all__ = ["TransformerConfig"]

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes and choices; the defaults are a small, modern model that learns in seconds on a CPU.

    Attributes:
        vocab_size: how many tokens there are.
        d_model: ``M``, the width of the residual stream.
        num_heads: ``H``.
        num_layers: blocks; in an encoder-decoder, of each side.
        num_decoder_layers: blocks of an encoder-decoder's decoder, if not ``num_layers``.
        d_ff: the feed-forward width; see ``FeedForward``.
        num_kv_heads: ``G``; ``H`` if None.
        d_head: ``D``, the width of a head; ``d_model // num_heads`` if None.
        scale: multiplies the scores; ``1 / sqrt(d_head)`` if None.
        max_length: how many learned positions there are; others have no limit.
        positions: ``"sinusoidal"``, ``"learned"``, ``"rotary"``, ``"alibi"`` or ``"none"``.
        rotary_base: of ``Rotary``.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"`` or ``"swiglu"``.
        norm: ``"layer"`` or ``"rms"``.
        norm_first: pre-LN (with a last norm behind the blocks) or post-LN.
        eps: of the norms.
        bias: let projections and layer norms have a bias.
        dropout: of embeddings, attention weights, feed-forward features and what is added to the residual.
        embedding_scale: multiply embeddings by the square root of ``d_model``, as in 2017; None does so where positions
            are sinusoidal, which would drown smaller embeddings.
        embedding_norm: normalise the sum of embeddings, as BERT does.
        num_token_types: how many kinds of token BERT's second embedding tells apart; 0 for none.
        tie_embeddings: let the output projection be the embedding's transpose.
        pad_id: the token that fills a batch. Where it is given, models mask it unasked.
        backend: what ``attend`` runs on.

    Raises:
        TypeError: a value of the wrong kind.
        ValueError: numbers that do not fit, or unknown names.
    """

    vocab_size: int
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    num_decoder_layers: int | None = None
    d_ff: int | None = None
    num_kv_heads: int | None = None
    d_head: int | None = None
    scale: float | None = None
    max_length: int = 512
    positions: str = "sinusoidal"
    rotary_base: float = 10_000.0
    activation: str = "gelu"
    norm: str = "layer"
    norm_first: bool = True
    eps: float = 1e-5
    bias: bool = True
    dropout: float = 0.0
    embedding_scale: bool | None = None
    embedding_norm: bool = False
    num_token_types: int = 0
    tie_embeddings: bool = True
    pad_id: int | None = None
    backend: str = "auto"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "num_heads", "num_layers", "max_length"):
            check.integer(name, getattr(self, name))
        check.integer("num_token_types", self.num_token_types, minimum=0)
        for name in ("norm_first", "bias", "embedding_norm", "tie_embeddings"):
            check.flag(name, getattr(self, name))
        check.one_of("positions", self.positions, POSITIONS)
        if self.num_decoder_layers is not None:
            check.integer("num_decoder_layers", self.num_decoder_layers)
        if self.scale is not None:
            check.real("scale", self.scale)
        if self.embedding_scale is not None:
            check.flag("embedding_scale", self.embedding_scale)
        if self.pad_id is not None and check.integer("pad_id", self.pad_id, minimum=0) >= self.vocab_size:
            raise ValueError(f"pad_id must be less than vocab_size={self.vocab_size}, got {self.pad_id}")

    @property
    def scales_embedding(self) -> bool:
        """Whether embeddings are multiplied by the square root of ``d_model``."""
        return self.positions == "sinusoidal" if self.embedding_scale is None else self.embedding_scale

    def block_options(self) -> dict[str, Any]:
        """What the blocks are built with, but for their layer and rotary."""
        names = {"d_model", "num_heads", "d_ff", "num_kv_heads", "d_head", "activation", "norm", "norm_first"}
        names |= {"scale", "eps", "bias", "dropout", "backend"}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name in names}
