"""The Triton kernels: interpreted on a CPU, compiled on a GPU, and compiled ahead for GPUs that are not here."""

import inspect
import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from companion import causal, padding, scaled_dot_product_attention, sliding_window
from companion.call import Call
from companion.kernels import flash, flash_launch, flash_tiles
from companion.kernels.flash import flash_attention
from companion.masks import document
from tests.companion.helpers import LAYOUTS, Cell, laid_out, repeat, table, uniform
from tests.companion.optional import need

need("triton")

OUTPUT = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
GRADIENT = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
ON_CUDA = 2e-6  # float32 where the exponentials are the hardware's


@pytest.fixture
def here(device: str) -> str:
    """A device on which the kernels run: a CPU with the interpreter, or a GPU without."""
    reason = flash.why_not(torch.device(device), None)
    if reason is not None:
        pytest.skip(reason)
    if device == "cuda" and flash_launch.is_interpreted():
        pytest.skip("TRITON_INTERPRET is set, so nothing is compiled")
    return device


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks for the interpreter, so that small inputs have several; not square, so that none is mixed up."""
    monkeypatch.setattr(flash_launch, "INTERPRETED", {"BLOCK_L": 32, "BLOCK_S": 16})


class Problem(NamedTuple):
    """One call, and who may see whom in it."""

    inputs: tuple[Tensor, Tensor, Tensor]
    options: dict[str, Any]
    allowed: Tensor

    @property
    def empty(self) -> Tensor:
        """``(B, H, L)``: queries that see nothing."""
        return ~self.allowed.any(-1)


KINDS = ("plain", "causal", "window", "causal window", "lengths", "lengths and causal", "lengths and window")
SIZES = ((70, 70), (17, 70), (70, 17), (1, 15))
HEADS = ((2, 1), (2, 2), (4, 2), (4, 1))  # a size has always the same, and the large ones the fewest
WIDTHS = ((16, 16), (8, 24), (24, 8), (80, 40))


def problem(
    kind: str,
    length: int,
    keys: int,
    heads: tuple[int, int] = (2, 1),
    widths: tuple[int, int] = (16, 16),
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    reach: int = 6,
    layout: str = "contiguous",
    seed: int = 0,
) -> Problem:
    g = torch.Generator().manual_seed(seed)
    (H, G), (D, E), shift = heads, widths, keys - length
    batch = 2 if "lengths" in kind else 1
    shapes = ((batch, H, length, D), (batch, G, keys, D), (batch, G, keys, E))
    q, k, v = (laid_out(layout, *shape, generator=g, dtype=dtype).to(device) for shape in shapes)
    counts = [0, max(1, keys - 3)]
    rules: dict[str, Cell] = {
        "causal": lambda b, h, i, j: j <= i + shift,
        "window": lambda b, h, i, j: abs(i + shift - j) < reach,
        "causal window": lambda b, h, i, j: 0 <= i + shift - j < reach,
        "lengths": lambda b, h, i, j: j < counts[b],
    }
    wanted = ["causal window"] if kind == "causal window" else kind.split(" and ") if kind != "plain" else []
    allowed = table(batch, 1, length, keys, lambda *where: all(rules[name](*where) for name in wanted))
    options: dict[str, Any] = {"causal": "causal" in kind}
    if "window" in kind:
        options["window"] = reach
    if "lengths" in kind:
        options["lengths"] = torch.tensor(counts, device=device)
    return Problem((q, k, v), options, allowed.to(device))


class Results(NamedTuple):
    output: Tensor
    logsumexp: Tensor
    gradients: tuple[Tensor, ...]


def weighted(output: Tensor, logsumexp: Tensor | None) -> Tensor:
    """A loss to which each number counts differently, minus infinity not at all; so that gradients are of order one."""
    g = torch.Generator().manual_seed(1)
    loss = (output.double() * uniform(*output.shape, generator=g).to(output.device)).sum()
    if logsumexp is not None:
        seen = logsumexp.detach().isfinite()
        share = uniform(*logsumexp.shape, generator=g).to(output.device)
        loss = loss + (logsumexp.double().masked_fill(~seen, 0.0) * share).sum()
    return loss


def ours(made: Problem) -> Results:
    inputs = [x.detach().requires_grad_() for x in made.inputs]
    output, logsumexp = flash_attention(*inputs, **made.options, return_logsumexp=True)
    return Results(output.detach(), logsumexp.detach(), torch.autograd.grad(weighted(output, logsumexp), inputs))


def exact(made: Problem) -> Results:
    """The reference in float64, on the table that loops made, with each head's keys repeated by hand."""
    inputs = [x.detach().double().requires_grad_() for x in made.inputs]
    heads = inputs[0].shape[1]
    key, value = (repeat(x, heads) for x in inputs[1:])
    out = scaled_dot_product_attention(inputs[0], key, value, made.allowed)
    gradients = torch.autograd.grad(weighted(out.output, out.logsumexp), inputs)
    return Results(out.output.detach(), out.logsumexp.detach(), gradients)


