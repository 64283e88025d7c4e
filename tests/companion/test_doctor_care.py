"""The patient leaves as it came; a patient that misbehaves gets a sentence."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from companion import MultiHeadAttention, attend
from companion.diagnostics import Adapter, doctor
from tests.companion.doctor_faults import Dropout, Hand, HandCausal, square


class Counting(nn.Module):
    """Everything that a visit might disturb: buffers, modes, gradients, hooks, frozen weights, all generators."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = MultiHeadAttention(16, 4, dropout=0.5)
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("calls", torch.zeros(()))
        self.inner.W_K.weight.requires_grad_(False)
        self.norm.eval()
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(1)
        torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
        return self.norm(self.inner(x).transpose(1, 2)).transpose(1, 2)


class Locked(Counting):
    """What cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def state(module: nn.Module) -> tuple:
    """All there is to see of a module, by value and by identity."""
    return (
        {name: value.clone() for name, value in module.state_dict().items()},
        [m.training for m in module.modules()],
        [
            (id(p), p.dtype, p.requires_grad, id(p.grad), None if p.grad is None else p.grad.clone())
            for p in module.parameters()
        ],
        [(dict(m._forward_hooks), dict(m._forward_pre_hooks), dict(m._backward_hooks)) for m in module.modules()],
        (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()),  # noqa: NPY002
        (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()),
        torch.backends.mha.get_fastpath_enabled(),
    )


def same(a: object, b: object) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("kind", [Counting, Locked])
@pytest.mark.parametrize(
    "wrap", [lambda m: m, lambda m: m.forward, lambda m: lambda x: m(x)], ids=["module", "method", "closure"]
)
def test_a_visit_leaves_no_trace(kind: type[Counting], wrap: Callable):
    module = kind()
    module(torch.rand(2, 3, 16)).sum().backward()
    fired = []
    module.register_forward_hook(lambda *_: fired.append(1))
    before, calls = state(module), len(module.seen)
    report = doctor(wrap(module), d_model=16)
    assert same(before, state(module))
    assert report.trouble is None
    if kind is Counting and wrap(module) is module:
        assert len(module.seen) == calls  # a list of its own is only safe in a copy


def test_a_visit_that_fails_leaves_no_trace():
    class Breaks(Counting):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise RuntimeError("broken")

    module = Breaks()
    before = state(module)
    assert "broken" in doctor(module, d_model=16).trouble
    assert same(before, state(module))


def raises(x: Tensor) -> Tensor:
    raise KeyError("no such thing")


class Meta(Hand):
    def __init__(self) -> None:
        super().__init__(16, 4)
        self.to("meta")


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.LazyLinear(16)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)


def leaves(x: Tensor) -> Tensor:
    raise SystemExit(0)


class Other(nn.Module):
    def forward(self, image: Tensor, label: int, weight: float, option: str) -> Tensor:
        return image


TROUBLES = {
    "raises": (raises, "raised KeyError: 'no such thing'"),
    "gives nothing": (lambda x: None, "returned a NoneType without a tensor"),
    "gives a number": (lambda x: x.sum(), "returned tensors of shape (), and none is"),
    "gives another shape": (lambda x: x[:, :1], "none is (3, 5"),
    "gives ids": (lambda x: x.argmax(-1), "and none is"),
    "wants more": (Other(), "missing"),
    "wants another width": (MultiHeadAttention(24, 4), "M=24"),
    "is on the meta device": (Meta(), "meta device"),
    "has lazy parameters": (Lazy(), "not made yet"),
    "leaves the program": (leaves, "raised SystemExit"),
    "gives complex numbers": (lambda x: x.to(torch.complex64), "(3, 5, 16) of complex64, and none is"),
    "wants another width, and asks": (nn.Linear(3, 3), "is d_model=16 its width?"),
    "gives zero": (lambda x: 0 * x, "does not change with its input"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_is_told_in_a_sentence(name: str):
    thing, words = TROUBLES[name]
    report = doctor(thing, d_model=16)
    assert not report.ok
    assert words in report.trouble
    assert "Traceback" not in str(report)
    assert "\n" not in report.trouble
    assert report.trouble in str(report)
    assert report.to_dict()["trouble"] == report.trouble
    assert report._repr_html_()


def test_nan_at_once_is_a_fault():
    report = doctor(lambda x: x * torch.nan, d_model=16)
    assert [f.name for f in report.findings] == ["nan-at-once"]
    assert report.to_dict()["findings"][0]["measured"] == 1.0


def test_a_module_of_no_parameters_a_tuple_and_prints(capsys: pytest.CaptureFixture):
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> tuple[str, Tensor, Tensor]:
            print("hello")
            weights = (x @ x.mT / 4).softmax(-1)
            return "extra", weights @ x, weights

    report = doctor(Plain(), d_model=16)
    assert report.ok
    assert any("it printed" in fact for fact in report.found_out)
    assert capsys.readouterr().out == ""


def test_what_remembers_is_found_out():
    class Remembers(Hand):
        total = 0.0

        def forward(self, x: Tensor) -> Tensor:
            self.total = self.total + x.mean()
            return super().forward(x) + self.total

    assert [f.name for f in doctor(Remembers(16, 4), d_model=16).findings] == ["remembers"]


def test_time_runs_out_politely():
    class Slow(Hand):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.05)
            return super().forward(x)

    start = time.monotonic()
    report = doctor(Slow(16, 4), d_model=16, time_limit=0.4)
    assert time.monotonic() - start < 5
    assert report.trouble is None
    assert any("no time left" in outcome.says for outcome in report.outcomes)
    assert "had no time left" in report.verdict


def test_float32_only_is_examined_in_float32():
    class Narrow(HandCausal):
        def forward(self, x: Tensor) -> Tensor:
            if x.dtype is torch.float64:
                raise TypeError("float32 only")
            return super().forward(x)

    report = doctor(Narrow(16, 4), d_model=16)
    assert report.ok
    assert "float32" in report.found_out[0]


def test_softmax_in_float32_is_no_leak():
    """Some compute the softmax in float32 whatever they are given: what is below its rounding is no effect."""

    class Mixed(HandCausal):
        def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
            return super().weigh(scores.float(), allowed).to(scores.dtype)

    assert doctor(Mixed(16, 4), d_model=16, causal=True).ok


def test_a_property_that_raises_is_none():
    class Raises(Hand):
        @property
        def num_heads(self) -> int:
            raise RuntimeError("not known")

    assert doctor(Raises(16, 4), d_model=16).ok


def test_an_adapter_that_raises_gets_a_sentence():
    report = doctor(Hand(16, 4), d_model=16, adapter=Adapter(output=lambda y: y["nothing"]))
    assert "the adapter's output raised" in report.trouble


def test_what_was_compiled_is_examined_as_written():
    """Each check passes that passes of the same function in the open, and nothing is compiled for it."""
    compiled: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable:
        compiled.append(graph)
        return graph.forward

    for module in (Hand(16, 4), HandCausal(16, 4).forward, square):
        passed = [
            [(outcome.check, outcome.status) for outcome in doctor(each, d_model=16).outcomes]
            for each in (module, torch.compile(module, backend=backend))
        ]
        assert passed[0] == passed[1]
    assert not compiled


def test_a_visit_loads_no_compiler():
    """PyTorch's compiler takes longer to load than a visit takes."""
    code = "import sys, companion; from companion.diagnostics import doctor; doctor(companion.attend, d_model=16); "
    code += "sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def test_a_mask_of_any_name():
    class Named(Hand):
        def forward(self, x: Tensor, m: Tensor) -> Tensor:
            return super().forward(x, m)

    report = doctor(Named(16, 4), d_model=16, adapter=Adapter(mask="m"))
    assert report.ok, report
    assert "m: booleans (L, S), True may attend" in report.found_out


