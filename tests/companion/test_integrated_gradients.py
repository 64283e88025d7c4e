"""Integrated gradients: against closed forms, and completeness within what the quadrature can miss."""

import math

import pytest
import torch
from torch import Tensor

from companion.interpret import integrated_gradients, token_attributions
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig

DOUBLE = {"rtol": 0, "atol": 1e-12}
X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]], dtype=torch.float64)
START = torch.tensor([0.5, 1.0, -1.0], dtype=torch.float64)


@pytest.mark.parametrize("method", ["gauss", "midpoint"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_linear_score_is_shared_out_exactly_at_any_number_of_steps(device: str, method: str, steps: int):
    w = torch.tensor([2.0, -3.0, 0.5], dtype=torch.float64, device=device)
    x, start = X.to(device), START.to(device)
    found = integrated_gradients(lambda x: x @ w + 7, x, start, steps=steps, method=method)
    torch.testing.assert_close(found.attributions, (x - start) * w, **DOUBLE)
    torch.testing.assert_close(found.difference, (x - start) @ w, **DOUBLE)
    assert found.error.abs().max() < 1e-12


@pytest.mark.parametrize("steps", [1, 4])
def test_a_quadratic_score_has_a_closed_form(steps: int):
    """For x M x with symmetric M: (x - x') * M (x + x'), the gradient at the middle. One point is enough."""
    root = torch.randn(3, 3, dtype=torch.float64)
    m = root + root.t()
    for method in ("gauss", "midpoint"):
        found = integrated_gradients(lambda x: ((x @ m) * x).sum(-1), X, START, steps=steps, method=method)
        torch.testing.assert_close(found.attributions, (X - START) * ((X + START) @ m), **DOUBLE)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_gauss_is_exact_up_to_degree_twice_its_steps_and_no_further(steps: int):
    for degree, exact in ((2 * steps, True), (2 * steps + 1, False)):
        found = integrated_gradients(lambda x, n=degree: (x**n).sum(-1), X, steps=steps)
        torch.testing.assert_close(found.difference, (X**degree).sum(-1), **DOUBLE)
        assert (found.error.abs().max() < 1e-10 * 3**degree) == exact


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_the_error_is_within_what_the_quadrature_can_miss(steps: int):
    """For f = exp(w x) along the line F(t) = exp(s t), s = w x: the midpoint rule misses at most max|F'''| / 24 n², and
    Gauss-Legendre max|F^(2n+1)| n!⁴ / ((2n + 1) (2n)!³)."""
    w = torch.tensor([0.7, 0.3, 0.5], dtype=torch.float64)
    s = X @ w
    largest = s.clamp(min=0).exp()
    midpoint = s.abs() ** 3 * largest / (24 * steps**2)
    n = steps
    gauss = s.abs() ** (2 * n + 1) * largest * (math.factorial(n) ** 4 / ((2 * n + 1) * math.factorial(2 * n) ** 3))
    for method, bound in (("midpoint", midpoint), ("gauss", gauss)):
        found = integrated_gradients(lambda x: (x @ w).exp(), X, steps=steps, method=method)
        assert (found.error.abs() <= bound + 1e-13).all()
        torch.testing.assert_close(found.difference, s.exp() - 1, **DOUBLE)
        # Along the line all gradients are parallel to w, so the shares are those of w * x.
        torch.testing.assert_close(found.attributions / found.attributions.sum(-1, keepdim=True), X * w / s[:, None],
                                   **DOUBLE)  # fmt: skip


def test_the_midpoint_error_falls_with_the_square_of_the_steps():
    w = torch.tensor([0.7, 0.3, 0.5], dtype=torch.float64)
    errors = [
        integrated_gradients(lambda x: (x @ w).exp(), X, steps=n, method="midpoint").error.abs() for n in (20, 40)
    ]
    torch.testing.assert_close(errors[0] / errors[1], torch.full((2,), 4.0, dtype=torch.float64), rtol=0.01, atol=0)


def test_where_a_gradient_is_blind_the_account_still_adds_up():
    """The paper's example: 1 - relu(1 - x) at x = 2 is flat, and yet its value is all the input's."""
    found = integrated_gradients(
        lambda x: (1 - (1 - x).relu()).sum(-1), torch.tensor([[2.0]]), steps=100, method="midpoint"
    )
    assert found.attributions.item() == pytest.approx(1.0, abs=0.02)


def test_one_score_for_all():
    found = integrated_gradients(lambda x: (x**2).sum(), X)
    assert found.difference.shape == found.error.shape == ()
    torch.testing.assert_close(found.attributions, X**2, **DOUBLE)


def test_nothing_is_left_behind():
    layer = torch.nn.Linear(3, 1).double()
    x = X.clone().requires_grad_()
    with torch.no_grad():
        found = integrated_gradients(lambda x: layer(x).squeeze(-1).tanh(), x)
    assert not found.attributions.requires_grad
    assert x.grad is None
    assert all(p.grad is None for p in layer.parameters())


def test_half_precision_adds_up_in_float32():
    found = integrated_gradients(lambda x: (x**2).sum(-1), X.bfloat16())
    assert found.attributions.dtype == found.error.dtype == torch.float32


# --- token models ---

IDS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0]])