def farthest(got: Tensor, want: Tensor) -> float:
    return (got.double() - want).abs().max().item() if want.numel() else 0.0


def check(made: Problem, label: str = "") -> Results:
    """Hold a call to the bounds of its dtype, and its empty rows to zero."""
    got, want = ours(made), exact(made)
    dtype, on_cuda = made.inputs[0].dtype, made.inputs[0].device.type == "cuda"
    bound, slope = OUTPUT[dtype], GRADIENT[dtype]
    if dtype is torch.float32 and on_cuda:
        bound = slope = ON_CUDA
    assert got.output.dtype == dtype
    assert got.logsumexp.dtype == torch.float32
    empty = made.empty.expand(got.logsumexp.shape)
    assert (got.output[empty] == 0).all(), label
    assert (got.logsumexp[empty] == -math.inf).all(), label
    assert (got.gradients[0][empty] == 0).all(), label
    assert farthest(got.output, want.output) <= bound, label
    assert farthest(got.logsumexp[~empty], want.logsumexp[~empty]) <= 2e-6, label
    for name, mine, theirs in zip("QKV", got.gradients, want.gradients, strict=True):
        assert mine.dtype == dtype
        assert farthest(mine, theirs) <= slope, f"{label}: gradient of {name} off by {farthest(mine, theirs):.1e}"
    return got


# --- numbers ---


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("kind", KINDS)
def test_output_and_gradients_equal_the_reference(here: str, kind: str):
    """Several blocks and one, L = S, L < S and L > S; heads and widths take turns."""
    turn = KINDS.index(kind)
    for number, (length, keys) in enumerate(SIZES):
        heads, widths = HEADS[number], WIDTHS[(turn + number) % len(WIDTHS)]
        check(problem(kind, length, keys, heads, widths, device=here), f"{kind}, {length}, {keys}, {heads}, {widths}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_as_good_as_pytorchs(here: str, dtype: torch.dtype):
    """Interpreted, a bfloat16 product was garbage, about 1e10 (triton#11584)."""
    mine = theirs = 0.0
    for kind in ("causal", "lengths and causal", "window"):
        made = problem(kind, 33, 40, (2, 2), (16, 16), dtype=dtype, device=here)
        want, seen = exact(made).output, ~made.empty.expand(-1, 2, -1)
        mine = max(mine, farthest(check(made, kind).output, want))
        mask = made.allowed | made.empty.unsqueeze(-1)
        other = F.scaled_dot_product_attention(*made.inputs, mask)
        theirs = max(theirs, farthest(other[seen], want[seen]))
    assert 0 < mine <= 2 * theirs, f"{mine:.2e}, PyTorch {theirs:.2e}"


@pytest.mark.slow
@settings(deadline=None, max_examples=8, derandomize=True)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    heads=st.sampled_from(HEADS[:3]),
    widths=st.sampled_from(WIDTHS[:3]),
    kind=st.sampled_from(KINDS),
    reach=st.integers(1, 45),
)
def test_any_size_and_reach(sizes: tuple[int, int], heads: Any, widths: Any, kind: str, reach: int):
    device = "cpu" if flash.why_not(torch.device("cpu"), None) is None else "cuda"
    if flash.why_not(torch.device(device), None):
        pytest.skip("no device for Triton")
    check(problem(kind, *sizes, heads, widths, reach=reach, device=device), f"{sizes}, {reach}")


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("kind", ["window", "causal window"])
def test_a_window_wider_than_a_block(here: str, kind: str):
    """So that some blocks lie inside it, between two edges."""
    check(problem(kind, 100, 110, (1, 1), reach=64, device=here))


