"""What ``auto`` takes, that it makes no table it can do without, and that its numbers are the reference's."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from companion import Mask, attend, causal, document, padding, scaled_dot_product_attention, sliding_window
from companion.backends import chosen
from companion.call import Call
from companion.kernels import auto, flex, sdpa
from companion.masks import bigbird, longformer, prefix_lm
from tests.companion.helpers import KINDS, case

LONG = 2048
ENDS = torch.tensor([LONG, LONG - 300])


def inputs(length: int, keys: int | None = None, *, width: int = 8, value_width: int | None = None) -> list[Tensor]:
    keys = length if keys is None else keys
    return [torch.rand(2, 1, n, d) for n, d in ((length, width), (keys, width), (keys, value_width or width))]


@torch.no_grad()
def exact(*tensors: Any, **options: Any) -> Tensor:
    """The reference in float64."""
    q, k, v, *mask = tensors
    return scaled_dot_product_attention(q.double(), k.double(), v.double(), *mask, **options).output


MASKS = {
    "causal()": causal(),
    "padding": padding(ENDS),
    "padding table": padding(torch.arange(LONG) >= LONG - ENDS.unsqueeze(-1)),
    "sliding window": sliding_window(100),
    "sliding window, two sides": sliding_window(100, causal=False),
    "document": document((torch.arange(LONG) // 500).repeat(2, 1)),
    "prefix": prefix_lm([5, 700]),
    "padding & causal": padding(ENDS) & causal(),
    "longformer": longformer(50, [0, 7]),
    "bigbird": bigbird(64),
    "causal(offset)": causal(3),
    "not": ~sliding_window(5),
    "one's own": Mask(lambda b, h, q, k: (q + k) % 7 != 0),
}


class Largest(TorchDispatchMode):
    """Notes the largest tensor, by the memory it holds, that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor):
                self.cells = max(self.cells, x.untyped_storage().nbytes() // x.element_size())
        return out


def test_the_largest_tensor_is_seen():
    """Or the tests below could not fail: the dense way makes two tables of floats."""
    q, k, v = inputs(LONG)
    with Largest() as seen:
        attend(q, k, v, causal(3), backend="math")
    assert seen.cells >= 2 * LONG * LONG


@pytest.mark.parametrize("kind", MASKS)
def test_no_table_of_pairs_forward_or_backward(kind: str):
    """A tile is 512 x 512 at most for each of the 2 heads of 2048 x 2048."""
    q, k, v = (x.requires_grad_() for x in inputs(LONG))
    with Largest() as seen:
        output = attend(q, k, v, MASKS[kind])
        output.sum().backward()
    assert seen.cells <= 2 * 512 * 512 < LONG * LONG
    assert (output - exact(q, k, v, MASKS[kind])).abs().max() <= 2e-6


@pytest.mark.parametrize(
    ("length", "keys", "options"),
    [
        (LONG, LONG, {}),
        (LONG, LONG, {"causal": True}),
        (LONG - 100, LONG, {"causal": True}),
        (LONG, LONG - 100, {"causal": True}),
        (LONG // 4, LONG, {"causal": True}),
        (LONG, LONG, {"mask": torch.rand(2, 1, 1, LONG) < 0.9, "causal": True}),
        (LONG, LONG, {"mask": torch.rand(2, 1, 1, LONG) < 0.9}),
        (LONG, LONG, {"bias": torch.randn(2, 1, 1, LONG)}),
        (LONG, LONG, {"value_width": 4}),
    ],
    ids=lambda x: "-".join(x) or "plain" if isinstance(x, dict) else str(x),
)
def test_no_table_of_pairs_for_flags_and_rows(length: int, keys: int, options: dict[str, Any]):
    q, k, v = (x.requires_grad_() for x in inputs(length, keys, value_width=options.get("value_width")))
    given = {name: x for name, x in options.items() if name != "value_width"}
    with Largest() as seen:
        output = attend(q, k, v, **given)
        output.sum().backward()
    assert seen.cells <= 2 * 512 * 512
    mask = given.get("mask")
    if given.get("causal"):
        triangle = causal().dense(2, 1, length, keys)
        mask = triangle if mask is None else mask & triangle
    assert (output - exact(q, k, v, mask, bias=given.get("bias"))).abs().max() <= 2e-6


# --- which, and why ---


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("flash", (LONG, LONG), {}),
        ("flash", (LONG, LONG), {"causal": True}),
        ("flash", (LONG, LONG), {"mask": causal()}),
        ("flash", (1, LONG), {"causal": True}),
        ("flash", (1100, LONG), {"causal": True}),
        ("chunked", (1000, LONG), {"causal": True}),
        ("flash", (16, LONG), {"causal": True}),
        ("flash", (LONG, LONG), {"mask": MASKS["padding"]}),
        ("flash", (LONG, LONG), {"mask": MASKS["padding table"]}),
        ("flash", (LONG, LONG), {"mask": torch.ones(1, LONG, dtype=torch.bool)}),
        ("chunked", (LONG, LONG), {"mask": torch.ones(LONG, LONG, dtype=torch.bool)}),
        ("chunked", (LONG, LONG), {"bias": torch.zeros(LONG, LONG)}),
        ("chunked", (300, 300), {"mask": sliding_window(20)}),
        ("flash", (300, 300), {"mask": sliding_window(200)}),
        ("flash", (128, 128), {"mask": sliding_window(20)}),
        ("flash", (300, 300), {"mask": longformer(20)}),
        ("flash", (300, 300), {"mask": torch.ones(300, 300, dtype=torch.bool)}),
        *(
            ("chunked", (LONG, LONG), {"mask": MASKS[kind]})
            for kind in MASKS
            if kind.split()[0] not in ("causal()", "padding")
        ),
        ("chunked", (LONG, LONG), {"mask": MASKS["padding & causal"]}),
        ("math", (LONG, LONG), {"mask": MASKS["document"], "dropout_p": 0.1}),
    ],
    ids=lambda x: (
        str(x)
        if not isinstance(x, dict)
        else ",".join(f"{k}={getattr(v, 'name', type(v).__name__)}" for k, v in x.items())
    ),
)
def test_which_backend_on_a_cpu(name: str, shape: tuple[int, int], options: dict[str, Any]):
    q, k, v = inputs(*shape)
    answer, _, why = chosen(q, k, v, **options).partition(": ")
    assert answer == name
    assert why.endswith(".")


