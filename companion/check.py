"""What every public function asks of its input, in one place, so that all of them answer alike.

``TypeError`` for a wrong kind of thing (no tensor, a wrong dtype), ``ValueError`` for a wrong shape, device or number.
Each message names the argument, what came, and what was expected. Nothing here reads a tensor's values, so nothing
waits for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import torch
from torch import Tensor, nn

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # PyTorch can do little with the rest


def shape(x: Tensor) -> tuple[int, ...]:
    """The shape as a plain tuple, which prints as ``(2, 3)``."""
    return tuple(x.shape)


def tensor(name: str, x: object) -> Tensor:
    """Refuse what is no tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if x.is_nested or x.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got a {'nested' if x.is_nested else 'sparse'} one")
    return x


def floating(name: str, x: object) -> Tensor:
    """Refuse what is no floating-point tensor."""
    x = tensor(name, x)
    if x.dtype not in FLOATS:
        hint = "; token ids need an embedding first" if not x.dtype.is_complex and x.dtype is not torch.bool else ""
        raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {x.dtype}{hint}")
    return x


def integers(name: str, x: object) -> Tensor:
    """Refuse what is no tensor of whole numbers."""
    x = tensor(name, x)
    if x.dtype not in INTEGERS:
        raise TypeError(f"{name} must be integers (uint8 or int8 to int64), got {x.dtype}")
    return x


def min_rank(name: str, x: Tensor, rank: int, letters: str) -> None:
    """Refuse a tensor with fewer than ``rank`` dims."""
    if x.dim() < rank:
        raise ValueError(f"{name} must have at least {rank} dims, {letters}; got shape {shape(x)}")


def width(name: str, x: Tensor, features: int) -> None:
    """Refuse a tensor whose last dim is another."""
    if x.shape[-1] != features:
        raise ValueError(f"{name} must have {features} features in its last dim, got shape {shape(x)}")


def on_device(name: str, x: Tensor, weight: Tensor) -> None:
    """Refuse a tensor on another device than the module's."""
    if x.device != weight.device:
        raise ValueError(f"{name} must be on the module's device, {weight.device}, got {x.device}")


def module_input(name: str, x: object, weight: Tensor, letters: str) -> Tensor:
    """Refuse what a module's weight ``(..., M)`` would meet with an unclear message.

    Args:
        name: of the argument.
        x: the argument.
        weight: a parameter of the module, whose last dim is ``M``.
        letters: of the shape, such as ``"(..., L, M)"``.
    """
    x = floating(name, x)
    min_rank(name, x, letters.count(","), letters)
    if x.shape[-1] != weight.shape[-1]:
        raise ValueError(f"{name} must be {letters} with M={weight.shape[-1]}, got shape {shape(x)}")
    on_device(name, x, weight)
    if x.dtype != weight.dtype and not _autocast(x.device.type):
        raise TypeError(f"{name} must have the module's dtype, {weight.dtype}, got {x.dtype}")
    return x


def axis(name: str, dim: object, x: Tensor) -> int:
    """Refuse what is no axis of ``x``; count it from the front."""
    number = integer(name, dim, minimum=-x.dim())
    if number >= x.dim():
        raise ValueError(f"{name} must be an axis of x, which has shape {shape(x)}; got {dim}")
    return number % x.dim()


def along(name: str, x: Tensor, dim: object, letters: str) -> int:
    """Refuse what is no floating-point tensor with an axis ``dim``; count that from the front."""
    floating(name, x)
    min_rank(name, x, 1, letters)
    return axis("dim", dim, x)


def same_dtype(**tensors: Tensor) -> None:
    """Refuse tensors of different dtypes."""
    if len({x.dtype for x in tensors.values()}) > 1:
        raise TypeError(f"{_list(tensors)} must have one dtype, got {_list(x.dtype for x in tensors.values())}")


def same_device(**tensors: Tensor) -> None:
    """Refuse tensors on different devices."""
    if len({x.device for x in tensors.values()}) > 1:
        raise ValueError(f"{_list(tensors)} must be on one device, got {_list(x.device for x in tensors.values())}")


def integer(name: str, x: object, minimum: int = 1) -> int:
    """Refuse what is no whole number of at least ``minimum``; bools are not numbers here."""
    if isinstance(x, bool) or not isinstance(x, Integral):
        raise TypeError(f"{name} must be an int, got {type(x).__name__} ({x!r})")
    if x < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {x}")
    return int(x)