@pytest.mark.parametrize("kind", ["plain", "lengths and causal"])
def test_blocks_of_the_usual_size(here: str, kind: str):
    check(problem(kind, 70, 130, (2, 1), device=here))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_memory(here: str, layout: str):
    check(problem("causal", 17, 20, (2, 2), layout=layout, device=here), layout)


def test_a_gradient_may_be_expanded(here: str):
    """That of a sum has stride 0."""
    made = problem("causal", 17, 17, device=here)
    inputs = [x.requires_grad_() for x in made.inputs]
    got = torch.autograd.grad(flash_attention(*inputs, causal=True).sum(), inputs)
    want = torch.autograd.grad(scaled_dot_product_attention(*map(Tensor.double, inputs), causal()).output.sum(), inputs)
    for mine, theirs in zip(got, want, strict=True):
        assert farthest(mine, theirs.double()) < 2e-6


def test_the_log_sum_exp_alone_has_a_gradient(here: str):
    made = problem("causal", 17, 17, device=here)
    inputs = [x.requires_grad_() for x in made.inputs]
    got = torch.autograd.grad(flash_attention(*inputs, causal=True, return_logsumexp=True)[1].square().sum(), inputs)
    out = scaled_dot_product_attention(*(x.double() for x in inputs), causal())
    want = torch.autograd.grad(out.logsumexp.square().sum(), inputs[:2])
    assert (got[2] == 0).all()
    for mine, theirs in zip(got[:2], want, strict=True):
        assert farthest(mine, theirs.double()) < 1e-5


def test_only_what_is_asked_for_has_a_gradient(here: str):
    q, k, v = problem("plain", 17, 17, device=here).inputs
    flash_attention(q, k.requires_grad_(), v).sum().backward()
    assert q.grad is v.grad is None
    assert k.grad is not None


@pytest.mark.parametrize("lead", [(), (3,), (1, 3), (2, 1, 3)])
def test_any_leading_dims(here: str, lead: tuple[int, ...]):
    q, k, v = (uniform(*lead, 5, 8, generator=torch.Generator().manual_seed(n), dtype=torch.float32) for n in range(3))
    lengths = [4] * math.prod(lead[:-1])
    output, logsumexp = flash_attention(q.to(here), k.to(here), v.to(here), lengths=lengths, return_logsumexp=True)
    want = scaled_dot_product_attention(q.double(), k.double(), v.double(), padding(lengths))
    assert output.shape == (*lead, 5, 8)
    assert logsumexp.shape == (*lead, 5)
    assert farthest(output.cpu(), want.output) < 2e-6
    assert farthest(logsumexp.cpu(), want.logsumexp) < 2e-6


@pytest.mark.parametrize("shape", [(0, 5, 8, 8), (5, 0, 8, 8), (5, 5, 8, 0), (0, 0, 8, 8)], ids=str)
def test_nothing_in_is_zero_out(here: str, shape: tuple[int, ...]):
    L, S, D, E = shape
    q, k, v = (torch.ones(2, 2, n, width, device=here, requires_grad=True) for n, width in ((L, D), (S, D), (S, E)))
    output, logsumexp = flash_attention(q, k, v, return_logsumexp=True)
    assert output.shape == (2, 2, L, E)
    assert logsumexp.shape == (2, 2, L)
    assert (output == 0).all()
    assert S or (logsumexp == -math.inf).all()
    output.sum().backward()
    assert (q.grad == 0).all()


