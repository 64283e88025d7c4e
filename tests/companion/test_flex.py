"""FlexAttention behind ``attend``: what it says no to, its list of blocks, and its numbers.

It compiles for seconds on a CPU, so here its numbers are looked at in a few calls that have it all; on CUDA it is held
to all of ``test_backends.py``.
"""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from companion import Mask, attend, available, causal, document, padding, sliding_window, why_not
from companion.call import Call
from companion.kernels import flex, flex_mask
from companion.masks import bigbird, longformer, prefix_lm
from tests.companion.helpers import case
from tests.companion.test_backends import BOUNDS, exact

needs_compiler = pytest.mark.skipif(why_not("flex") is not None, reason="there is no C++ compiler here")


def q_k_v(length: int = 3, keys: int = 3, batch: int = 2, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.rand(batch, 2, n, 4).to(dtype) for n in (length, keys, keys)]


# --- what it says no to ---


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "needs a C++ compiler" in why_not("flex")
    assert "flex" not in available()
    monkeypatch.setenv("CXX", "sh")  # any program will do for a look
    assert why_not("flex") is None
    assert "flex" in available()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert "needs a C++ compiler" in why_not("flex")


def test_which_compiler_is_pytorchs_own_question():
    """The names that PyTorch's configuration holds, read without importing it."""
    import os
    import sys

    from torch._inductor import config

    default = "clang++" if sys.platform == "darwin" else "g++"
    assert config.cpp.cxx[1] == os.environ.get("CXX", default)


@needs_compiler
def test_it_says_what_it_cannot_do():
    q, k, v = q_k_v()
    assert why_not("flex", q, k, v) is None
    assert "no dropout" in why_not("flex", q, k, v, dropout_p=0.1)
    assert "float64" in why_not("flex", q.double(), k.double(), v.double())
    assert "CUDA and the CPU only" in why_not("flex", device="mps")
    if not torch.cuda.is_available():
        assert "finds none here" in why_not("flex", device="cuda")
    for place in range(3):
        inputs = [x.clone().requires_grad_(place == i) for i, x in enumerate((q, k, v))]
        assert "no backward on a CPU" in why_not("flex", *inputs)
        with torch.no_grad():
            assert why_not("flex", *inputs) is None
    bias = torch.zeros(3, 3, requires_grad=True)
    assert "the bias no gradient" in why_not("flex", q, k, v, bias=bias)
    assert why_not("flex", q, k, v, bias=bias.detach()) is None
    with pytest.raises(ValueError, match="'flex' cannot serve this call: flex has no dropout"):
        attend(q, k, v, dropout_p=0.5, backend="flex")


@needs_compiler
def test_inside_a_compiled_region_on_a_cpu_it_says_no(compiled):
    """PyTorch 2.13: "Unsupported for epilogue_nodes in CppFlexAttentionTemplate" for whatever follows it."""
    fast = compiled(lambda x: attend(x, x, x, backend="flex") + 1, backend="eager")
    with pytest.raises(ValueError, match="into a larger kernel"):
        fast(torch.rand(1, 1, 3, 4))


@needs_compiler
@pytest.mark.parametrize(
    "predicate",
    [
        lambda b, h, q, k: k <= q if q.sum() >= 0 else k > q,
        lambda b, h, q, k: torch.tensor(q.tolist()) >= 0,
        lambda b, h, q, k: torch.from_numpy(q.numpy() >= k.numpy()),
        lambda b, h, q, k: (k <= q).reshape(-1),
    ],
)
def test_a_predicate_that_reads_numbers_or_shapes_cannot_be_traced(predicate: Callable[..., Tensor]):
    q, k, v = q_k_v()
    mask = Mask(predicate, "mine")
    for _ in range(2):  # the answer is kept
        assert "traces the predicate of mine" in why_not("flex", q, k, v, mask)
        assert "traces the predicate of" in why_not("flex", q, k, v, mask & causal())
    assert why_not("flex", q, k, v, Mask(lambda b, h, q, k: k <= q)) is None


