r"""The Transformer's block: look around, think it over, and add both to what was there.

.. math::

   \text{post-LN (2017):}\quad x \leftarrow \operatorname{Norm}(x + f(x)) \qquad\qquad
   \text{pre-LN (today):}\quad x \leftarrow x + f(\operatorname{Norm}(x))

with attention and then a feed-forward network as ``f``. In the pre-LN form the residual stream ``x`` runs through
untouched, and a last norm stands behind the last block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from companion import check
from companion.cache import KVCache
from companion.feed_forward import FeedForward
from companion.masks import Mask
from companion.multihead import MultiHeadAttention
from companion.norms import RMSNorm, make_norm
from companion.positions import Rotary
from companion.typing import Float

__all__ = ["DecoderBlock", "EncoderBlock", "FeedForward", "RMSNorm"]


class _Residual(nn.Module):
    """What both blocks do around each of their parts."""

    norm_first: bool
    dropout: nn.Dropout

    def _add(self, x: Tensor, norm: nn.Module, f: Callable[[Tensor], Tensor]) -> Tensor:
        """The residual, in either order; what is added comes before the norm or goes around it, never after it."""
        if self.norm_first:
            return x + self.dropout(f(norm(x)))
        y: Tensor = norm(x + self.dropout(f(x)))
        return y


class EncoderBlock(_Residual):
    """Self-attention and a feed-forward network, each with its norm and its residual.

    Args:
        d_model: ``M``.
        num_heads: ``H``.
        d_ff: the feed-forward width; see ``FeedForward``.
        num_kv_heads: ``G``; ``H`` if not given.
        d_head: ``D``; ``d_model // num_heads`` if not given.
        activation: see ``FeedForward``.
        norm: ``"layer"`` or ``"rms"``.
        norm_first: ``False`` is the post-LN block of 2017, ``True`` the pre-LN block of today.
        eps: of the norms.
        bias: let projections and layer norms have a bias.
        dropout: of attention weights, between the feed-forward projections, and of what is added to the residual.
        rotary: turns queries and keys by their positions.
        scale: multiplies the scores; ``1 / sqrt(d_head)`` if not given.
        layer: which layer of a cache is this block's.
        backend: what ``attend`` runs on.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: numbers that do not fit, or unknown names.

    Example:
        >>> import torch
        >>> EncoderBlock(8, num_heads=2)(torch.zeros(1, 3, 8)).shape
        torch.Size([1, 3, 8])

    Source: Vaswani et al., 2017 (arXiv:1706.03762), section 3.1; Xiong et al., "On Layer Normalization in the
    Transformer Architecture", 2020 (arXiv:2002.04745).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int | None = None,
        *,
        num_kv_heads: int | None = None,
        d_head: int | None = None,
        activation: str = "relu",
        norm: str = "layer",
        norm_first: bool = False,
        eps: float = 1e-5,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        scale: float | None = None,
        layer: int = 0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.norm_first = check.flag("norm_first", norm_first)
        options: dict[str, Any] = {"bias": bias, "dropout": dropout, "layer": layer, "backend": backend}
        options |= {"num_kv_heads": num_kv_heads, "d_head": d_head, "scale": scale}
        self.attention = MultiHeadAttention(d_model, num_heads, rotary=rotary, **options)
        self.feed_forward = FeedForward(d_model, d_ff, activation, bias=bias, dropout=dropout)
        self.norm_attention = make_norm(norm, d_model, eps, bias=bias)
        self.norm_feed_forward = make_norm(norm, d_model, eps, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*batch L M"],
        *,
        mask: Tensor | Mask | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
    ) -> Float[Tensor, "*batch L M"]:
        """Look around, think it over.

        Args:
            x: ``(..., L, M)``.
            mask: who may look at whom; see ``MultiHeadAttention``.
            bias: added to the scaled scores; see ``MultiHeadAttention``.
            causal: no query sees past its own position.
            cache: what was seen before; see ``MultiHeadAttention``.
            positions: of ``x``, for rotary alone; see ``MultiHeadAttention``.

        Returns:
            ``(..., L, M)``. Where ``mask`` hides padding, the padded rows hold numbers that mean nothing.

        Raises:
            TypeError: an argument of the wrong kind or dtype.
            ValueError: shapes that do not fit.
        """
        check.module_input("x", x, self.attention.W_Q.weight, "(..., L, M)")
        options: dict[str, Any] = {"bias": bias, "causal": causal, "cache": cache, "positions": positions}
        x = self._add(x, self.norm_attention, lambda y: self.attention(y, mask=mask, **options))
        return self._add(x, self.norm_feed_forward, self.feed_forward)


