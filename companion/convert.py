"""The same weights in another library's module: PyTorch's layers to ours and back, Hugging Face's models to ours.

A converted module is a copy: it shares no memory with what it was made from, and keeps its dtype, device and mode. What
cannot be carried over exactly is refused by name, never approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion.blocks import DecoderBlock, EncoderBlock
from companion.convert_hf import from_hf
from companion.multihead import MultiHeadAttention

__all__ = ["from_hf", "from_torch", "to_torch"]

Pair = tuple[Tensor | None, Tensor | None, str]

# Our names, and PyTorch's for the same.
LINEARS = {"W_1": "linear1", "W_2": "linear2"}
ENCODER_NORMS = {"norm_attention": "norm1", "norm_feed_forward": "norm2"}
DECODER_NORMS = {"norm_attention": "norm1", "norm_cross_attention": "norm2", "norm_feed_forward": "norm3"}
# Not nn.GELU("tanh"): the encoder layer's fast path in eval would take that for the exact GELU.
TO_TORCH = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh")}


@overload
def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention: ...


@overload
def from_torch(module: nn.TransformerEncoderLayer) -> EncoderBlock: ...


@overload
def from_torch(module: nn.TransformerDecoderLayer) -> DecoderBlock: ...


def from_torch(module: nn.Module) -> MultiHeadAttention | EncoderBlock | DecoderBlock:
    """Make our module from PyTorch's, with its weights.

    Ours takes the batch first, whatever ``batch_first`` was; its boolean masks say who *may* attend, PyTorch's who may
    not; its ``DecoderBlock`` is causal unless told otherwise. PyTorch has a fast path, taken in eval without gradients,
    on which ``nn.TransformerEncoder`` sets padded rows to zero; ours, as PyTorch's other path, leaves there numbers
    that mean nothing: compare rows of real tokens. The fast path also takes ``nn.GELU("tanh")`` for the exact GELU.

    Args:
        module: an ``nn.MultiheadAttention``, ``nn.TransformerEncoderLayer`` or ``nn.TransformerDecoderLayer``; no
            subclass, which may compute something else.

    Returns:
        A ``MultiHeadAttention``, ``EncoderBlock`` or ``DecoderBlock``.

    Raises:
        TypeError: another kind of module.
        ValueError: it has what ours has not: ``kdim`` or ``vdim``, ``add_bias_kv``, ``add_zero_attn``, an activation
            that is neither ReLU nor GELU, or parts that were exchanged.

    Example:
        >>> theirs = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        >>> x = torch.rand(1, 3, 8)
        >>> bool((from_torch(theirs)(x) - theirs(x, x, x)[0]).abs().max() < 1e-6)
        True

    Source: https://docs.pytorch.org/docs/stable/nn.html#transformer-layers
    """
    made: MultiHeadAttention | EncoderBlock | DecoderBlock
    with torch.random.fork_rng(devices=[]):  # initial weights are thrown away: spend no random numbers on them
        if type(module) is nn.MultiheadAttention:
            made = _attention_from(module)
        elif type(module) is nn.TransformerEncoderLayer:
            made = _block_from(module, EncoderBlock, ENCODER_NORMS)
        elif type(module) is nn.TransformerDecoderLayer:
            made = _block_from(module, DecoderBlock, DECODER_NORMS)
        else:
            known = "nn.MultiheadAttention, nn.TransformerEncoderLayer or nn.TransformerDecoderLayer"
            raise TypeError(f"module must be an {known} itself, got {_kind(module)}")
    return made.train(module.training)


@overload
def to_torch(module: MultiHeadAttention) -> nn.MultiheadAttention: ...


@overload
def to_torch(module: EncoderBlock) -> nn.TransformerEncoderLayer: ...


@overload
def to_torch(module: DecoderBlock) -> nn.TransformerDecoderLayer: ...


def to_torch(module: nn.Module) -> nn.MultiheadAttention | nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    """Make PyTorch's module from ours, with its weights: the way back from ``from_torch``.

    Args:
        module: a ``MultiHeadAttention``, an ``EncoderBlock``, or a ``DecoderBlock`` with cross-attention.

    Returns:
        PyTorch's, with ``batch_first=True``.

    Raises:
        TypeError: another kind of module.
        ValueError: it has what PyTorch's has not: fewer key/value heads than heads, heads of another width, rotary
            positions, an RMS norm, SwiGLU, or no cross-attention in a decoder.

    Example:
        >>> ours = MultiHeadAttention(8, num_heads=2)
        >>> x = torch.rand(1, 3, 8)
        >>> bool((to_torch(ours)(x, x, x)[0] - ours(x)).abs().max() < 1e-6)
        True
    """
    made: nn.MultiheadAttention | nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    with torch.random.fork_rng(devices=[]):
        if type(module) is MultiHeadAttention:
            made = _attention_to(module)
        elif type(module) is EncoderBlock:
            made = _block_to(module, nn.TransformerEncoderLayer, ENCODER_NORMS)
        elif type(module) is DecoderBlock:
            if module.cross_attention is None:
                raise ValueError("module must have cross_attention, as nn.TransformerDecoderLayer does; it is None")
            made = _block_to(module, nn.TransformerDecoderLayer, DECODER_NORMS)
        else:
            known = "MultiHeadAttention, EncoderBlock or DecoderBlock"
            raise TypeError(f"module must be a {known} itself, got {_kind(module)}")
    return made.train(module.training)


def _attention_from(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    _refuse_theirs(theirs, "module")
    bias = theirs.in_proj_bias is not None
    ours = MultiHeadAttention(theirs.embed_dim, theirs.num_heads, bias=bias, dropout=theirs.dropout)
    ours.to(**_place(theirs.out_proj.weight))
    _copy(_attention_pairs(ours, theirs, "module"))
    return ours


def _attention_to(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    _refuse_ours(ours, "module")
    options = {"dropout": ours.dropout, "bias": ours.W_Q.bias is not None, **_place(ours.W_Q.weight)}
    theirs = nn.MultiheadAttention(ours.d_model, ours.num_heads, batch_first=True, **options)
    _copy(_attention_pairs(ours, theirs, "module"), back=True)
    return theirs


def _block_from(theirs: Any, make: Callable[..., Any], norms: dict[str, str]) -> Any:
    _refuse_theirs(theirs.self_attn, "module.self_attn")
    if "norm_cross_attention" in norms:
        _refuse_theirs(theirs.multihead_attn, "module.multihead_attn")
    for names, kind in ((LINEARS, nn.Linear), (norms, nn.LayerNorm)):
        for name in names.values():
            _refuse_part(getattr(theirs, name), f"module.{name}", kind)
    ours = make(
        theirs.self_attn.embed_dim,
        theirs.self_attn.num_heads,
        theirs.linear1.out_features,
        activation=_activation_name(theirs.activation),
        norm_first=theirs.norm_first,
        bias=theirs.linear1.bias is not None,
    )
    ours.to(**_place(theirs.linear1.weight))
    _copy(_block_pairs(ours, theirs, norms))
    for mine, his in norms.items():
        getattr(ours, mine).eps = getattr(theirs, his).eps
    rates = [getattr(theirs, f"dropout{i + 1}").p for i in range(len(norms))]  # PyTorch has one a sublayer
    if len(set(rates)) > 1:
        raise ValueError(f"module must have one rate in its residual dropouts, got {rates}")
    ours.dropout.p = rates[0]
    ours.feed_forward.dropout.p = theirs.dropout.p
    ours.attention.dropout = theirs.self_attn.dropout
    if "norm_cross_attention" in norms:
        ours.cross_attention.dropout = theirs.multihead_attn.dropout
    return ours


def _block_to(ours: Any, make: Callable[..., Any], norms: dict[str, str]) -> Any:
    feed = ours.feed_forward
    if feed.activation not in TO_TORCH:
        raise ValueError(f"module.feed_forward has activation={feed.activation!r}, which PyTorch's layers have not")
    _refuse_ours(ours.attention, "module.attention")
    if "norm_cross_attention" in norms:
        _refuse_ours(ours.cross_attention, "module.cross_attention")
    for name in norms:
        _refuse_part(getattr(ours, name), f"module.{name}", nn.LayerNorm)
    theirs = make(
        ours.attention.d_model,
        ours.attention.num_heads,
        feed.d_ff,
        activation=TO_TORCH[feed.activation],
        norm_first=ours.norm_first,
        bias=feed.W_1.bias is not None,
        batch_first=True,
        **_place(feed.W_1.weight),
    )
    _copy(_block_pairs(ours, theirs, norms), back=True)
    for i, (mine, his) in enumerate(norms.items()):
        getattr(theirs, his).eps = getattr(ours, mine).eps
        getattr(theirs, f"dropout{i + 1}").p = ours.dropout.p
    theirs.dropout.p = feed.dropout.p
    theirs.self_attn.dropout = ours.attention.dropout
    if "norm_cross_attention" in norms:
        theirs.multihead_attn.dropout = ours.cross_attention.dropout
    return theirs


def _block_pairs(ours: Any, theirs: Any, norms: dict[str, str]) -> Iterator[Pair]:
    """Each of our parameters beside PyTorch's, and its name there."""
    yield from _attention_pairs(ours.attention, theirs.self_attn, "module.self_attn")
    if "norm_cross_attention" in norms:
        yield from _attention_pairs(ours.cross_attention, theirs.multihead_attn, "module.multihead_attn")
    for mine, his in LINEARS.items():
        yield from _pairs(getattr(ours.feed_forward, mine), getattr(theirs, his), f"module.{his}")
    for mine, his in norms.items():
        yield from _pairs(getattr(ours, mine), getattr(theirs, his), f"module.{his}")