def real(name: str, x: object) -> float:
    """Refuse what is no finite real number."""
    if isinstance(x, bool) or not isinstance(x, Real):
        raise TypeError(f"{name} must be a real number, got {type(x).__name__}")
    try:
        number = float(x)
    except OverflowError:  # an int beyond the largest float
        number = math.inf
    if not abs(number) < math.inf:  # NaN too; torch.compile has no isfinite for its symbols
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def positive(name: str, x: object) -> float:
    """Refuse what is no positive, finite number."""
    number = real(name, x)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {number}")
    return number


def probability(name: str, x: object) -> float:
    """Refuse what is no number from 0 to 1."""
    number = real(name, x)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be between 0 and 1, got {number}")
    return number


def one_of(name: str, x: object, names: tuple[str, ...]) -> str:
    """Refuse what is none of some names."""
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a str, got {type(x).__name__}")
    if x not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}; got {x!r}")
    return x


def flag(name: str, x: object) -> bool:
    """Refuse what is neither True nor False: a mask passed as ``causal`` is a common slip."""
    if not isinstance(x, bool):
        raise TypeError(f"{name} must be True or False, got {type(x).__name__}")
    return x


def int_or_bool(name: str, x: object, letter: str = "B") -> Tensor:
    """Refuse what is neither counts or positions, ``(B,)`` whole numbers from 0, nor a table, ``(B, S)`` booleans."""
    if not isinstance(x, Tensor):
        if isinstance(x, (str, bytes)) or not isinstance(x, Sequence):
            raise TypeError(f"{name} must be a tensor or a sequence of ints, got {type(x).__name__}")
        try:
            x = torch.tensor(x, dtype=None if len(x) else torch.long, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{name} must be integers ({letter},) or booleans (B, S), got {x!r}: {error}") from None
    x = tensor(name, x)
    if x.dtype not in (torch.bool, *INTEGERS):
        raise TypeError(f"{name} must be integers ({letter},) or booleans (B, S), got {x.dtype}")
    if x.dtype is torch.bool:
        if x.dim() != 2:
            raise ValueError(f"{name} given as booleans must have shape (B, S), got {shape(x)}")
    elif x.dim() != 1:
        raise ValueError(f"{name} must have shape ({letter},), got {shape(x)}; a table (B, S) must be boolean")
    elif extremes(x)[0] < 0:
        raise ValueError(f"{name} must not be negative, got {x.tolist()}")
    return x


def extremes(x: Tensor) -> tuple[int, int]:
    """The smallest and the largest number.

    ``(0, -1)`` where there is none, where reading it would wait for a GPU, and in ``torch.compile``, which cannot.
    """
    if x.device.type != "cpu" or not x.numel() or torch.compiler.is_compiling():
        return 0, -1
    low, high = torch.aminmax(x)
    return int(low), int(high)


def ids(name: str, x: object, vocab_size: int) -> Tensor:
    """Refuse what is no ``(B, L)`` table of ids from 0 to ``vocab_size - 1``."""
    table = integers(name, x)
    if table.dim() != 2:
        raise ValueError(f"{name} must have shape (B, L), got {shape(table)}")
    low, high = extremes(table)
    if low < 0 or high >= vocab_size:
        raise ValueError(f"{name} must be from 0 to {vocab_size - 1}, got {low if low < 0 else high}")
    return table


def module(name: str, x: object) -> nn.Module:
    """Refuse what is no module, or one without parameters, which would not say what device it is on."""
    if not isinstance(x, nn.Module):
        raise TypeError(f"{name} must be a torch.nn.Module, got {type(x).__name__}")
    if next(x.parameters(), None) is None:
        raise ValueError(f"{name} must have parameters, got {type(x).__name__} with none")
    return x


def device(name: str, x: object) -> torch.device:
    """Refuse what names no kind of device; ``None`` is the CPU."""
    if x is None or isinstance(x, torch.device):
        return x or torch.device("cpu")
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a torch.device or a str, got {type(x).__name__}")
    try:
        return torch.device(x)
    except RuntimeError:
        raise ValueError(f"{name} must name a device, such as 'cpu' or 'cuda', got {x!r}") from None


def _autocast(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


def _list(items: Iterable[object]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