def test_what_the_fused_kernel_cannot_do_goes_to_tiles_when_it_is_long():
    narrow = inputs(LONG, value_width=4)
    assert chosen(*narrow).startswith("chunked")
    assert chosen(*(x[:, :, :64] for x in narrow)).startswith("math")
    q, k, v = inputs(LONG)
    assert chosen(q, k, v, bias=torch.zeros(1, LONG, requires_grad=True)).startswith("chunked")
    assert chosen(q, k, v, bias=torch.zeros(1, LONG)).startswith("flash")


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_that_pytorch_picks_is_named(kind: str, monkeypatch: pytest.MonkeyPatch):
    made = case(kind, 4, 6, 2, dtype=torch.float32)
    assert made is not None
    answer = chosen(*made[:3], **made.options).partition(":")[0]
    ran = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran.append(str(func))
            return func(*args, **(kwargs or {}))

    with Seen():
        attend(*made[:3], **made.options)
    assert any("flash_attention_for_cpu" in name for name in ran) == (answer == "flash")
    assert chosen(*(x[:, :, :0] for x in made[:3])).startswith("math")


def test_a_rule_that_cannot_say_what_it_looks_at_is_asked_once():
    """Whether a mask varies with the query is seen from two of them; its answer may have fewer dims than four."""
    q, k, v = inputs(LONG)
    for thin, rule in (
        (True, lambda b, h, q, k: k < 1000),
        (True, lambda b, h, q, k: (k < 1000).view(-1)),
        (False, lambda b, h, q, k: k < q),
        (False, lambda b, h, q, k: (k < q) | (h < 0) | (b < 0)),
    ):
        assert auto._is_thin(Call.of(q, k, v, Mask(rule))) == thin
    with pytest.raises(TypeError, match="boolean"):
        attend(q, k, v, Mask(lambda b, h, q, k: k - q))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_autocast_gives_one_dtype_to_short_and_long(dtype: torch.dtype):
    rule = longformer(20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        short, long = (attend(*(x.to(dtype) for x in inputs(n)), rule) for n in (64, 600))
    assert short.dtype == long.dtype


# --- elsewhere, by what the device says of itself ---


def elsewhere(monkeypatch: pytest.MonkeyPatch, kind: str, capability: tuple[int, int] = (9, 0)) -> None:
    monkeypatch.setattr(Call, "device", torch.device(kind))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: kind == "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=capability[0]))
    monkeypatch.setattr(sdpa, "picked", lambda call: "PyTorch")
    monkeypatch.setattr(auto, "_is_thin", lambda call: False)
    monkeypatch.setattr(flex, "_traces", lambda mask, call: True)


@pytest.mark.parametrize(
    ("kind", "capability", "name"),
    [("cuda", (9, 0), "flex"), ("cuda", (8, 0), "flex"), ("cuda", (7, 5), "chunked"), ("mps", (0, 0), "chunked")],
    ids=str,
)
def test_which_backend_on_a_gpu(kind: str, capability: tuple[int, int], name: str, monkeypatch: pytest.MonkeyPatch):
    elsewhere(monkeypatch, kind, capability)
    long, short = (Call.of(*inputs(n), longformer(3)) for n in (LONG, 512))
    assert auto.chosen(long).startswith(name)
    assert auto.chosen(short).startswith("PyTorch")
    assert auto.chosen(Call.of(*inputs(LONG))).startswith("PyTorch: there is no mask")
    assert auto.chosen(Call.of(*inputs(LONG), causal())).startswith("PyTorch: causal")
    assert auto.chosen(Call.of(*inputs(LONG), longformer(3), dropout_p=0.5)).startswith("PyTorch: only")
    bias = torch.zeros(1, LONG, requires_grad=True)
    assert auto.chosen(Call.of(*inputs(LONG), longformer(3), bias=bias)).startswith("chunked")
    assert auto.chosen(Call.of(*(x.double() for x in inputs(LONG)), longformer(3))).startswith("chunked")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": causal()}, {"mask": sliding_window(64)}], ids=str)
def test_on_cuda_nothing_waits(options: dict[str, Any]):
    """Validation and choice read no number from the device; the second call, since the first may compile."""
    q, k, v = (torch.rand(2, 4, LONG, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    attend(q, k, v, **options)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        attend(q, k, v, **options)
    finally:
        torch.cuda.set_sync_debug_mode("default")


# --- compiled ---


def test_a_long_mask_compiles_without_a_graph_break(compiled):
    """Tiles would be a loop unrolled, so there the mask becomes a table."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        rows = causal() & sliding_window(40)
        return attend(q, k, v, rows), attend(q, k[:, :, :20], v[:, :, :20]), attend(q[:, :, -9:], k, v, causal=True)

    fast = compiled(run, fullgraph=True, backend="eager")
    q, k, v = inputs(600)
    for one, two in zip(run(q, k, v), fast(q, k, v), strict=True):
        torch.testing.assert_close(two, one, rtol=0, atol=2e-6)


# --- the guard: what it must find, and what it must not cost ---


def test_an_infinite_key_leaves_no_trace_in_a_fused_kernels_output():
    """Why the guard reads its inputs: scores of minus infinity are weights of zero, and the output is finite."""
    q, k, v = torch.ones(1, 1, 4, 8), torch.rand(1, 1, 4, 8), torch.rand(1, 1, 4, 8)
    k[0, 0, 2, 3] = -math.inf
    assert F.scaled_dot_product_attention(q, k, v).isfinite().all()
    assert attend(q, k, v).isnan().all()
    output = attend(q, k, v, causal=True)
    assert output[0, 0, 2:].isnan().all()
    assert output[0, 0, :2].isfinite().all()