def _attention_pairs(ours: MultiHeadAttention, theirs: nn.MultiheadAttention, name: str) -> Iterator[Pair]:
    """PyTorch keeps the three input projections stacked in one tensor."""
    biases = (None,) * 3 if theirs.in_proj_bias is None else theirs.in_proj_bias.chunk(3)
    for mine, weight, bias in zip((ours.W_Q, ours.W_K, ours.W_V), theirs.in_proj_weight.chunk(3), biases, strict=True):
        yield mine.weight, weight, f"{name}.in_proj_weight"
        yield mine.bias, bias, f"{name}.in_proj_bias"
    yield from _pairs(ours.W_O, theirs.out_proj, f"{name}.out_proj")


def _pairs(ours: Any, theirs: Any, name: str) -> Iterator[Pair]:
    yield ours.weight, theirs.weight, f"{name}.weight"
    yield ours.bias, theirs.bias, f"{name}.bias"


@torch.no_grad()
def _copy(pairs: Iterator[Pair], *, back: bool = False) -> None:
    """From PyTorch's to ours, or back."""
    for ours, theirs, name in pairs:
        source, target = (ours, theirs) if back else (theirs, ours)
        if source is None and target is None:
            continue
        if source is None or target is None:
            raise ValueError(f"{name} must be None exactly where the other biases of module are")
        wanted, found = ((tuple(x.shape), x.dtype) for x in (target, source))
        if wanted != found:  # copy_ would broadcast and cast
            raise ValueError(f"{name} must be of shape and dtype {wanted}, as the rest of module is; got {found}")
        target.copy_(source)


