"""Good calls of the doctor: see ``test_typing_runtime.py``."""

import torch

from companion import MultiHeadAttention, attend
from companion.clinic import Adapter, Finding, Outcome, Report
from companion.diagnostics import doctor
from companion.doctor import main

mha = MultiHeadAttention(16, 4)
report = doctor(mha, d_model=16, causal=True, num_heads=4, cross=False, positions=False, length=6, fresh=False, seed=3)
assert report.ok, report
assert isinstance(report, Report)
assert all(isinstance(outcome, Outcome) for outcome in report.outcomes)
doctor(attend, d_model=8, time_limit=10.0)
told = Adapter(
    call=lambda module, *inputs, **options: module(*inputs, **options),
    inputs="x",
    mask="mask",
    mask_true="may attend",
    mask_shape="(L, S)",
    causal="causal",
    output=lambda y: y,
    cached=lambda module, x, state: (module(x), state),
    batch_first=True,
)
doctor(mha, d_model=16, adapter=told)
bad = doctor(lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, d_model=16)
assert isinstance(bad.findings[0], Finding)
assert bad.findings[0].read
for shown in (str(bad), bad.to_html(), bad.to_json(), bad._repr_html_(), str(bad.to_dict()), bad.verdict):
    assert shown
doctor(lambda x: None, d_model=16)
assert main(["companion:attend", "--d-model", "16", "--format", "verdict"]) == 0
