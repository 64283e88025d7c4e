"""``chunked_attention`` is attention: its numbers, its gradients, its contract; and it keeps nothing that is square."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from companion import attend, causal, padding, scaled_dot_product_attention, sliding_window, tiles
from companion.call import Call
from companion.kernels import chunked
from companion.masks import document
from companion.online import OnlineSoftmax
from companion.streaming import chunked_attention, merge_partials, sliding_window_attention
from tests.companion.helpers import KINDS, LAYOUTS, Case, case, repeat, uniform

BOUNDS = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
LENGTHS = ((5, 5), (3, 7), (1, 6), (7, 4))
SMALL = {"query_chunk": 2, "key_chunk": 3}


def cases(kind: str, dtype: torch.dtype) -> Iterator[tuple[str, Case]]:
    for length, keys in LENGTHS:
        variants = [(groups, "contiguous", empty) for groups in (4, 2, 1) for empty in (False, True)]
        variants += [(2, layout, False) for layout in LAYOUTS[1:]]
        for groups, layout, empty in variants:
            made = case(kind, length, keys, groups, layout=layout, empty=empty, dtype=dtype)
            if made is not None:
                yield f"{kind}, L={length}, S={keys}, G={groups}, {layout}, empty={empty}", made


def exact(made: Case) -> Tensor:
    query, key, value = (x.double() for x in made[:3])
    bias = None if made.bias is None else made.bias.double()
    return scaled_dot_product_attention(query, key, value, made.allowed, bias=bias).output


def pytorch(made: Case) -> Tensor:
    """PyTorch's own kernel, on rows that see something."""
    mask = made.allowed | made.empty.unsqueeze(-1)
    if made.bias is not None:
        mask = made.bias.masked_fill(made.empty.unsqueeze(-1), 0.0).masked_fill(~mask, -math.inf)
    key, value = (repeat(x, made.query.shape[1]).contiguous() for x in (made.key, made.value))
    return F.scaled_dot_product_attention(made.query.contiguous(), key, value, mask)


# --- values ---


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_chunked_equals_the_reference(kind: str, dtype: torch.dtype):
    ours = theirs = 0.0
    for label, made in cases(kind, dtype):
        want, full = exact(made), ~made.empty
        output = chunked_attention(*made[:3], **made.options, **SMALL)
        assert output.dtype == dtype, label
        assert (output[made.empty] == 0).all(), label
        error = (output.double() - want)[full].abs().max().item() if full.any() else 0.0
        assert error <= BOUNDS[dtype], f"{label}: {error:.2e}"
        ours = max(ours, error)
        if full.any():
            theirs = max(theirs, (pytorch(made).double() - want)[full].abs().max().item())
    assert ours <= 2 * theirs, f"{ours:.2e}, PyTorch {theirs:.2e}"


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 40), cols=st.integers(1, 40), window=st.integers(1, 40), seed=st.integers(0, 9))
def test_chunks_change_nothing(rows: int, cols: int, window: int, seed: int):
    g = torch.Generator().manual_seed(seed)
    q, k, v = (uniform(1, heads, n, 4, generator=g, dtype=torch.float32) for heads, n in ((2, 29), (1, 37), (1, 37)))
    for options in ({}, {"causal": True}, {"mask": sliding_window(window)}):
        want = scaled_dot_product_attention(
            q.double(), k.double(), v.double(), causal() if "causal" in options else options.get("mask")
        )
        output, logsumexp = chunked_attention(
            q, k, v, **options, query_chunk=rows, key_chunk=cols, return_logsumexp=True
        )
        torch.testing.assert_close(output.double(), want.output, rtol=0, atol=2e-6)
        torch.testing.assert_close(logsumexp.double(), want.logsumexp, rtol=0, atol=2e-6)


def test_chunks_are_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch):
    seen, forward = [], tiles.forward
    monkeypatch.setattr(tiles, "forward", lambda call, tile: seen.append(tile) or forward(call, tile))
    x = torch.rand(1, 1, 40, 4)
    for options in ({"query_chunk": 7, "key_chunk": 9}, {"query_chunk": 7}, {"key_chunk": 9}, {}):
        chunked_attention(x, x, x, **options)
    assert seen == [(7, 9), (7, 40), (40, 9), (40, 40)]


def test_long_inputs_in_default_chunks(device: str):
    """Past one tile of the default size, with a remainder."""
    g = torch.Generator().manual_seed(0)
    for length, keys in ((1100, 1100), (300, 1300), (1200, 700)):
        q, k, v = (
            uniform(1, heads, n, 16, generator=g, dtype=torch.float32).to(device)
            for heads, n in ((4, length), (2, keys), (2, keys))
        )
        for mask in (None, causal(), sliding_window(300), padding([keys - 50]), sliding_window(90) & causal(keys)):
            want = scaled_dot_product_attention(q.double(), k.double(), v.double(), mask).output
            torch.testing.assert_close(chunked_attention(q, k, v, mask).double(), want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("length", "keys"), [(6, 6), (3, 8), (8, 3)], ids=str)