def config(**options) -> TransformerConfig:
    return TransformerConfig(
        **{"vocab_size": 9, "d_model": 8, "num_heads": 2, "num_layers": 1, "pad_id": 0, "norm_first": False} | options
    )


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi"])
@pytest.mark.parametrize("kind", [DecoderOnly, EncoderOnly])
def test_the_account_of_a_model_adds_up(positions: str, kind: type):
    """From token 8 everywhere, which is a text like any other, so that the model itself says where the line starts."""
    model = kind(config(positions=positions, tie_embeddings=False)).double().eval()
    real = IDS != 0

    def score(ids: Tensor = IDS) -> Tensor:
        return model(ids, real=real)[:, 2, 5]

    found = token_attributions(model, score, baseline=8)
    with torch.no_grad():
        want = score() - score(torch.full_like(IDS, 8))
    torch.testing.assert_close(found.difference, want, rtol=0, atol=1e-12)
    assert found.error.abs().max() < 1e-6 * want.abs().max()
    assert found.tokens.shape == (2, 4)
    torch.testing.assert_close(found.tokens.sum(-1), found.difference + found.error)
    assert (found.tokens[1, 3] == 0).all()  # padding
    assert (found.tokens[:, 3] == 0).all() == (kind is DecoderOnly)  # the future
    assert found.tokens[:, :3].abs().min() > 1e-9
    assert not any(module._forward_hooks for module in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_a_zero_baseline_before_a_norm_is_a_cliff_and_the_error_shows_it():
    """A rotary pre-LN model reads the embedding's direction alone, but within a hair of zero."""
    model = DecoderOnly(config(positions="rotary", norm_first=True, tie_embeddings=False)).double().eval()
    error = {
        baseline: token_attributions(model, lambda: model(IDS)[:, 2, 5], baseline=baseline).error.abs().max().item()
        for baseline in (None, 8)
    }
    assert error[None] > 1e-2
    assert error[8] < 1e-6


def test_the_line_goes_through_the_embeddings():
    """Against integrated gradients over a model that starts at the embeddings."""
    gpt = DecoderOnly(config(positions="rotary", tie_embeddings=False)).double().eval()
    embedded = gpt.embedding.tokens(IDS).detach()
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])

    def rest(x: Tensor) -> Tensor:
        from companion.masks import padding

        return gpt.head(gpt.decoder(x, mask=padding(mask), positions=torch.arange(4)))[:, 2, 5]

    for baseline, start in ((None, None), (8, gpt.embedding.tokens.weight[8].detach())):
        want = integrated_gradients(rest, embedded, start, steps=40)
        found = token_attributions(gpt, lambda: gpt(IDS)[:, 2, 5], baseline=baseline, steps=40)
        torch.testing.assert_close(found.attributions, want.attributions, **DOUBLE)
        torch.testing.assert_close(found.difference, want.difference, **DOUBLE)


def test_an_encoder_decoder_has_two_lookups():
    model = Seq2SeqTransformer(config(positions="rotary", tie_embeddings=False)).double().eval()

    def score() -> Tensor:
        return model(IDS, IDS[:, :3])[:, 1, 4]

    source, target = (token_attributions(model, score, lookup=i, baseline=8) for i in (0, 1))
    assert source.tokens.shape == (2, 4)
    assert target.tokens.shape == (2, 3)
    assert (source.tokens[1, 3] == 0).all()
    assert (target.tokens[:, 2] == 0).all()  # row 1 does not see target 2
    assert source.tokens[0].abs().min() > 1e-9
    for found in (source, target):
        assert found.error.abs().max() < 1e-6
    with pytest.raises(ValueError, match=r"lookup must be less than the 2 uses .* got 2"):
        token_attributions(model, score, lookup=2)
