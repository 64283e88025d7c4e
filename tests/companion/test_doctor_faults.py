"""Each planted fault is found, alone, under its own name. DOCTOR_SEEDS=200 tries 200 starts of each (15 minutes)."""

import os

import pytest
import torch

from companion.diagnostics import doctor
from tests.companion.doctor_faults import FAULTS, planted

SEEDS = int(os.environ.get("DOCTOR_SEEDS", "2"))
LONG = 3600.0  # seconds: a machine that was suspended must not cut a visit short
# Which of the doctor's words each name must come with: a hand's idea of the symptom, so that names are not just labels.
WORDS = {
    "mask-polarity": ("after t", "True should mean"),
    "causal-off-by-one": ("t + 1", "no weight in its own output"),
    "mask-after-softmax": ("taken away", "no longer", "set to zero"),
    "heads-split": ("tokens",),
    "heads-merge": ("alone changes the outputs of tokens",),
    "dropout-in-eval": ("eval",),
    "fill-overflow": ("float16",),
    "empty-row": ("all hidden",),
    "wrong-padding": ("for x",),
    "no-attention": ("no other",),
    "input-overwritten": ("other numbers",),
    "positions-missing": ("reordered",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_named(name: str):
    missed = []
    for seed in range(SEEDS):
        module, d_model, case = planted(name, seed)
        report = doctor(module, d_model=d_model, seed=seed, time_limit=LONG, **case.options)
        found = [finding.name for finding in report.findings]
        if found != [case.name] or report.ok:
            missed.append(f"seed {seed}: {found or report.verdict}")
            continue
        words = WORDS.get(case.name)
        assert words is None or any(word in report.findings[0].symptom for word in words)
    assert not missed, f"{len(missed)} of {SEEDS} starts: " + "; ".join(missed)


def scale_of(name: str) -> tuple[float, float]:
    module, d_model, _ = planted(name, 0)
    finding = doctor(module, d_model=d_model, num_heads=4).findings[0]
    return finding.measured, finding.expected


def test_the_scale_is_measured_as_a_number():
    """d_model 16 in 4 heads: 1/√4, 1, 1/4 and 1/√16."""
    assert scale_of("q, k, v: no scale") == (pytest.approx(1.0, rel=1e-9), 0.5)
    assert scale_of("q, k, v: 1/d") == (pytest.approx(0.25, rel=1e-9), 0.5)
    assert scale_of("q, k, v: sqrt(d_model)") == (pytest.approx(0.25, rel=1e-9), 0.5)


def test_1_over_d_and_sqrt_d_model_are_told_apart_where_they_are_one_number():
    """Both are 1/4 for 4 heads of 4; heads of another width tell which it is."""
    for name, wanted in (("q, k, v: 1/d", "scale-1-over-d"), ("q, k, v: sqrt(d_model)", "scale-sqrt-d-model")):
        module, _, _ = planted(name, 0)
        assert [f.name for f in doctor(module, d_model=16).findings] == [wanted]


def test_a_fixed_scale_that_may_be_right_is_no_fault():
    """1/√8: right for heads of 8, and nobody said how wide they are. Told, it is right or wrong."""

    def eights(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT / 8**0.5).softmax(-1) @ v

    said = {outcome.check: outcome for outcome in doctor(eights, d_model=16).outcomes}
    assert said["the scale is 1/√D"].status == "untold"
    assert "num_heads=2" in said["the scale is 1/√D"].says
    assert doctor(eights, d_model=16, num_heads=2).ok
    assert [f.name for f in doctor(eights, d_model=16, num_heads=4).findings] == ["scale-other"]


def test_what_follows_from_a_fault_is_listed_under_it():
    """−1e9 in float16 overflows, and in a row that is all hidden it also gives the mean: one cause."""
    module, d_model, _ = planted("-1e9", 0)
    (finding,) = doctor(module, d_model=d_model).findings
    assert finding.name == "fill-overflow"
    assert any("mean" in consequence for consequence in finding.consequences)


def test_the_fill_is_measured():
    """The smallest number of float32, which float16 cannot hold either, is not −1e9."""
    lowest = torch.finfo(torch.float32).min

    def lowest_fill(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, lowest).softmax(-1) @ v

    (finding,) = doctor(lowest_fill, d_model=16).findings
    assert finding.name == "fill-overflow"
    assert finding.measured == -lowest


def test_what_attends_along_the_batch_may_mean_to():
    """(L, B, M) read as (B, L, M): the doctor cannot know which, and says what to say."""
    module, d_model, _ = planted("along the batch", 0)
    (finding,) = doctor(module, d_model=d_model).findings
    assert "--no-batch-first" in finding.symptom
    assert "(L, B, M)" in finding.symptom


def test_a_fault_stops_what_could_not_be_measured():
    module, d_model, _ = planted("dropout in eval", 0)
    report = doctor(module, d_model=d_model)
    assert {outcome.status for outcome in report.outcomes[1:]} == {"skipped"}
    assert "first cure this" in report.outcomes[-1].says
