r"""Where a token stands, told to a mechanism that does not know order.

Four ways: add a vector to the embedding (sinusoidal, learned), turn queries and keys by an angle that grows with the
position (rotary), or take from the score what grows with the distance (ALiBi).

Positions are integers, counted from 0 at the first real token. ``positions`` arguments have shape ``(L,)``, or
``(B, L)`` where entries are padded differently; :func:`position_ids` makes them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from companion import check
from companion.angles import Angles, checked_positions
from companion.rotary import Rotary
from companion.typing import Bool, Float, Int

__all__ = ["LearnedPositions", "Rotary", "SinusoidalPositions", "alibi_bias", "alibi_slopes", "position_ids"]


def position_ids(real: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Count each entry's positions from its first real token, wherever the padding is.

    Args:
        real: ``True`` for a real token, ``(B, S)``.

    Returns:
        Positions, ``(B, S)``, int64. Padding before the text stands at 0, as its first token does; padding after it
        at the last token's position. What stands there is to be masked anyway.

    Raises:
        TypeError: ``real`` is no boolean tensor.
        ValueError: ``real`` is not ``(B, S)``.

    Example:
        >>> position_ids(torch.tensor([[False, True, True]]))
        tensor([[0, 0, 1]])
    """
    table = check.tensor("real", real)
    if table.dtype is not torch.bool:
        raise TypeError(f"real must be boolean, True for a real token, got {table.dtype}")
    if table.dim() != 2:
        raise ValueError(f"real must have shape (B, S), got {check.shape(table)}")
    return (table.cumsum(-1) - 1).clamp(min=0)


class SinusoidalPositions(Angles):
    r"""Add to each token a vector of sines and cosines of its position.

    .. math:: p_{t, 2c} = \sin(t\, \omega_c), \qquad p_{t, 2c + 1} = \cos(t\, \omega_c), \qquad
       \omega_c = \text{base}^{-2c / M}

    A shift by :math:`s` turns each pair by the angle :math:`s\, \omega_c`, so the dot product of two positions depends
    on their distance alone.

    Args:
        d_model: ``M``, even.
        base: the longest wavelength is ``2 * pi * base`` tokens, nearly.

    Raises:
        TypeError: ``d_model`` is no int, or ``base`` no number.
        ValueError: ``d_model`` is odd or less than 2, or ``base`` not more than 1.

    Example:
        >>> SinusoidalPositions(2)(torch.zeros(2, 2))[0]  # sin 0, cos 0
        tensor([0., 1.])

    Source: Vaswani et al., 2017 (arXiv:1706.03762), section 3.5.
    """

    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__("d_model", d_model, base)

    def forward(
        self, x: Float[Tensor, "*batch L M"], positions: Int[Tensor, "*some L"] | None = None
    ) -> Float[Tensor, "*batch L M"]:
        """Add the positions' vectors.

        Args:
            x: tokens, ``(..., L, M)``.
            positions: ``(L,)`` or ``(..., L)``; 0 to ``L - 1`` if not given.

        Returns:
            ``(..., L, M)``, in the dtype of ``x``; angles are computed in float32 at least.

        Raises:
            TypeError: ``x`` is no floating-point tensor, or ``positions`` no integer one.
            ValueError: shapes or devices that do not fit.
        """
        check.floating("x", x)
        check.min_rank("x", x, 2, "(..., L, M)")
        check.width("x", x, self.width)
        check.on_device("x", x, self.frequencies)
        where = checked_positions(positions, x.shape[-2], check.shape(x)[:-2], x.device)
        angles = self.angles(where, x.dtype)  # (..., L, M/2)
        return x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)