def test_what_the_adapter_says_of_the_inputs_holds():
    def three(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v

    assert "missing 2 required" in doctor(three, d_model=16, adapter=Adapter(inputs="x")).trouble


def test_as_many_keys_as_queries_only():
    """A causal function of q, k, v need not take fewer queries than keys."""
    report = doctor(square, d_model=16)
    assert report.ok, report
    assert "L=5, S=5" in report.found_out[0]
    assert "causal: by itself" in report.found_out


def test_booleans_that_are_added_are_pointed_out():
    class Adds(Hand):
        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores + allowed

        def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
            return (scores if allowed is None else self.hide(scores, allowed)).softmax(-1)

    facts = doctor(Adds(16, 4), d_model=16).found_out
    assert "mask: floats (L, S), added to the scores" in facts
    assert any("booleans hide nothing" in fact for fact in facts)


def test_a_mask_that_is_written_into_is_the_doctors_own():
    """What a module does to its mask in place must not reach the next call."""

    class Writes(Hand):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            y = super().forward(x, None if mask is None else mask.clone())
            if mask is not None:
                mask.fill_(False)
            return y

    assert doctor(Writes(16, 4), d_model=16).ok


def test_one_length_only():
    class Fixed(Hand):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + torch.zeros(8, 1))

    assert "must match" in doctor(Fixed(16, 4), d_model=16).trouble
    assert doctor(Fixed(16, 4), d_model=16, length=8).ok


def test_an_adapter_says_what_cannot_be_found_out():
    class Odd(Hand):
        def forward(self, *, tokens: Tensor, banned: Tensor | None = None) -> dict[str, Tensor]:
            return {"state": super().forward(tokens, None if banned is None else ~banned)}

    def call(module: nn.Module, x: Tensor, **options: Tensor) -> object:
        return module(tokens=x, **options)

    assert doctor(Odd(16, 4), d_model=16).trouble
    report = doctor(Odd(16, 4), d_model=16, adapter=Adapter(call=call, mask="banned"))
    assert report.ok
    assert "banned: booleans (L, S), True is hidden" in report.found_out
    told = Adapter(call=call, mask="banned", mask_true="may attend", output=lambda out: out["state"])
    assert [f.name for f in doctor(Odd(16, 4), d_model=16, adapter=told).findings] == ["mask-polarity"]


def test_positions_are_a_fault_where_there_should_be_none():
    class Waves(Hand):
        def embed(self, x: Tensor) -> Tensor:
            return x + torch.linspace(0, 1, x.shape[1], dtype=x.dtype)[:, None]

    assert doctor(Waves(16, 4), d_model=16).ok
    assert [f.name for f in doctor(Waves(16, 4), d_model=16, positions=False).findings] == ["not-equivariant"]


def test_a_mask_that_takes_the_causal_masks_place():
    """Padding given, the triangle is gone: the future leaks. A whole table may mean to replace it."""

    class Either(HandCausal):
        def allowed(self, mask: Tensor | None, length: int, keys: int) -> Tensor | None:
            return self.triangle(length, keys) if mask is None else mask[:, None, None, :]

    assert [f.name for f in doctor(Either(16, 4), d_model=16).findings] == ["future-leak"]


def test_training_mode_is_not_asked_about():
    class Fine(Dropout):
        def weigh(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
            weights = Hand.weigh(self, scores, allowed)
            return nn.functional.dropout(weights, 0.5, self.training)

    module = Fine(16, 4).train()
    assert doctor(module, d_model=16).ok
    assert module.training


def test_on_each_device(device: str):
    assert doctor(MultiHeadAttention(16, 4).to(device), d_model=16, causal=True).ok
    assert doctor(attend, d_model=16).ok