def test_a_hand_can_check(here: str):
    """Equal scores share alike; the last of L = 2 queries stands at the last of S = 4 keys (pytorch#108108)."""
    q, k, v = torch.zeros(2, 4), torch.zeros(4, 4), torch.arange(4.0).view(4, 1)
    output, logsumexp = flash_attention(q.to(here), k.to(here), v.to(here), causal=True, return_logsumexp=True)
    torch.testing.assert_close(output.cpu(), torch.tensor([[1.0], [1.5]]))
    torch.testing.assert_close(logsumexp.cpu(), torch.tensor([3.0, 4.0]).log())
    output = flash_attention(q.to(here), k.to(here), v.to(here), causal=True, window=1)
    torch.testing.assert_close(output.cpu(), torch.tensor([[2.0], [3.0]]))
    output = flash_attention(q.to(here), k.to(here), v.to(here), window=2)
    torch.testing.assert_close(output.cpu(), torch.tensor([[2.0], [2.5]]))


@pytest.mark.parametrize("scale", [0.0, -0.7, 30.0])
def test_scale(here: str, scale: float):
    q, k, v = problem("causal", 17, 17, device=here).inputs
    want = scaled_dot_product_attention(q.double(), repeat(k, 2).double(), repeat(v, 2).double(), causal(), scale=scale)
    output, logsumexp = flash_attention(q, k, v, causal=True, scale=scale, return_logsumexp=True)
    torch.testing.assert_close(output, want.output.float())
    torch.testing.assert_close(logsumexp, want.logsumexp.float())


def test_float16_does_not_overflow(here: str):
    """q · k = 40 · 40 · 64 is beyond float16."""
    q = torch.full((1, 1, 20, 64), 40.0, dtype=torch.float16, device=here)
    v = torch.ones_like(q)
    output, logsumexp = flash_attention(q, q, v, causal=True, return_logsumexp=True)
    torch.testing.assert_close(output, v)
    torch.testing.assert_close(logsumexp[0, 0, 0].item(), 40.0 * 40 * 8)


def test_a_run_repeats_to_the_last_bit(here: str):
    made = problem("causal", 40, 40, (4, 1), device=here)
    for mine, again in zip(ours(made).gradients, ours(made).gradients, strict=True):
        assert torch.equal(mine, again)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_hidden_nan_reaches_nobody_and_a_visible_one_its_queries(number: float):
    if reason := flash.why_not(torch.device("cpu"), None):
        pytest.skip(reason)
    q, k, v = problem("causal", 5, 5, (2, 2)).inputs
    clean, at = flash_attention(q, k, v, causal=True, return_logsumexp=True)
    v[:, :, 3, 0] = number
    k[:, :, 4, 0] = number
    output, logsumexp = flash_attention(q, k, v, causal=True, return_logsumexp=True)
    torch.testing.assert_close(output[:, :, :3], clean[:, :, :3])
    torch.testing.assert_close(logsumexp[:, :, :3], at[:, :, :3])
    assert output[:, :, 3:].isnan().all()
    assert logsumexp[:, :, 3:].isnan().all()


def test_padding_may_hold_nan(here: str):
    """The kernels do not even read keys past their entry's length, on any device, with nothing around them to help."""
    q, k, v = problem("plain", 5, 20, device=here).inputs
    want = scaled_dot_product_attention(*(x.double() for x in (q, k[:, :, :7], v[:, :, :7])), scale=0.3).output
    k[:, :, 7:], v[:, :, 7:] = math.nan, math.inf
    numbers, lengths = (None, None, 0.3), torch.tensor([7], device=here)
    saved = flash_launch.forward(q, k, v, lengths, numbers)
    assert farthest(saved[0], want) < 2e-6
    for slope in flash_launch.backward(q, k, v, lengths, numbers, saved, saved):
        assert slope.isfinite().all()