def test_sliding_window_attention_sees_its_window(length: int, keys: int, both: bool):
    g = torch.Generator().manual_seed(0)
    q, k, v = (uniform(2, heads, n, 4, generator=g) for heads, n in ((4, length), (2, keys), (2, keys)))
    position, key = torch.arange(length)[:, None] + keys - length, torch.arange(keys)
    for window in (1, 2, 3, 20):
        table = (position - key).abs() < window if both else (position - key < window) & (key <= position)
        want = scaled_dot_product_attention(q, k, v, table, scale=0.7).output
        output = sliding_window_attention(q, k, v, window, causal=not both, scale=0.7)
        torch.testing.assert_close(output, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (3,), (2, 4), (3, 2, 4)], ids=str)
def test_leading_dims_come_back(lead: tuple[int, ...]):
    q, k = torch.rand(*lead, 3, 4), torch.rand(*lead, 5, 4)
    output, logsumexp = chunked_attention(q, k, k[..., :2], causal=True, return_logsumexp=True)
    want = scaled_dot_product_attention(q, k, k[..., :2], causal())
    torch.testing.assert_close(output, want.output)
    torch.testing.assert_close(logsumexp, want.logsumexp)
    assert sliding_window_attention(q, k, k, 2).shape == (*lead, 3, 4)


def test_nothing_in_gives_nothing_out():
    q, k = torch.rand(2, 4, 3, 8), torch.rand(2, 2, 5, 8)
    for query, key, value in (
        (q[:, :, :0], k, k),
        (q, k[:, :, :0], k[:, :, :0]),
        (q, k, k[..., :0]),
        (q[:0], k[:0], k[:0]),
    ):
        output, logsumexp = chunked_attention(query, key, value, return_logsumexp=True)
        want = scaled_dot_product_attention(query, key, value)
        assert torch.equal(output, want.output)
        torch.testing.assert_close(logsumexp, want.logsumexp)


def test_parts_of_the_keys_merge():
    made = case("causal flag", 7, 7, 2)
    assert made is not None
    q, k, v = made[:3]
    at = [slice(0, 2), slice(2, 6), slice(6, 7)]
    pairs = [
        chunked_attention(q, k[:, :, s], v[:, :, s], made.allowed[:1, :1, :, s], return_logsumexp=True) for s in at
    ]
    torch.testing.assert_close(merge_partials(pairs)[0], exact(made), rtol=0, atol=1e-12)


def test_it_refuses_dropout():
    x = torch.rand(1, 2, 3, 4)
    assert chunked.why_not(torch.device("cpu"), None) is None
    assert chunked.why_not(torch.device("cuda"), None) is None
    assert chunked.why_not(torch.device("cpu"), Call.of(x, x, x)) is None
    with pytest.raises(
        ValueError, match=r"'chunked' cannot serve this call: chunked has no dropout, got dropout_p=0.5"
    ):
        attend(x, x, x, dropout_p=0.5, backend="chunked")


# --- NaN ---


def test_a_hidden_nan_is_not_met_and_a_visible_one_is():
    q, k, v = torch.rand(1, 2, 6, 4), torch.rand(1, 2, 6, 4), torch.rand(1, 2, 6, 4)
    for mask in (causal(), sliding_window(2), document(torch.tensor([[0, 0, 1, 1, 2, 2]]))):
        table = mask.dense(1, 1, 6, 6)[0, 0]
        want = scaled_dot_product_attention(q, k, v, mask)
        for bad, tensor in ((math.nan, "k"), (math.inf, "k"), (math.nan, "v"), (-math.inf, "v")):
            spoilt = {"k": k.clone(), "v": v.clone()}
            spoilt[tensor][0, :, 3, 0] = bad
            inputs = [x.requires_grad_() for x in (q.clone(), spoilt["k"], spoilt["v"])]
            output, logsumexp = chunked_attention(*inputs, mask, **SMALL, return_logsumexp=True)
            sees = table[:, 3]
            assert output[:, :, sees].isnan().all()
            assert logsumexp[:, :, sees].isnan().all()
            torch.testing.assert_close(output[:, :, ~sees], want.output[:, :, ~sees])
            torch.testing.assert_close(logsumexp[:, :, ~sees], want.logsumexp[:, :, ~sees])
            output[:, :, ~sees].sum().backward()
            assert all(x.grad is not None and x.grad.isfinite().all() for x in inputs)


