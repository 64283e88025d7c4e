"""The annotations are true: good calls run with jaxtyping's import hook and beartype looking at each of them."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.companion.optional import modules

# Annotations, and what functions return: nobody calls these.
TYPES = {"Bool", "Call", "Float", "Int", "Tensor"}
TYPES |= {"Attributions", "Captured"}
TYPES |= {"Accuracy", "Beams", "LabelBatch", "PairBatch", "Predictions", "Repeats", "Sequences", "Task", "TokenLoss"}

# Areas have files of their own, which are run as they stand.
AREAS = sorted(Path(__file__).parent.glob("good_calls_*.py"))
RUN_AREA = """
import runpy, sys
import beartype, jaxtyping
# An int where a float is asked for, as type checkers allow.
beartype.lenient = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))
jaxtyping.install_import_hook("companion", "beartype.lenient")
runpy.run_path(sys.argv[1])
print("hooked")
"""

# Floats where floats are asked for: beartype, unlike the type checker, takes no int for a float.
GOOD_CALLS = """
import matplotlib
matplotlib.use("agg")
import jaxtyping
with jaxtyping.install_import_hook("companion", "beartype.beartype"):
    import companion
    from companion import backends, diagnostics, lookup, masks, notebook, plots
    from companion.attention import *
    from companion.backends import *
    from companion.masks import *
    from companion.multihead import *
import torch
from torch import nn

x = torch.rand(2, 3, 8)
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    for lead in ((), (4,), (2, 4), (3, 2, 4)):
        groups = (*lead[:-1], 2) if lead else ()
        q, k, v = (torch.rand(*s).to(dtype) for s in ((*lead, 3, 8), (*groups, 5, 8), (*groups, 5, 8)))
        yes, bias = torch.ones(3, 5, dtype=torch.bool), torch.zeros(3, 5)
        for mask in (None, yes, yes[(None,) * (q.dim() - 2)], causal(), sliding_window(2) & ~causal(1)):
            out = scaled_dot_product_attention(q, k, v, mask, bias=bias, scale=2.0, dropout_p=0.5)
            assert type(out) is companion.AttentionOutput
            for backend in ("auto", "reference", "math", "flash", "chunked"):
                attend(q, k, v, mask, causal=True, scale=0.5, backend=backend)
                attend(q[..., :0, :], k, v, backend=backend)
                attend(q, k[..., :0, :], v[..., :0, :], backend=backend)
                why_not(backend, q, k, v, mask, bias=bias, causal=True, device="cpu")
            chosen(q, k, v, mask, bias=bias, causal=True, scale=0.5)
        for look_up in (lookup.hard_lookup, lookup.soft_lookup, lookup.kernel_regression):
            look_up(q, q, q)
        lookup.soft_lookup(q, q, q, 2.0)
        lookup.kernel_regression(q, q, q, 0.5, "boxcar")
        W = torch.rand(8, 6).to(dtype)
        lookup.additive_score(q, q[..., :2, :], W, W, W[0])
        stable_softmax(q)
        stable_softmax(q, 0)
        softmax_jacobian(q[..., 0, :])
        merge_heads(split_heads(q, 2))
        for number in (diagnostics.entropy, diagnostics.effective_tokens, diagnostics.saturation):
            number(q)
            number(q[..., 0, 0] if lead else q[0])
        if lead:
            repeat_kv(k, 4)
available(torch.device("cpu"))
why_not("cudnn")
register("again", backends._REGISTRY["math"].run, backends._REGISTRY["math"].why_not)
attend(x, x, x, backend="again")

for rule in (causal(), causal(-1), padding([1, 2]), padding(torch.tensor([1, 2])),
             padding(torch.ones(2, 4, dtype=torch.bool)), document(torch.zeros(2, 4, dtype=torch.int32)),
             sliding_window(2, causal=False), Mask(lambda b, h, q, k: q >= k, "mine"), ~causal() | causal()):
    rule.dense(2, 3, 4, 4)
    rule.dense(2, 3, 4, 4, "cpu")
    rule.compact(2, 3, 4, 4, torch.device("cpu"))
    rule.rule(2, 4, 4)
    rule.plot(["a", "b", "c", "d"])
    rule.plot(4, keys=4)
    repr(rule)
causal().block_mask(1, 1, 4, 4)
padding([]).dense(0, 1, 2, 3)

mha = MultiHeadAttention(8, 4, num_kv_heads=2, d_head=3, bias=False, dropout=0.0, scale=0.5, backend="math")
mha(x)
mha(x[0], need_weights=True)
mha(x, torch.rand(2, 5, 8), mask=causal(), bias=torch.zeros(3, 5), causal=True, need_weights=True)
mha(x[:, :0])
repr(mha)

eye = torch.eye(2, 3).bool()
axes = plots.heatmap(torch.rand(2, 3), ("a", "b"), ["x", "y", "z"], limit=1.0, masked=eye, colorbar=True)
plots.heatmap(torch.rand(2, 3), signed=True, ax=axes)
plots.mask(torch.eye(2, 3).bool())
plots.mask(causal(), 3, ax=axes)
plots.scores_histogram(torch.rand(3, 4, 5), bins=5, label="a", color="red")
plots.use_style()
notebook.start(0)
notebook.device()
notebook.glue(a="1", b=2)
notebook.show_source(attend, Mask, docstrings=True)
print("hooked")
"""

BITES = """
import jaxtyping
with jaxtyping.install_import_hook("companion", "beartype.beartype"):
    import companion
    from companion.blocks import EncoderBlock, RMSNorm
    from companion.positions import Rotary, position_ids
import torch
x = torch.rand(2, 3, 4, 8)
for wrong in (
    lambda: companion.attend(x.long(), x, x),
    lambda: companion.attend(x, x, x[0]),
    lambda: companion.attend(x, x, x, "causal"),
    lambda: companion.sliding_window("wide"),
    lambda: companion.MultiHeadAttention(8.0, 2),
    lambda: Rotary(8)(x, torch.zeros(4)),
    lambda: RMSNorm(8)(x.long()),
    lambda: EncoderBlock(8, 2)(x, causal="yes"),
    lambda: position_ids(x),
):
    try:
        wrong()
    except Exception as error:
        print("seen" if type(error).__module__.split(".")[0] in ("jaxtyping", "beartype") else f"passed on: {error!r}")
"""


def run(code: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.split("\n")


def test_good_calls_satisfy_every_annotation():
    assert "hooked" in run(GOOD_CALLS)


@pytest.mark.slow
@pytest.mark.parametrize("area", AREAS, ids=lambda path: path.stem)
def test_good_calls_of_an_area_satisfy_every_annotation(area: Path):
    assert "hooked" in run(RUN_AREA, str(area))


def test_every_public_name_is_called():
    """A name that no good call has would have annotations that nobody looks at."""
    text = GOOD_CALLS + "".join(path.read_text() for path in AREAS)
    missing = []
    for each in modules():
        module = importlib.import_module(each)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            called = re.search(rf"\b{name}\b", text)
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and not called and name not in TYPES:
                missing.append(f"{each}.{name}")
    assert not missing


def test_the_hook_sees_what_is_wrong():
    """Or the test above could not fail: annotations as text, and names imported for the type checker alone, might be
    passed over in silence."""
    assert run(BITES)[:-1] == ["seen"] * 9