class DecoderBlock(_Residual):
    """Causal self-attention, attention to a memory, and a feed-forward network.

    Args:
        d_model: ``M``.
        num_heads: ``H``.
        d_ff: the feed-forward width; see ``FeedForward``.
        cross_attention: look at a memory, as in an encoder-decoder; ``False`` is the block of a GPT.
        num_kv_heads: ``G``; ``H`` if not given.
        d_head: ``D``; ``d_model // num_heads`` if not given.
        activation: see ``FeedForward``.
        norm: ``"layer"`` or ``"rms"``.
        norm_first: ``False`` is the post-LN block of 2017, ``True`` the pre-LN block of today.
        eps: of the norms.
        bias: let projections and layer norms have a bias.
        dropout: as in ``EncoderBlock``.
        rotary: turns the queries and keys of self-attention by their positions.
        scale: multiplies the scores, those of cross-attention too; ``1 / sqrt(d_head)`` if not given.
        layer: which layer of a cache is this block's.
        backend: what ``attend`` runs on.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: numbers that do not fit, or unknown names.

    Example:
        >>> import torch
        >>> block = DecoderBlock(8, num_heads=2)
        >>> block(torch.zeros(1, 3, 8), memory=torch.zeros(1, 5, 8)).shape
        torch.Size([1, 3, 8])

    Source: Vaswani et al., 2017 (arXiv:1706.03762), section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int | None = None,
        *,
        cross_attention: bool = True,
        num_kv_heads: int | None = None,
        d_head: int | None = None,
        activation: str = "relu",
        norm: str = "layer",
        norm_first: bool = False,
        eps: float = 1e-5,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        scale: float | None = None,
        layer: int = 0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.norm_first = check.flag("norm_first", norm_first)
        options: dict[str, Any] = {"bias": bias, "dropout": dropout, "layer": layer, "backend": backend}
        options |= {"num_kv_heads": num_kv_heads, "d_head": d_head, "scale": scale}
        self.attention = MultiHeadAttention(d_model, num_heads, rotary=rotary, **options)
        self.norm_attention = make_norm(norm, d_model, eps, bias=bias)
        self.cross_attention: MultiHeadAttention | None = None
        self.norm_cross_attention: nn.Module | None = None
        if check.flag("cross_attention", cross_attention):
            self.cross_attention = MultiHeadAttention(d_model, num_heads, **options)
            self.norm_cross_attention = make_norm(norm, d_model, eps, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation, bias=bias, dropout=dropout)
        self.norm_feed_forward = make_norm(norm, d_model, eps, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*batch L M"],
        memory: Float[Tensor, "*batch S M"] | None = None,
        *,
        mask: Tensor | Mask | None = None,
        memory_mask: Tensor | Mask | None = None,
        bias: Tensor | None = None,
        causal: bool = True,
        cache: KVCache | None = None,
        memory_cache: KVCache | None = None,
        positions: Tensor | None = None,
    ) -> Float[Tensor, "*batch L M"]:
        """Look back, look at the memory, think it over.

        Args:
            x: ``(..., L, M)``.
            memory: what the encoder made, ``(..., S, M)``; needed exactly where the block has cross-attention.
            mask: who may look at whom in self-attention, beside ``causal``: the padding of ``x``.
            memory_mask: who may look at what in cross-attention: the padding of ``memory``, never that of ``x``.
            bias: added to the scaled scores of self-attention.
            causal: no query sees past its own position.
            cache: of self-attention; see ``MultiHeadAttention``.
            memory_cache: of cross-attention: keeps the memory's keys and values.
            positions: of ``x``, for rotary alone; see ``MultiHeadAttention``.

        Returns:
            ``(..., L, M)``.

        Raises:
            TypeError: an argument of the wrong kind or dtype.
            ValueError: shapes that do not fit, a memory that is missing, or one that nobody looks at.
        """
        check.module_input("x", x, self.attention.W_Q.weight, "(..., L, M)")
        self._check_memory(x, memory)
        options: dict[str, Any] = {"bias": bias, "causal": causal, "cache": cache, "positions": positions}
        x = self._add(x, self.norm_attention, lambda y: self.attention(y, mask=mask, **options))
        cross, norm = self.cross_attention, self.norm_cross_attention
        if cross is not None and norm is not None:
            x = self._add(x, norm, lambda y: cross(y, memory, mask=memory_mask, cache=memory_cache))
        return self._add(x, self.norm_feed_forward, self.feed_forward)

    def _check_memory(self, x: Tensor, memory: Tensor | None) -> None:
        if (memory is None) != (self.cross_attention is None):
            wanted = "given to" if memory is None else "None for"
            raise ValueError(f"memory must be {wanted} a block with cross_attention={self.cross_attention is not None}")
        if memory is None:
            return
        check.module_input("memory", memory, self.attention.W_Q.weight, "(..., S, M)")
        if memory.shape[:-2] != x.shape[:-2]:
            raise ValueError(
                f"x and memory must have the same batch dims, got shapes {check.shape(x)} and {check.shape(memory)}"
            )
