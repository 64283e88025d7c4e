"""Sound modules are cleared, and have been looked at: a check that was skipped clears nobody."""

import os

import pytest
import torch
from torch.nn import functional as F

from companion import MultiHeadAttention
from companion.diagnostics import doctor
from tests.companion.doctor_sound import SOUND, Linear, sound
from tests.companion.optional import need

SEEDS = int(os.environ.get("DOCTOR_SEEDS", "2"))
LONG = 3600.0  # seconds: a machine that was suspended must not cut a visit short


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_sound_modules_are_cleared(name: str):
    if name.startswith(("GPT", "BERT")):
        need("transformers")
    blamed = []
    for seed in range(SEEDS):
        module, d_model, case = sound(name, seed)
        report = doctor(module, d_model=d_model, seed=seed, time_limit=LONG, **case.options)
        passed = {outcome.check for outcome in report.outcomes if outcome.status == "ok"}
        if not report.ok or not passed >= set(case.passed):
            blamed.append(f"seed {seed}: {report.verdict}; not passed: {sorted(set(case.passed) - passed)}")
    assert not blamed, f"{len(blamed)} of {SEEDS} starts: " + "; ".join(blamed)


def outcome(report, check: str):
    return next(each for each in report.outcomes if each.check == check)


def test_what_a_library_documents_is_a_note():
    report = doctor(torch.nn.MultiheadAttention(16, 4, batch_first=True), d_model=16)
    assert report.ok
    assert outcome(report, "a fully masked row is zero").status == "note"
    aligned = [each for each in doctor(F.scaled_dot_product_attention, d_model=16).outcomes if each.status == "note"]
    assert any("S − L + i" in each.says for each in aligned)


def test_linear_attention_that_is_not_divided_is_not_said_to_sum_to_one():
    """Two tokens that are alike and add up give twice what one gives: no weights that sum to one do."""
    report = doctor(Linear(16, 4, divided=False), d_model=16)
    assert report.ok
    assert outcome(report, "rows sum to one").status == "note"


def test_what_cannot_be_told_is_said():
    report = doctor(MultiHeadAttention(16, 4), d_model=16)
    assert outcome(report, "the scale is 1/√D").status == "untold"
    assert "cannot be told" in outcome(report, "heads are merged in order").says


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("nn.MultiheadAttention", "attn_mask: booleans (L, S), True is hidden"),
        ("attend", "mask: booleans (L, S), True may attend"),
        ("exponents", "attention_mask: floats (L, S), added to the scores"),
        ("hand, padding", "mask: booleans (B, S), True may attend"),
        ("mask demanded", "mask: booleans (B, S), True may attend"),
    ],
)
def test_the_form_of_a_mask_is_found_out(name: str, form: str):
    module, d_model, case = sound(name, 0)
    assert form in doctor(module, d_model=d_model, **case.options).found_out


def test_trained_weights_and_weights_of_zero_hide_nothing():
    """Weights so large that each softmax is sure, and an output projection of zeros: both are looked at anew."""
    sure = MultiHeadAttention(16, 4)
    with torch.no_grad():
        sure.W_Q.weight.mul_(300)
    silent = MultiHeadAttention(16, 4)
    torch.nn.init.zeros_(silent.W_O.weight)
    assert doctor(sure, d_model=16).ok
    assert doctor(silent, d_model=16).ok
    assert "weights zero" in doctor(silent, d_model=16, fresh=False).trouble