class LearnedPositions(nn.Module):
    """Add to each token a vector that was learned for its position.

    Args:
        max_length: how many positions there are; there is nothing beyond the last.
        d_model: ``M``.

    Raises:
        TypeError: no ints.
        ValueError: less than 1.

    Example:
        >>> LearnedPositions(max_length=3, d_model=4)(torch.zeros(2, 4)).shape
        torch.Size([2, 4])

    Source: Gehring et al., 2017 (arXiv:1705.03122), section 3.1.
    """

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.max_length = check.integer("max_length", max_length)
        self.d_model = check.integer("d_model", d_model)
        self.table = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(
        self, x: Float[Tensor, "*batch L M"], positions: Int[Tensor, "*some L"] | None = None
    ) -> Float[Tensor, "*batch L M"]:
        """Add the positions' vectors.

        Args:
            x: tokens, ``(..., L, M)``.
            positions: ``(L,)`` or ``(..., L)``; 0 to ``L - 1`` if not given.

        Returns:
            ``(..., L, M)``.

        Raises:
            TypeError: ``x`` is no floating-point tensor, or ``positions`` no integer one.
            ValueError: shapes or devices that do not fit, or a position that has no vector. (On CUDA, given
                ``positions`` are not read, so that nothing waits for the GPU; PyTorch asserts there.)
        """
        check.floating("x", x)
        check.min_rank("x", x, 2, "(..., L, M)")
        check.width("x", x, self.d_model)
        check.on_device("x", x, self.table.weight)
        where = checked_positions(positions, x.shape[-2], check.shape(x)[:-2], x.device)
        if positions is None and x.shape[-2] > self.max_length:
            raise ValueError(f"x has {x.shape[-2]} positions, and there are vectors for {self.max_length} only")
        low, high = check.extremes(where)
        if low < 0 or high >= self.max_length:
            raise ValueError(
                f"positions has {low if low < 0 else high}, and there are vectors for 0 to {self.max_length - 1} only"
            )
        return x + self.table(where.long()).to(x.dtype)


def alibi_slopes(num_heads: int) -> Float[Tensor, " H"]:
    r"""How steeply each head discounts distance.

    .. math:: m_h = 2^{-8 (h + 1) / H}

    Args:
        num_heads: ``H``. Where it is no power of two, the slopes of the next lower power come first, then every other
            one of the next higher, as in the paper's code.

    Returns:
        Positive slopes, ``(H,)``, float32.

    Raises:
        TypeError: ``num_heads`` is no int.
        ValueError: ``num_heads`` is less than 1.

    Example:
        >>> alibi_slopes(2)
        tensor([0.0625, 0.0039])

    Source: Press, Smith and Lewis, "Train Short, Test Long", 2021 (arXiv:2108.12409), section 3.
    """
    return torch.tensor(_slopes(num_heads), dtype=torch.float32)


def alibi_bias(num_heads: int, L: int, S: int, device: torch.device | str | None = None) -> Float[Tensor, "1 H L S"]:
    r"""A bias that takes from each score in proportion to the distance.

    .. math:: \text{bias}_{h i j} = -m_h\, \lvert p_i - j \rvert, \qquad p_i = S - L + i

    Args:
        num_heads: ``H``.
        L: query length; the last query stands at the last key.
        S: key length.
        device: where to make it; the CPU if not given.

    Returns:
        ``(1, H, L, S)``, float32, for the ``bias`` of ``attend``.

    Raises:
        TypeError: no ints, or no device.
        ValueError: a negative length, or no head.

    Example:
        >>> alibi_bias(1, 1, 3)  # the slope of a single head is 2 ** -8
        tensor([[[[-0.0078, -0.0039,  0.0000]]]])

    Source: Press, Smith and Lewis, 2021 (arXiv:2108.12409). The paper's is causal; this one counts distance both ways.
    """
    place = check.device("device", device)
    length, keys = check.integer("L", L, minimum=0), check.integer("S", S, minimum=0)
    queries = torch.arange(length, device=place).view(-1, 1) + (keys - length)
    distance = (queries - torch.arange(keys, device=place)).abs().float()  # (L, S)
    slopes = torch.tensor(_slopes(num_heads), dtype=torch.float32, device=place).view(1, -1, 1, 1)
    return 0.0 - slopes * distance  # 0 − 0 prints as 0


def _slopes(num_heads: int) -> list[float]:
    heads = check.integer("num_heads", num_heads)
    power = 2 ** (heads.bit_length() - 1)
    return _geometric(power) + _geometric(2 * power)[::2][: heads - power]


def _geometric(heads: int) -> list[float]:
    return [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
