r"""Multi-head attention: several small attentions beside each other, and one projection that mixes what they found.

.. math::

   O_h = \operatorname{Attention}(X W_Q^{(h)}, C W_K^{(h)}, C W_V^{(h)}), \qquad
   Y = \operatorname{Concat}(O_1, \dots, O_H)\, W_O

With fewer key/value heads than query heads it is grouped-query attention, with one it is multi-query attention. With a
context of its own it is cross-attention.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from companion import check
from companion.attention import merge_heads, reference, split_heads
from companion.backends import attend, find
from companion.call import Call
from companion.masks import Mask
from companion.typing import Float

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
        find(backend)  # a name that nobody has is an error here, not at the first call
        self.backend = backend
        check.flag("bias", bias)
        self.W_Q = nn.Linear(d_model, self.num_heads * self.d_head, bias=bias)
        self.W_K = nn.Linear(d_model, self.num_kv_heads * self.d_head, bias=bias)
        self.W_V = nn.Linear(d_model, self.num_kv_heads * self.d_head, bias=bias)
        self.W_O = nn.Linear(self.num_heads * self.d_head, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform projections, which keep the variance of what passes through; biases zero."""
        for projection in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(projection.weight)
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
            need_weights: return the weights too. They cost memory ``B * H * L * S``.

        Returns:
            ``(..., L, M)``; with ``need_weights`` a pair, the second ``(..., H, L, S)``: one matrix a head, never
            averaged, before dropout. A query that may see nothing gets the bias of ``W_O``.

        Raises:
            TypeError: an argument of the wrong kind or dtype.
            ValueError: shapes that do not fit.
        """
        context = self._checked(x, context)
        check.flag("need_weights", need_weights)
        # Project and split: (..., L, M) -> (..., H, L, D)
        query = split_heads(self.W_Q(x), self.num_heads)
        # (..., S, M) -> (..., G, S, D)
        key = split_heads(self.W_K(context), self.num_kv_heads)
        value = split_heads(self.W_V(context), self.num_kv_heads)
        options: dict[str, Any] = {"mask": mask, "bias": bias, "causal": causal}
        options["dropout_p"] = self.dropout if self.training else 0.0
        if need_weights:
            call = Call.of(query, key, value, **options)
            output, weights, _ = map(call.restore, reference(call))
        else:
            output = attend(query, key, value, **options, backend=self.backend)
        # Merge and project: (..., H, L, D) -> (..., L, H·D) -> (..., L, M)
        y = self.W_O(merge_heads(output))
        return (y, weights) if need_weights else y

    def extra_repr(self) -> str:
        """What ``print(module)`` adds to the projections."""
        return f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, d_head={self.d_head}"

    def _checked(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Refuse inputs that the projections would meet with an unclear message; return the context."""
        inputs = {"x": x} if context is None else {"x": x, "context": context}
        weight = self.W_Q.weight
        for name, tensor in inputs.items():
            check.floating(name, tensor)
            letters = "(..., L, M)" if name == "x" else "(..., S, M)"
            check.min_rank(name, tensor, 2, letters)
            if tensor.shape[-1] != self.d_model:
                raise ValueError(f"{name} must be {letters} with M={self.d_model}, got shape {check.shape(tensor)}")
            if tensor.device != weight.device:
                raise ValueError(f"{name} must be on the module's device, {weight.device}, got {tensor.device}")
            if tensor.dtype != weight.dtype and not _autocast(tensor.device.type):
                raise TypeError(f"{name} must have the module's dtype, {weight.dtype}, got {tensor.dtype}")
        if context is None:
            return x
        if x.shape[:-2] != context.shape[:-2]:
            raise ValueError(
                f"x and context must have the same batch dims, got shapes {check.shape(x)} and {check.shape(context)}"
            )
        return context


def _autocast(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