def _refuse_theirs(attention: nn.Module, name: str) -> None:
    """Refuse what our ``MultiHeadAttention`` has not."""
    _refuse_part(attention, name, nn.MultiheadAttention)
    theirs: Any = attention
    if theirs.in_proj_weight is None:
        raise ValueError(
            f"{name} has kdim={theirs.kdim} and vdim={theirs.vdim}: ours takes keys and values from one context, of "
            f"the query's width {theirs.embed_dim}"
        )
    if theirs.bias_k is not None:
        raise ValueError(f"{name} has add_bias_kv=True: ours has no learned key and value beside those of the context")
    if theirs.add_zero_attn:
        raise ValueError(f"{name} has add_zero_attn=True: ours has no key and value of zeros beside the context's")


def _refuse_ours(attention: MultiHeadAttention, name: str) -> None:
    """Refuse what PyTorch's ``nn.MultiheadAttention`` has not."""
    heads, groups, d_head = attention.num_heads, attention.num_kv_heads, attention.d_head
    if groups != heads:
        raise ValueError(f"{name} has num_kv_heads={groups} for num_heads={heads}: PyTorch's heads share none")
    if heads * d_head != attention.d_model:
        raise ValueError(f"{name} has d_head={d_head}: PyTorch's {heads} heads make up d_model={attention.d_model}")
    if attention.rotary is not None:
        raise ValueError(f"{name} has rotary positions: PyTorch's module turns no queries and keys")
    if attention.scale is not None:
        raise ValueError(f"{name} has scale={attention.scale}: PyTorch's module scales by 1 / sqrt(d_head) alone")


def _refuse_part(part: nn.Module, name: str, kind: type[nn.Module]) -> None:
    if type(part) is not kind or getattr(part, "weight", part) is None:
        raise ValueError(f"{name} must be an nn.{kind.__name__} itself, with its weights, got {_kind(part)}")


def _activation_name(activation: Any) -> str:
    if activation is F.relu or activation is torch.relu or type(activation) is nn.ReLU:
        return "relu"
    if activation is F.gelu or (type(activation) is nn.GELU and activation.approximate == "none"):
        return "gelu"
    if isinstance(activation, partial):  # a copied one is another object
        tanh = activation.func is F.gelu and activation.keywords == {"approximate": "tanh"}
    else:
        tanh = type(activation) is nn.GELU
    if tanh:
        return "gelu_tanh"
    raise ValueError(f"module.activation must be ReLU or GELU, got {activation!r}")


def _place(weight: Tensor) -> dict[str, Any]:
    return {"device": weight.device, "dtype": weight.dtype}


def _kind(module: object) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"