# --- the list of blocks ---

BLOCKED = {
    "causal()": lambda S: causal(),
    "window": lambda S: sliding_window(70),
    "padding": lambda S: padding([S, S // 3]),
    "document": lambda S: document((torch.arange(S) // 50).repeat(2, 1)),
    "prefix": lambda S: prefix_lm([7, S // 2]),
    "padding & causal": lambda S: padding([S, 0]) & causal(),
    "longformer": lambda S: longformer(20, [0, 3]),
    "bigbird": lambda S: bigbird(32),
    "not": lambda S: ~causal(),
    "own": lambda S: Mask(lambda b, h, q, k: (q + h) % 3 == k % 3),
}


@pytest.mark.parametrize("kind", BLOCKED)
@pytest.mark.parametrize(("length", "keys"), [(128, 128), (300, 300), (100, 400), (1, 200), (257, 3)], ids=str)
def test_blocks_are_those_of_pytorch(kind: str, length: int, keys: int, monkeypatch: pytest.MonkeyPatch):
    """``create_block_mask`` asks about all pairs at once; here in strips, so small that there are some."""
    if kind in ("document", "prefix", "longformer") and (length > keys or keys < 7):
        return
    monkeypatch.setattr(flex_mask, "STRIP", 1)
    mask = BLOCKED[kind](keys)
    q, kv = torch.rand(2, 2, length, 4), torch.rand(2, 2, keys, 4)
    if mask.is_causal:
        call = Call.of(q, kv, kv, causal=True)
    else:
        call = Call.of(q, kv, kv, mask)
    ours = flex_mask.block_mask(call)
    rule = mask.rule(2, length, keys)
    theirs = create_block_mask(lambda b, h, q, k: rule(b, h, q, k), 2, 2, length, keys, device="cpu")
    assert ours.seq_lengths == (length, keys)
    assert torch.equal(ours.to_dense().expand_as(theirs.to_dense()), theirs.to_dense())
    full = ours.full_kv_num_blocks.expand_as(theirs.full_kv_num_blocks)
    assert torch.equal(full, theirs.full_kv_num_blocks)
    if kind in ("causal()", "window", "bigbird", "not"):
        assert ours.shape[:2] == (1, 1)  # which the rule does not look at


def test_blocks_are_counted_without_a_table():
    """Eight thousand squared would be 64 million answers."""
    from tests.companion.test_auto import Largest

    x = torch.rand(1, 1, 8192, 1)
    with Largest() as seen:
        flex_mask.block_mask(Call.of(x, x, x, sliding_window(9)))
    assert seen.cells <= flex_mask.STRIP


def test_blocks_are_kept_for_the_next_layer_until_a_tensor_changes():
    lengths = torch.tensor([2, 200])
    mask = padding(lengths) & causal()
    call = Call.of(*q_k_v(200, 200), mask)
    first = flex_mask.block_mask(call)
    assert flex_mask.block_mask(call) is first
    assert flex_mask.block_mask(Call.of(*q_k_v(180, 200), mask)) is not first
    assert flex_mask.block_mask(Call.of(*q_k_v(200, 200), mask, causal=True)) is not first
    assert flex_mask.block_mask(call) is first
    lengths[0] = 150  # by somebody who has kept it
    again = flex_mask.block_mask(call)
    assert again is not first
    assert not torch.equal(again.to_dense(), first.to_dense())
    own = Call.of(*q_k_v(200, 200), Mask(lambda b, h, q, k: k < lengths[b]) & causal())
    assert flex_mask.block_mask(own) is not flex_mask.block_mask(own)  # what it holds is out of sight


def test_masks_of_one_kind_are_one_kind_to_the_compiler():
    def kind(mask: Mask, *sizes: int) -> tuple:
        return flex._kind(Call.of(*q_k_v(*sizes), mask))

    assert kind(sliding_window(5), 40, 60) == kind(sliding_window(6), 50, 90)
    assert kind(sliding_window(5), 40, 60) != kind(longformer(5), 40, 60)
    assert kind(padding([1, 2]), 40, 60) == kind(padding([3, 4]), 50, 70)
    assert kind(padding([1, 2]), 40, 60) != kind(padding([1, 2]) & causal(), 40, 60)
    assert flex._kind(Call.of(*q_k_v(5, 5))) == flex._kind(Call.of(*q_k_v(6, 300)))
    assert flex._kind(Call.of(*q_k_v(5, 5))) != flex._kind(Call.of(*q_k_v(5, 5, dtype=torch.float16)))


def test_where_symbols_fail_each_length_compiles_by_itself(monkeypatch: pytest.MonkeyPatch):
    """PyTorch's C++ for a CPU may mix up the names of many symbols; two compilers that are made up stand for it."""
    calls = []

    def compiler(kind: tuple, dynamic: bool | None = None) -> Callable[..., Tensor]:
        def run(q: Tensor, *rest: object) -> Tensor:
            calls.append(dynamic)
            if dynamic is None or works is None:
                raise RuntimeError("C++ compile error\nand much more")
            return q

        return run

    monkeypatch.setattr(flex, "_compiler", compiler)
    monkeypatch.setattr(flex, "_FIXED", set())
    call = Call.of(*q_k_v(7, 7), sliding_window(2))
    works: bool | None = True
    for _ in range(2):
        assert torch.equal(flex.run(call), call.query)
    assert calls == [None, False, False]
    works = None
    with pytest.raises(
        ValueError, match=r"flex cannot compile Mask\(sliding_window\(2\)\): RuntimeError: C\+\+ compile error$"
    ):
        flex.run(call)


# --- numbers ---


@pytest.fixture
def _quiet():
    torch.compiler.reset()
    flex._compiler.cache_clear()
    yield
    torch.compiler.reset()
    flex._compiler.cache_clear()


@needs_compiler
@pytest.mark.slow
@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("padding & causal()", torch.float32), ("bias and mask", torch.float32), ("causal flag", torch.bfloat16)],
    ids=str,
)
@torch.no_grad()
def test_a_few_calls_equal_the_reference(kind: str, dtype: torch.dtype):
    """Grouped heads, an empty row, fewer queries than keys; a NaN that is hidden and one that is seen."""
    made = case(kind, 4, 6, 2, empty=kind != "causal flag", dtype=dtype)
    assert made is not None
    assert why_not("flex", *made[:3], **made.options) is None
    output = attend(*made[:3], **made.options, backend="flex")
    assert output.dtype == dtype
    assert (output[made.empty] == 0).all()
    want = exact(made)
    assert (output.double() - want).abs().max() <= BOUNDS[dtype]
    value = made.value.clone()
    value[0, 0, 5] = math.nan
    sees = made.allowed[0, :2, :, 5]
    spoilt = attend(made.query, made.key, value, **made.options, backend="flex")[0, :2]
    assert spoilt[sees].isnan().all()
    assert ((spoilt.double() - want[0, :2])[~sees].abs() <= BOUNDS[dtype]).all()


@needs_compiler
@pytest.mark.slow
@pytest.mark.usefixtures("_quiet")
@torch.no_grad()
def test_another_length_and_window_compile_no_more():
    made = [torch.rand(1, 1, n, 8) for n in (200, 300, 400, 333)]
    compiled = []
    for x, window in zip(made, (20, 30, 40, 50), strict=True):
        output = attend(x, x, x, sliding_window(window), backend="flex")
        want = attend(x, x, x, sliding_window(window), backend="reference")
        torch.testing.assert_close(output, want, rtol=0, atol=2e-6)
        compiled.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert compiled[0] < compiled[1] == compiled[3]
    assert flex._compiler.cache_info().currsize == 1