def test_who_meets_a_nan_is_found_out_without_a_table(monkeypatch: pytest.MonkeyPatch):
    q, k, v = torch.rand(2, 4, 6, 4), torch.rand(2, 2, 6, 4), torch.rand(2, 2, 6, 4)
    k[1, 0, 2, 0], v[0, 1, 5, 1], q[0, 0, 3, 2] = math.nan, math.inf, math.nan
    kinds = (sliding_window(2), padding([2, 6]), ~causal(), torch.rand(2, 4, 6, 6) < 0.5, torch.rand(2, 1, 1, 6) < 0.5)
    want = [scaled_dot_product_attention(q, k, v, mask) for mask in kinds]
    monkeypatch.setattr(Call, "allowed", None)
    for mask, result in zip(kinds, want, strict=True):
        output, logsumexp = chunked_attention(q, k, v, mask, return_logsumexp=True)
        torch.testing.assert_close(output, result.output, equal_nan=True)
        torch.testing.assert_close(logsumexp, result.logsumexp, equal_nan=True)


# --- gradients ---


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_everything(kind: str):
    """Query, key, value and bias, through output and log-sum-exp."""
    made = case(kind, 3, 4, 2, batch=2, width=2, empty=True) or case(kind, 3, 4, 2, width=2)
    assert made is not None
    inputs = [x.detach().clone().requires_grad_() for x in made[:3]]
    options, hidden = dict(made.options), made.empty
    bias = options.pop("bias", None)
    if bias is not None:
        finite = bias.isfinite()  # no step can be taken from minus infinity
        inputs.append(bias[finite].requires_grad_())

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        extra = {}
        if bias is not None:
            extra["bias"] = torch.full_like(bias, -math.inf).masked_scatter(finite, given[3])
        output, logsumexp = chunked_attention(*given[:3], **options, **extra, **SMALL, return_logsumexp=True)
        return output, logsumexp.masked_fill(hidden, 0.0)

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (2, 1, 1, 5), (1, 4, 1, 5), (2, 4, 3, 5), (1, 1, 3, 5)], ids=str)
def test_a_bias_that_is_broadcast_gets_the_sum_of_its_gradients(shape: tuple[int, ...]):
    q, k = torch.rand(2, 4, 3, 4, dtype=torch.float64), torch.rand(2, 2, 5, 4, dtype=torch.float64)
    bias = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    mine, theirs = (
        f(q, k, k, bias=bias) for f in (chunked_attention, lambda *a, **o: attend(*a, **o, backend="reference"))
    )
    torch.testing.assert_close(*(torch.autograd.grad(x.square().sum(), bias)[0] for x in (mine, theirs)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_gradients_in_half_precision_have_its_dtype_and_float32_inside(dtype: torch.dtype):
    g = torch.Generator().manual_seed(0)
    inputs = [uniform(1, heads, 50, 8, generator=g, dtype=dtype).requires_grad_() for heads in (4, 2, 2)]
    exactly = [x.detach().double().requires_grad_() for x in inputs]
    bias = uniform(50, 50, generator=g, dtype=dtype).requires_grad_()
    output = chunked_attention(*inputs, bias=bias, causal=True, query_chunk=16, key_chunk=16)
    want = scaled_dot_product_attention(*exactly, causal(), bias=bias.detach().double()).output
    above = uniform(*output.shape, generator=g, dtype=dtype)
    got = torch.autograd.grad(output, [*inputs, bias], above)
    for x, y in zip(got, torch.autograd.grad(want, exactly, above.double()), strict=False):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, rtol=0, atol={torch.float32: 2e-6}.get(dtype, 5e-3 * 8))
    assert got[3].dtype == dtype


def test_only_what_is_asked_for_gets_a_gradient():
    x = torch.rand(1, 2, 4, 4)
    for asked in range(3):
        inputs = [x.clone().requires_grad_(i == asked) for i in range(3)]
        chunked_attention(*inputs, bias=torch.zeros(4, 4)).sum().backward()
        assert [each.grad is not None for each in inputs] == [i == asked for i in range(3)]
    inputs = [x.clone().requires_grad_() for _ in range(3)]
    chunked_attention(*inputs, return_logsumexp=True)[1].sum().backward()  # through the log-sum-exp alone
    assert inputs[2].grad is None or (inputs[2].grad == 0).all()
    want = [x.clone().requires_grad_() for _ in range(2)]
    scaled_dot_product_attention(*want, x).logsumexp.sum().backward()
    for mine, theirs in zip(inputs, want, strict=False):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_second_derivative_says_why_there_is_none():
    x = torch.rand(1, 1, 3, 4, requires_grad=True)
    (grad,) = torch.autograd.grad(chunked_attention(x, x, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"chunked attention has no second derivative.*backend='reference'"):
        grad.sum().backward()


def test_an_input_changed_before_the_backward_pass_is_noticed():
    q = torch.rand(1, 1, 3, 4, requires_grad=True)
    k = torch.rand(1, 1, 3, 4)
    output = chunked_attention(q, k, k)
    k.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


# --- what is kept ---


def saved(run: Callable[[], Any]) -> int:
    """How many numbers autograd keeps for the backward pass, each memory counted once."""
    kept: dict[int, Tensor] = {}

    def pack(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = run()
    del result
    return sum(x.untyped_storage().nbytes() // 4 for x in kept.values())


def test_inputs_output_and_one_number_a_row_are_kept():
    """Autograd over the same steps keeps every tile."""
    heads, width = 2, 8
    for n in (128, 256):
        q, k, v = (torch.rand(1, heads, n, width, requires_grad=True) for _ in range(3))

        def by_steps(q: Tensor = q, k: Tensor = k, v: Tensor = v, n: int = n) -> tuple[Tensor, Tensor]:
            state = OnlineSoftmax.start((1, heads, n), width)
            for keys, values in zip(k.split(32, -2), v.split(32, -2), strict=True):
                state = state.update(q @ keys.transpose(-2, -1), values)
            return state.finish()

        assert saved(lambda: chunked_attention(q, k, v, query_chunk=32, key_chunk=32)) == heads * n * (4 * width + 1)  # noqa: B023
        assert saved(by_steps) >= heads * n * n
        with torch.no_grad():
            assert saved(lambda: chunked_attention(q, k, v)) == 0  # noqa: B023


# --- PyTorch's other modes ---


def test_no_grad_inference_and_checkpointing():
    q, k, v = (torch.rand(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    want = chunked_attention(q, k, v, causal=True, **SMALL)
    with torch.no_grad():
        output = chunked_attention(q, k, v, causal=True, **SMALL)
        assert output.grad_fn is None
        assert torch.equal(output, want)
    with torch.inference_mode():
        assert torch.equal(chunked_attention(q, k, v, causal=True, **SMALL), want)
    again = checkpoint(lambda *x: chunked_attention(*x, causal=True, **SMALL), q, k, v, use_reentrant=False)
    for x, y in zip(
        torch.autograd.grad(again.square().sum(), (q, k, v)),
        torch.autograd.grad(want.square().sum(), (q, k, v)),
        strict=True,
    ):
        assert torch.equal(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_does_not_reach_inside(dtype: torch.dtype):
    q, k, v = (torch.rand(1, 2, 5, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    want = chunked_attention(q, k, v)
    grads = torch.autograd.grad(want.sum(), (q, k, v))
    with torch.autocast("cpu", torch.bfloat16):
        output = chunked_attention(q, k, v)
        assert output.dtype == dtype
        assert torch.equal(output, want)
        for x, y in zip(torch.autograd.grad(output.sum(), (q, k, v)), grads, strict=True):
            assert torch.equal(x, y)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_it_maps_and_differentiates_by_function():
    """``torch.func``: gradients for each example, and masks that know their batch."""

    def through(backend: str) -> Callable[..., Tensor]:
        def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
            rule = padding([2, 4]) if mask is None else mask
            return attend(q, k, v, rule, causal=True, backend=backend).square().sum()

        return run

    q, k, v = (torch.rand(3, 2, heads, 4, 2, dtype=torch.float64) for heads in (4, 2, 2))
    table = torch.rand(3, 4, 4) < 0.6
    mine, theirs = through("chunked"), through("reference")
    for inputs, dims in (((q, k, v), 0), ((q, k[0], v[0]), (0, None, None)), ((q, k, v, table), 0)):
        for make in (lambda f: f, lambda f: torch.func.grad(f, argnums=(0, 1, 2))):
            got, want = (torch.func.vmap(make(f), dims)(*inputs) for f in (mine, theirs))
            torch.testing.assert_close(got, want)
    got, want = (torch.func.jacrev(f)(q[0], k[0], v[0]) for f in (mine, theirs))
    torch.testing.assert_close(got, want)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_mask_that_holds_what_is_mapped_over_is_refused():
    q, ids = torch.rand(3, 1, 1, 4, 2), torch.tensor([[[0, 0, 1, 1]]]).expand(3, 1, 4)
    with pytest.raises(RuntimeError, match=r"mask.dense\(B, H, L, S\)"):
        torch.func.vmap(lambda x, i: chunked_attention(x, x, x, document(i)))(q, ids)


@pytest.mark.slow
def test_compiled_equals_eager(compiled: Callable[..., Any]):
    def run(q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        return chunked_attention(q.sin(), k, k, causal=True, return_logsumexp=True)

    q, k = torch.rand(1, 4, 5, 8, requires_grad=True), torch.rand(1, 2, 5, 8, requires_grad=True)
    eager, quick = run(q, k), compiled(run)(q, k)
    for x, y in zip(quick, eager, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=2e-6)
    grads = [torch.autograd.grad(sum(x.sum() for x in results), (q, k)) for results in (quick, eager)]
    for x, y in zip(*grads, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=2e-5)