# --- its place in PyTorch ---


def test_a_second_derivative_is_refused_in_words(here: str):
    q, k, v = (x.requires_grad_() for x in problem("causal", 5, 5, device=here).inputs)
    (slope,) = torch.autograd.grad(flash_attention(q, k, v).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once only"):
        slope.sum().backward()


@pytest.mark.slow
def test_compiled_equals_eager(here: str, compiled: Callable[..., Any]):
    """The operators are one piece to any compiler: so the quickest, which traces as all of them do."""
    made = problem("lengths and causal", 17, 20, device=here)

    def call(*inputs: Tensor) -> Any:
        return flash_attention(*inputs, **made.options, return_logsumexp=True)

    whole = compiled(call, fullgraph=True, backend="aot_eager")
    inputs = [x.requires_grad_() for x in made.inputs]
    output, logsumexp = whole(*inputs)
    got, want = torch.autograd.grad(weighted(output, logsumexp), inputs), ours(made)
    assert torch.equal(output, want.output)
    assert torch.equal(logsumexp, want.logsumexp)
    for mine, theirs in zip(got, want.gradients, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.slow
def test_the_operators_keep_pytorchs_rules(here: str):
    q, k, v = (x.requires_grad_() for x in problem("causal", 5, 6, device=here).inputs)
    torch.library.opcheck(flash.flash_forward, (q, k, v, torch.tensor([4], device=here), 2, 0, 0.3))


def test_the_backend_serves_what_the_function_serves(here: str):
    made = problem("lengths and causal", 17, 20, device=here)
    want = flash_attention(*made.inputs, **made.options)
    mask = padding(made.options["lengths"]) & causal()
    call = Call.of(*made.inputs, mask)
    assert flash.why_not(call.device, call) is None
    assert torch.equal(flash.run(call), want)
    assert torch.equal(flash.run(Call.of(*made.inputs, padding(made.options["lengths"]), causal=True)), want)


# --- why not ---


def refusal(dtype: torch.dtype = torch.float32, mask: Any = None, width: int = 8, **options: Any) -> str | None:
    q, k, v = (torch.ones(1, 2, 4, width, dtype=dtype) for _ in range(3))
    return flash.why_not(torch.device("cpu"), Call.of(q, k, v, mask, **options))


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a CPU")
def test_what_it_cannot_serve_it_says():
    assert refusal(mask=sliding_window(2) & padding([3]), causal=True) is None
    assert "got torch.float64" in refusal(torch.float64)
    assert "dropout_p=0.5" in refusal(dropout_p=0.5)
    assert "no bias" in refusal(bias=torch.zeros(4, 4))
    assert "got 257" in refusal(width=257)
    assert refusal(width=256) is None
    for mask in (causal(0), document(torch.zeros(1, 4, dtype=torch.long)), torch.ones(4, 4, dtype=torch.bool)):
        assert "causal(), sliding_window(), padding(lengths)" in refusal(mask=mask)
    assert "not on mps" in flash.why_not(torch.device("mps"), None)
    assert "PyTorch finds none" in flash.why_not(torch.device("cuda"), None)


def test_without_triton_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flash, "_is_installed", lambda: False)
    assert "pip install triton" in flash.why_not(torch.device("cpu"), None)


@pytest.mark.parametrize(
    ("generation", "dtype", "width", "says"),
    [
        ((6, 1), torch.float16, 64, "this one has 6.1"),
        ((7, 5), torch.bfloat16, 64, "8.0 for bfloat16, and this GPU has 7.5"),
        ((7, 5), torch.float32, 160, "float32 heads over 128 wide"),
        ((7, 5), torch.float32, 128, None),
        ((7, 5), torch.float16, 256, None),
        ((8, 0), torch.bfloat16, 256, None),
        ((9, 0), torch.float32, 256, None),
    ],
    ids=str,
)
def test_what_a_gpu_cannot_do(
    monkeypatch: pytest.MonkeyPatch, generation: tuple[int, int], dtype: torch.dtype, width: int, says: str | None
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(flash_launch, "capability", lambda device: generation)
    call = Call.of(*(torch.ones(1, 1, 4, width, dtype=dtype) for _ in range(3)))

    class Elsewhere(Call):
        device = torch.device("cuda", 0)

    call = Elsewhere(*(getattr(call, name) for name in Call.__dataclass_fields__))
    reason = flash.why_not(call.device, None) or flash.why_not(call.device, call)
    assert reason is None if says is None else says in reason


def child(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments]
        if "\n" in code
        else [sys.executable, code, *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


WITHOUT_INTERPRETER = """
import sys, torch
from companion.kernels.flash import flash_attention, why_not
print(why_not(torch.device("cpu"), None))
assert "triton" not in sys.modules
x = torch.ones(2, 4)
try:
    flash_attention(x, x, x)
except ValueError as error:
    print(error)
# Too late: triton has been imported, and was told nothing.
import os, triton.language
os.environ["TRITON_INTERPRET"] = "1"
print(why_not(torch.device("cpu"), None))
"""


def test_without_the_interpreter_it_says_how_to_get_it():
    lines = child(WITHOUT_INTERPRETER, TRITON_INTERPRET="").splitlines()
    assert len(lines) == 3
    assert all("set TRITON_INTERPRET=1 before Python starts" in line for line in lines)
    assert lines[1].startswith("flash_attention cannot serve this call: ")


def test_the_source_can_be_shown():
    from companion.kernels import flash_backward, flash_forward

    for kernel in (flash_forward.forward_kernel, flash_backward.query_kernel, flash_backward.key_kernel):
        text = inspect.getsource(kernel.fn)
        assert f"\ndef {kernel.fn.__name__}(\n" in text
        assert "store_rows(" in text.splitlines()[-2] + text.splitlines()[-1]


# --- blocks, and GPUs ---


def test_tiles_fit_where_they_can_and_are_never_none():
    kernels, widths, rooms = ("forward", "query", "key"), (1, 8, 64, 80, 128, 160, 256), (48_000, 65_536, 232_448)
    for kernel, D, E, room in itertools.product(kernels, widths, widths, rooms):
        for size, cores in ((2, True), (2, False), (4, False)):
            some = flash_tiles.tiles(kernel, D, E, size, tensor_cores=cores, shared_memory=room)
            assert some
            needs = [flash_tiles.room(kernel, tile, D, E, size, tensor_cores=cores) for tile in some]
            assert len(some) == 1 or max(needs) <= room
            for tile in some:
                assert min(tile.BLOCK_L, tile.BLOCK_S, flash_tiles.padded(D)) >= 16
    assert [flash_tiles.padded(width) for width in (1, 16, 17, 80, 128, 256)] == [16, 16, 32, 128, 128, 256]


@pytest.mark.slow
def test_it_compiles_for_gpus_that_are_not_here():
    """By the calls that would start it, for a T4, an A100 and an H100, with the smallest tile of each kernel.

    ``python tests/companion/flash_ahead.py`` compiles every tile for every GPU it knows, which takes half an hour.
    """
    wanted = ("75:float32:64:few", "80:float16:80:few,ones", "90:bfloat16:64:few,plain")
    lines = child(str(Path(__file__).with_name("flash_ahead.py")), *wanted, TRITON_INTERPRET="0").splitlines()
    made = [json.loads(line) for line in lines]
    kernels = ("forward_kernel", "query_kernel", "key_kernel")
    assert {(each["wanted"], each["kernel"]) for each in made} == set(itertools.product(wanted, kernels))
    for each in made:
        assert 0 < each["shared"] <= each["room"], each
        assert not each["tf32"], each
        assert (each["multiply"] == "fma") == (each["generation"] == 75), each


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", OUTPUT, ids=str)
@pytest.mark.parametrize("width", [64, 128, 256])
def test_every_tile_runs_and_is_right(dtype: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch):
    """Whatever the tuner would choose on this GPU."""
    need_cuda(dtype)
    made = problem("lengths and causal", 150, 170, (2, 1), (width, width), dtype=dtype, device="cuda")
    every = {name: flash_tiles.tiles(name, width, width, dtype.itemsize, **card(dtype)) for name in TILED}
    choose, want = flash_launch.tiles, exact(made)
    assert choose is flash_tiles.tiles
    for number in range(max(map(len, every.values()))):

        def only(name: str, *rest: Any, number: int = number, **given: Any) -> tuple[flash_tiles.Tile, ...]:
            return (every[name][number % len(every[name])],)

        monkeypatch.setattr(flash_launch, "tiles", only)
        flash_launch._tuner.cache_clear()
        got = check(made, f"tile {number}")
        assert farthest(got.output, want.output) <= OUTPUT[dtype]
    flash_launch._tuner.cache_clear()


TILED = ("forward", "query", "key")


def need_cuda(dtype: torch.dtype) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here")
    made = problem("plain", 4, 4, dtype=dtype, device="cuda")
    call = Call.of(*made.inputs)
    if reason := flash.why_not(call.device, None) or flash.why_not(call.device, call):
        pytest.skip(reason)
    if flash_launch.is_interpreted():
        pytest.skip("TRITON_INTERPRET is set, so nothing is compiled")


def card(dtype: torch.dtype) -> dict[str, Any]:
    device = torch.device("cuda")
    cores = dtype is not torch.float32 and flash_launch.capability(device) >= (8, 0)
    return {"tensor_cores": cores, "shared_memory": flash_launch.shared_memory(device)}


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [64, 128])
def test_long_inputs_are_as_good_as_pytorchs_flash(dtype: torch.dtype, width: int):
    need_cuda(dtype)
    g = torch.Generator().manual_seed(0)
    q, k, v = (uniform(2, 4, 1500, width, generator=g, dtype=dtype).cuda().requires_grad_() for _ in range(3))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        try:
            theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        except RuntimeError:
            pytest.skip("PyTorch's flash kernel does not run here")
    other = torch.autograd.grad(weighted(theirs, None), (q, k, v))
    mine = flash_attention(q, k, v, causal=True)
    got = torch.autograd.grad(weighted(mine, None), (q, k, v))
    inputs = [x.detach().double().requires_grad_() for x in (q, k, v)]
    right = scaled_dot_product_attention(*inputs, causal()).output
    want = torch.autograd.grad(weighted(right, None), inputs)
    for a, b, c in zip((mine, *got), (theirs, *other), (right, *want), strict=True):
        assert farthest(a, c) <= 2 * farthest(b, c)


@pytest.mark.cuda
def test_a_call_waits_for_nothing():
    need_cuda(torch.float16)
    made = problem("lengths and causal", 150, 170, dtype=torch.float16, device="cuda")
    ours(made)  # compiles, and tunes
    inputs = [x.requires_grad_() for x in made.inputs]
    torch.cuda.set_sync_debug_mode("error")
    try:
        flash_attention(*inputs, **made.options).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
def test_memory_beyond_two_to_the_31():
    """Offsets that 32 bits cannot hold."""
    need_cuda(torch.float16)
    length, width = 2**17, 128
    if torch.cuda.mem_get_info()[0] < 14 * 2**30:
        pytest.skip("needs 14 GB")
    far = torch.zeros(length, 160, width, dtype=torch.float16, device="cuda")  # 2.7e9 numbers
    q, k, v = (x.transpose(0, 1)[None, -1:] for x in (far, far, far))
    far[-3:] = 1.0
    output = flash_attention(q[:, :, -5:], k, v, window=3, causal=True)
    assert (output[0, 0, -1] == 1).all()
    assert (output[0, 0, 0] == 0).all()
