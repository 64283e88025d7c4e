"""What the three models share: a stack of blocks, and what is known of the tokens that it reads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from companion import check
from companion.blocks import DecoderBlock, EncoderBlock
from companion.cache import KVCache, RollingKVCache
from companion.config import TransformerConfig
from companion.masks import Mask, padding
from companion.norms import make_norm
from companion.positions import Rotary, alibi_bias, position_ids

__all__: list[str] = []


class Stack(nn.Module):
    """Blocks, their positions, and the last norm."""

    def __init__(self, config: TransformerConfig, blocks: list[EncoderBlock] | list[DecoderBlock]) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(blocks)
        self.norm = make_norm(config.norm, config.d_model, config.eps, bias=config.bias) if config.norm_first else None
        if config.norm_first:  # each block adds to the stream: keep its variance from growing with depth
            adding = [projection for block in blocks for projection in _adding(block)]
            for projection in adding:
                nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(len(adding)))

    def bias(self, length: int, keys: int, device: torch.device) -> Tensor | None:
        """ALiBi's, where the config wants it."""
        if self.config.positions != "alibi":
            return None
        return alibi_bias(self.config.num_heads, length, keys, device)

    def forward(self, x: Tensor, *memory: Tensor, **options: Any) -> Tensor:
        if self.config.positions != "rotary":
            options.pop("positions", None)  # the embedding has told them, or nobody does
        for block in self.blocks:
            x = block(x, *memory, **options)
        return x if self.norm is None else self.norm(x)


class Tokens:
    """What is known of the tokens at hand: where they stand, and which are real, those in the cache included.

    Args:
        config: of the model.
        name: what the table of real tokens is called in messages.
        ids: the new tokens, ``(B, L)``.
        real: ``True`` for a real token, ``(B, S)``: of those in the cache and then the new ones. If not given, new ones
            are real but for ``pad_id``, and of those before, the cache knows.
        cache: what was seen before.
    """

    def __init__(
        self, config: TransformerConfig, name: str, ids: Tensor, real: Tensor | None, cache: KVCache | None = None
    ) -> None:
        self.seen = 0 if cache is None else cache.length
        if cache is not None and not cache.level:
            cache.crop(self.seen)  # a step that failed halfway has left lower layers ahead
        self.cache = cache
        total = (ids.shape[0], self.seen + ids.shape[1])
        self.real = (
            _guess(config, ids, cache, self.seen) if real is None else checked_real(name, real, total, ids.device)
        )
        if self.real is None:
            self.positions = torch.arange(self.seen, total[1], device=ids.device)
        else:
            self.positions = position_ids(self.real)[:, self.seen :]

    @property
    def mask(self) -> Mask | None:
        """Of who may be looked at."""
        return None if self.real is None else padding(self.real)

    def note(self) -> None:
        """Once they are in the cache: let it know which of them are real."""
        if self.cache is not None:
            self.cache.real = self.real


def encoder(config: TransformerConfig) -> Stack:
    """The blocks of an encoder."""
    options = config.block_options()
    return Stack(config, [EncoderBlock(**options, rotary=_rotary(config), layer=i) for i in range(config.num_layers)])


def decoder(config: TransformerConfig, num_layers: int, *, cross_attention: bool) -> Stack:
    """The blocks of a decoder."""
    options = config.block_options() | {"cross_attention": cross_attention}
    return Stack(config, [DecoderBlock(**options, rotary=_rotary(config), layer=i) for i in range(num_layers)])


def check_cache(name: str, cache: KVCache | None, num_layers: int) -> None:
    """Refuse a cache that would not serve each layer, all the way back."""
    if cache is None:
        return
    if not isinstance(cache, KVCache):
        raise TypeError(f"{name} must be a KVCache, got {type(cache).__name__}")
    if isinstance(cache, RollingKVCache):
        raise ValueError(f"{name} must be a KVCache that keeps all; a RollingKVCache serves sliding windows only")
    if cache.num_layers != num_layers:
        raise ValueError(f"{name} must have the model's num_layers={num_layers}, got {cache.num_layers}")


def checked_real(name: str, real: Tensor, total: tuple[int, ...], device: torch.device) -> Tensor:
    """Refuse what is no ``(B, S)`` table of booleans."""
    table = check.tensor(name, real)
    if table.dtype is not torch.bool:
        raise TypeError(f"{name} must be boolean, True for a real token, got {table.dtype}")
    if check.shape(table) != total:
        raise ValueError(
            f"{name} must have shape (B, S) = {total}, all tokens so far, those in a cache included; "
            f"got {check.shape(table)}"
        )
    if table.device != device:
        raise ValueError(f"{name} must be on the device of the ids, {device}, got {table.device}")
    return table


def _adding(block: EncoderBlock | DecoderBlock) -> list[nn.Linear]:
    """The projections whose output is added to the stream."""
    cross = getattr(block, "cross_attention", None)
    return [block.attention.W_O, block.feed_forward.W_2] + ([] if cross is None else [cross.W_O])


def _rotary(config: TransformerConfig) -> Rotary | None:
    if config.positions != "rotary":
        return None
    return Rotary(config.d_head or config.d_model // config.num_heads, config.rotary_base)


def _guess(config: TransformerConfig, ids: Tensor, cache: KVCache | None, seen: int) -> Tensor | None:
    old = None if cache is None else cache.real
    if old is None and config.pad_id is None:
        return None
    new = torch.ones_like(ids, dtype=torch.bool) if config.pad_id is None else ids != config.pad_id
    if old is None:
        old = new.new_ones(ids.shape[0], seen)
    if old.shape[0] != ids.shape[0]:
        raise ValueError(f"the cache holds a batch of {old.shape[0]}, got one of {ids.shape[0]}")
    return torch.cat([old, new], dim=1)
