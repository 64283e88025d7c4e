r"""Multi-head attention: several small attentions beside each other, and one projection that mixes what they found.

.. math::

   O_h = \operatorname{Attention}(X W_Q^{(h)}, C W_K^{(h)}, C W_V^{(h)}), \qquad
   Y = \operatorname{Concat}(O_1, \dots, O_H)\, W_O

With fewer key/value heads than query heads it is grouped-query attention, with one it is multi-query attention. With a
context of its own it is cross-attention.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from companion import check
from companion.attention import merge_heads, reference, split_heads
from companion.backends import attend, find
from companion.cache import KVCache
from companion.call import Call
from companion.masks import Mask
from companion.rotary import Rotary
from companion.typing import Float, Int

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Project, split into heads, attend, merge, project.

    Args:
        d_model: ``M``, the width of input and output.
        num_heads: ``H``, the query heads.
        num_kv_heads: ``G``, the key/value heads, a divisor of ``num_heads``: ``H`` (the default) is multi-head, 1 is
            multi-query, anything between is grouped-query attention.
        d_head: ``D``, the width of a head; ``d_model // num_heads`` if not given.
        bias: let the four projections have a bias.
        dropout: the probability with which an attention weight is dropped, in training only.
        rotary: turns queries and keys by their positions; a :class:`~companion.positions.Rotary` of width ``d_head``.
        scale: multiplies the scores; ``1 / sqrt(d_head)`` if not given.
        layer: which layer of a cache is this module's.
        backend: what ``attend`` runs on.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: widths or heads that do not divide, a probability outside 0 to 1, or no such backend.

    Example:
        >>> mha = MultiHeadAttention(d_model=8, num_heads=4, num_kv_heads=2)
        >>> mha(torch.zeros(1, 3, 8)).shape, mha.W_K.weight.shape  # two heads of keys, two features each
        (torch.Size([1, 3, 8]), torch.Size([4, 8]))

    Source: Vaswani et al., 2017 (arXiv:1706.03762), section 3.2.2; Shazeer, 2019 (arXiv:1911.02150); Ainslie et al.,
    2023 (arXiv:2305.13245).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        scale: float | None = None,
        layer: int = 0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.d_model = check.integer("d_model", d_model)
        self.num_heads = check.integer("num_heads", num_heads)
        self.num_kv_heads = self.num_heads if num_kv_heads is None else check.integer("num_kv_heads", num_kv_heads)
        if d_head is None and d_model % num_heads:
            raise ValueError(f"d_model={d_model} must be a multiple of num_heads={num_heads}, unless d_head is given")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads={num_heads} must be a multiple of num_kv_heads={num_kv_heads}")
        self.d_head = d_model // num_heads if d_head is None else check.integer("d_head", d_head)
        self.dropout = check.probability("dropout", dropout)
        self.rotary = _checked_rotary(rotary, self.d_head)
        self.scale = None if scale is None else check.real("scale", scale)
        self.layer = check.integer("layer", layer, minimum=0)
        find(backend)  # a name that nobody has is an error here, not at the first call
        self.backend = backend
        check.flag("bias", bias)
        self.W_Q = nn.Linear(d_model, self.num_heads * self.d_head, bias=bias)
        self.W_K = nn.Linear(d_model, self.num_kv_heads * self.d_head, bias=bias)
        self.W_V = nn.Linear(d_model, self.num_kv_heads * self.d_head, bias=bias)
        self.W_O = nn.Linear(self.num_heads * self.d_head, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform projections, those of queries, keys and values smaller by the square root of 2; biases zero.

        That is how ``nn.MultiheadAttention`` starts, which holds the three in one matrix. With larger values a deep
        post-LN stack forgets its inputs on the way up, and does not learn.
        """
        for projection in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(projection.weight, gain=1.0 if projection is self.W_O else math.sqrt(0.5))
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    @overload
    def forward(
        self,
        x: Tensor,
        context: Tensor | None = ...,
        *,
        mask: Tensor | Mask | None = ...,
        bias: Tensor | None = ...,
        causal: bool = ...,
        cache: KVCache | None = ...,
        positions: Tensor | None = ...,
        need_weights: Literal[False] = ...,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor,
        context: Tensor | None = ...,
        *,
        mask: Tensor | Mask | None = ...,
        bias: Tensor | None = ...,
        causal: bool = ...,
        cache: KVCache | None = ...,
        positions: Tensor | None = ...,
        need_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        x: Float[Tensor, "*batch L M"],
        context: Float[Tensor, "*batch S M"] | None = None,
        *,
        mask: Tensor | Mask | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        positions: Int[Tensor, "*some L"] | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from ``x`` to ``context``, or to itself.

        Args:
            x: where the queries come from, ``(..., L, M)``.
            context: where keys and values come from, ``(..., S, M)``; ``x`` if not given.
            mask: who may look at whom, as for ``attend``: ``(L, S)``, ``(B, H, L, S)`` with dims of 1 where it does
                not vary, or a ``Mask``.
            bias: added to the scaled scores, shaped as ``mask``.
            causal: no query sees past its own position.
            cache: what was seen before. In self-attention the keys and values of ``x`` are added to it, and the queries
                see all it holds (``S`` counts those too); in cross-attention it keeps those of the first ``context``.
            positions: of ``x``, for rotary alone, ``(L,)`` or ``(..., L)``: where text is padded on the left, from
                ``position_ids``. If not given, 0 on, or on from what the cache has seen.
            need_weights: return the weights too. They cost memory ``B * H * L * S``.

        Returns:
            ``(..., L, M)``; with ``need_weights`` a pair, the second ``(..., H, L, S)``: one matrix a head, never
            averaged, before dropout. A query that may see nothing gets the bias of ``W_O``.

        Raises:
            TypeError: an argument of the wrong kind or dtype.
            ValueError: shapes that do not fit.
        """
        check.flag("need_weights", need_weights)
        self._check_inputs(x, context, cache, positions)
        # Project and split: (..., L, M) -> (..., H, L, D)
        query = split_heads(self.W_Q(x), self.num_heads)
        if context is None:
            key, value = self.keys_and_values(x)
            if self.rotary is not None:
                query, key = self.rotary.both(query, key, self._positions(x, positions, cache))
            if cache is not None:
                key, value = cache.update(self.layer, key, value)
        elif cache is None:
            key, value = self.keys_and_values(context)
        else:
            key, value = cache.keep(self.layer, partial(self.keys_and_values, context))
        options: dict[str, Any] = {"mask": mask, "bias": bias, "causal": causal, "scale": self.scale}
        options["dropout_p"] = self.dropout if self.training else 0.0
        if need_weights:
            call = Call.of(query, key, value, **options)
            output, weights, _ = map(call.restore, reference(call))
        else:
            output = attend(query, key, value, **options, backend=self.backend)
        # Merge and project: (..., H, L, D) -> (..., L, H·D) -> (..., L, M)
        y = self.W_O(merge_heads(output))
        return (y, weights) if need_weights else y

    def keys_and_values(
        self, context: Float[Tensor, "*batch S M"]
    ) -> tuple[Float[Tensor, "*batch G S D"], Float[Tensor, "*batch G S D"]]:
        """What the context offers: keys to be found by, values to hand over.

        Args:
            context: ``(..., S, M)``.

        Returns:
            Both ``(..., G, S, D)``; keys are not turned yet.
        """
        key = split_heads(self.W_K(context), self.num_kv_heads)
        value = split_heads(self.W_V(context), self.num_kv_heads)
        return key, value

    def extra_repr(self) -> str:
        """What ``print(module)`` adds to the projections."""
        scale = "" if self.scale is None else f", scale={self.scale:g}"
        return f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, d_head={self.d_head}{scale}"

    def _positions(self, x: Tensor, positions: Tensor | None, cache: KVCache | None) -> Tensor:
        """Where the queries stand: as told, or going on from what this layer has seen."""
        if positions is not None:
            return positions
        start = 0 if cache is None else cache.seen(self.layer)
        return torch.arange(start, start + x.shape[-2], device=x.device)

    def _check_inputs(self, x: Tensor, context: Tensor | None, cache: KVCache | None, positions: Tensor | None) -> None:
        """Refuse what the projections would meet with an unclear message."""
        inputs = {"x": x} if context is None else {"x": x, "context": context}
        for name, tensor in inputs.items():
            check.module_input(name, tensor, self.W_Q.weight, "(..., L, M)" if name == "x" else "(..., S, M)")
        if cache is not None and not isinstance(cache, KVCache):
            raise TypeError(f"cache must be a KVCache, got {type(cache).__name__}")
        if cache is not None and x.dim() != 3:
            raise ValueError(f"x must be (B, L, M) where there is a cache, got shape {check.shape(x)}")
        if self.rotary is None and positions is not None:
            raise ValueError("positions must be None in a module without rotary, which would not look at them")
        if context is None:
            return
        if self.rotary is not None:
            raise ValueError("context must be None in a rotary module: its tokens have no positions beside those of x")
        if x.shape[:-2] != context.shape[:-2]:
            raise ValueError(
                f"x and context must have the same batch dims, got shapes {check.shape(x)} and {check.shape(context)}"
            )


def _checked_rotary(rotary: Rotary | None, d_head: int) -> Rotary | None:
    if rotary is None:
        return None
    if not isinstance(rotary, Rotary):
        raise TypeError(f"rotary must be a Rotary, got {type(rotary).__name__}")
    if rotary.width != d_head:
        raise ValueError(f"rotary must have the width of a head, {d_head}, got {rotary.width}")
    return rotary
