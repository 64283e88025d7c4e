"""Oracles and inputs that share no code with the package: plain loops over plain numbers."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

Table = list[list[float]]
Cell = Callable[[int, int, int, int], bool]

BACKENDS_ON_CPU = ("reference", "math", "flash", "chunked")
"""Those that serve any call there. ``flex`` compiles for each and has no backward: see ``test_flex.py``."""
# Without a GPU one skip says so, not one for each backend.
BACKENDS_ON_CUDA = (
    ("auto", "reference", "math", "flash", "efficient", "cudnn", "flex", "triton", "chunked")
    if torch.cuda.is_available()
    else ("every backend",)
)
PLACES = [("cpu", name) for name in ("auto", *BACKENDS_ON_CPU)] + [
    pytest.param(("cuda", name), marks=pytest.mark.cuda) for name in BACKENDS_ON_CUDA
]
"""Device and backend, for ``@pytest.mark.parametrize("place", PLACES, indirect=True, ids=str)``."""


def naive_attention(
    query: Table, key: Table, value: Table, allowed: list[list[bool]], bias: Table, scale: float
) -> tuple[Table, Table]:
    """Output and weights of one head, number by number."""
    outputs, shares = [], []
    for i, q in enumerate(query):
        scores = {
            j: scale * sum(a * b for a, b in zip(q, k, strict=True)) + bias[i][j]
            for j, k in enumerate(key)
            if allowed[i][j] and bias[i][j] != -math.inf
        }
        largest = max(scores.values(), default=0.0)
        total = math.fsum(math.exp(s - largest) for s in scores.values())
        weights = [math.exp(scores[j] - largest) / total if j in scores else 0.0 for j in range(len(key))]
        width = len(value[0]) if value else 0
        outputs.append([math.fsum(w * row[e] for w, row in zip(weights, value, strict=True)) for e in range(width)])
        shares.append(weights)
    return outputs, shares


def table(batch: int, heads: int, length: int, keys: int, cell: Cell) -> Tensor:
    """Ask ``cell(b, h, q, k)`` of every pair, one by one, in Python ints."""
    answers = [cell(b, h, q, k) for b in range(batch) for h in range(heads) for q in range(length) for k in range(keys)]
    return torch.tensor(answers, dtype=torch.bool).view(batch, heads, length, keys)


class Case(NamedTuple):
    """One call, and who may see whom in it, worked out by loops."""

    query: Tensor
    key: Tensor
    value: Tensor
    options: dict[str, Any]
    allowed: Tensor
    bias: Tensor | None

    @property
    def empty(self) -> Tensor:
        """``(B, H, L)``: queries that see nothing."""
        seen = self.allowed if self.bias is None else self.allowed & (self.bias != -math.inf)
        return ~seen.any(-1)


def repeat(x: Tensor, heads: int) -> Tensor:
    """One kv head a query head, by a list of slices."""
    share = heads // x.shape[1]
    return torch.stack([x[:, h // share] for h in range(heads)], dim=1)


def uniform(*shape: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """From -1 to 1, so that an absolute bound says something about low precision."""
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype)


LAYOUTS = ("contiguous", "transposed", "strided", "stride 0")


def laid_out(layout: str, *shape: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """A tensor ``(B, H, L, D)`` whose memory is in another order, or shared."""
    batch, heads, length, width = shape
    if layout == "transposed":
        return uniform(batch, length, heads, width, generator=generator, dtype=dtype).transpose(1, 2)
    if layout == "strided":
        return uniform(batch, heads, length, 2 * width, generator=generator, dtype=dtype)[..., ::2]
    if layout == "stride 0":
        return uniform(1, heads, 1, width, generator=generator, dtype=dtype).expand(*shape)
    return uniform(*shape, generator=generator, dtype=dtype)


KINDS = (
    "none",
    "causal flag",
    "causal()",
    "causal(offset)",
    "padding",
    "padding table",
    "sliding window",
    "document",
    "dense (L, S)",
    "dense (B, 1, 1, S)",
    "dense (B, H, L, S)",
    "bias",
    "bias and mask",
    "bias and causal",
    "mask and causal",
    "padding & causal()",
)


def case(
    kind: str,
    length: int,
    keys: int,
    groups: int,
    *,
    heads: int = 4,
    batch: int = 2,
    width: int = 8,
    layout: str = "contiguous",
    empty: bool = False,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    seed: int = 0,
) -> Case | None:
    """Inputs for one kind of mask, or None where the kind has no such case."""
    from companion import masks  # here, so that a test of annotations can import the package its own way

    g = torch.Generator().manual_seed(seed)
    query = laid_out(layout, batch, heads, length, width, generator=g, dtype=dtype)
    key = laid_out(layout, batch, groups, keys, width, generator=g, dtype=dtype)
    value = laid_out(layout, batch, groups, keys, width, generator=g, dtype=dtype)
    shift = keys - length
    lengths = [0 if empty else max(1, keys - 2), *[keys] * (batch - 1)]
    names = torch.arange(keys).div(3, rounding_mode="floor").repeat(batch, 1)
    coin = torch.rand(batch, heads, length, keys, generator=g) < 0.6
    coin[..., 0] = True
    if empty:
        coin[0, :, 0] = False

    def everything(b: int, h: int, q: int, k: int) -> bool:
        return True

    cells: dict[str, Cell] = {
        "none": everything,
        "causal flag": lambda b, h, q, k: k <= q + shift,
        "causal()": lambda b, h, q, k: k <= q + shift,
        "causal(offset)": lambda b, h, q, k: k <= q + (-1 if empty else 1),
        "padding": lambda b, h, q, k: k < lengths[b],
        "padding table": lambda b, h, q, k: k >= keys - lengths[b],  # padded on the left
        "sliding window": lambda b, h, q, k: 0 <= q + shift - k < 3,
        "document": lambda b, h, q, k: (q + shift) // 3 == k // 3,
        "dense (L, S)": lambda b, h, q, k: bool(coin[0, 0, q, k]),
        "dense (B, 1, 1, S)": lambda b, h, q, k: k < lengths[b] and k % 2 == 0,
        "dense (B, H, L, S)": lambda b, h, q, k: bool(coin[b, h, q, k]),
        "bias": everything,
        "bias and mask": lambda b, h, q, k: bool(coin[b, 0, q, k]),
        "bias and causal": lambda b, h, q, k: k <= q + shift,
        "mask and causal": lambda b, h, q, k: bool(coin[b, h, q, k]) and k <= q + shift,
        "padding & causal()": lambda b, h, q, k: k < lengths[b] and k <= q + shift,
    }
    allowed = table(batch, heads, length, keys, cells[kind]).to(device)
    bias = None
    if kind.startswith("bias"):
        bias = uniform(1, heads, length, keys, generator=g) * 3
        if empty and kind == "bias":
            bias[:, :, 0] = -math.inf
        bias = bias.to(device, dtype)
    coin = coin.to(device)
    options: dict[str, dict[str, Any]] = {
        "none": {},
        "causal flag": {"causal": True},
        "causal()": {"mask": masks.causal()},
        "causal(offset)": {"mask": masks.causal(-1 if empty else 1)},
        "padding": {"mask": masks.padding(torch.tensor(lengths))},
        "padding table": {"mask": masks.padding(allowed[:, 0, 0])},
        "sliding window": {"mask": masks.sliding_window(3)},
        "document": {"mask": masks.document(names)},
        "dense (L, S)": {"mask": coin[0, 0]},
        "dense (B, 1, 1, S)": {"mask": allowed[:, :1, :1]},
        "dense (B, H, L, S)": {"mask": coin},
        "bias": {"bias": bias},
        "bias and mask": {"bias": bias, "mask": coin[:, :1]},
        "bias and causal": {"bias": bias, "causal": True},
        "mask and causal": {"mask": coin, "causal": True},
        "padding & causal()": {"mask": masks.padding(lengths) & masks.causal()},
    }
    if kind == "document" and length > keys:
        return None
    made = Case(*(x.to(device) for x in (query, key, value)), options[kind], allowed, bias)
    # Whether there is an empty row must be what was asked, but where lengths alone make one.
    return made if bool(made.empty.any()) or not empty else None


def carry_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    """Give ours the weights of PyTorch's."""
    bias = theirs.in_proj_bias is not None
    for name, rows in zip("QKV", theirs.in_proj_weight.chunk(3), strict=True):
        getattr(ours, f"W_{name}").weight.copy_(rows)
    ours.W_O.weight.copy_(theirs.out_proj.weight)
    if bias:
        for name, rows in zip("QKV", theirs.in_proj_bias.chunk(3), strict=True):
            getattr(ours, f"W_{name}").bias.copy_(rows)
        ours.W_O.bias.copy_(theirs.out_proj.bias)
