"""Training does what it says, step by step; what it reaches is in ``test_learning.py``."""

import json
import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from companion import plots
from companion.batch import PairBatch
from companion.losses import TokenLoss, token_loss
from companion.models import DecoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.tasks import repeats, reverse
from companion.training import History, learning_rate, make_optimizer, seed_everything, train

TASK = reverse(6, 5, 2)


def small(seed: int = 0, **options) -> Seq2SeqTransformer:
    torch.manual_seed(seed)
    settings = {"d_model": 16, "num_heads": 2, "num_layers": 1} | options
    return Seq2SeqTransformer(TransformerConfig(vocab_size=TASK.vocab_size, **settings))


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(history: History) -> dict:
    """What does not depend on the clock."""
    return {name: value for name, value in history.to_dict().items() if name != "tokens_per_second"}


def test_the_same_seed_gives_the_same_numbers_twice(device: str):
    def run() -> tuple[dict, list[torch.Tensor]]:
        seed_everything(3)
        model = small(torch.initial_seed(), dropout=0.2).to(device)
        history = train(
            model, TASK.batches(8, seed=1), steps=12, warmup=3, schedule="cosine", evaluate=lambda m: 0.5, every=5
        )
        return same(history), weights(model)

    (first, one), (second, two) = run(), run()
    assert first == second
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert len(set(first["loss"])) == 12


def test_seeding_reaches_every_source():
    def draw() -> tuple:
        return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002

    seed_everything(5)
    first = draw()
    seed_everything(5)
    assert draw() == first
    seed_everything(6)
    assert all(a != b for a, b in zip(draw(), first, strict=True))
    seed_everything(2**64 - 1, deterministic=True)
    assert torch.are_deterministic_algorithms_enabled()
    seed_everything(0)
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_learning_rate_by_hand():
    rates = [learning_rate(t, lr=2.0, steps=8, warmup=4) for t in range(1, 9)]
    assert rates == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0]
    rates = [learning_rate(t, lr=2.0, steps=8, warmup=4, schedule="cosine") for t in range(4, 9)]
    # Quarters of half a cosine: 1 + cos 45° and so on.
    assert rates == pytest.approx([2, 1 + math.sqrt(0.5), 1, 1 - math.sqrt(0.5), 0])
    assert learning_rate(8, lr=2.0, steps=8, schedule="cosine", floor=0.1) == pytest.approx(0.2)
    assert learning_rate(8, lr=2.0, steps=8, warmup=8, schedule="cosine") == 2.0
    assert learning_rate(1, lr=2.0, steps=1) == 2.0


def test_only_matrices_decay():
    model = small(norm="rms", tie_embeddings=False, positions="learned")
    optimizer = make_optimizer(model, lr=0.1, weight_decay=0.5)
    names = {id(p): name for name, p in model.named_parameters()}
    groups = [{names[id(p)] for p in group["params"]} for group in optimizer.param_groups]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0]
    assert groups[0] | groups[1] == set(names.values())
    assert not groups[0] & groups[1]
    for name in groups[0]:
        assert name.endswith("weight")
        assert "W_" in name or name == "head.weight"
    for name in groups[1]:
        assert "norm" in name or "embedding" in name or name.endswith("bias")
    assert {"embedding.tokens.weight", "embedding.positions.table.weight"} <= groups[1]


def test_decay_by_hand():
    """With no gradient to follow, AdamW takes lr * weight_decay of a matrix, and nothing of its bias."""
    layer = nn.Linear(2, 2)
    before = weights(layer)
    optimizer = make_optimizer(layer, lr=0.1, weight_decay=0.5)
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before[0] * 0.95)
    assert torch.equal(layer.bias.detach(), before[1])


def test_what_is_frozen_stays():
    model = small()
    model.embedding.requires_grad_(False)
    before = model.embedding.tokens.weight.clone()
    train(model, TASK.batches(8), steps=2)
    assert torch.equal(model.embedding.tokens.weight, before)


def test_a_step_is_pytorchs_own():
    """The first steps by hand: mean loss over real tokens, clipped gradient, AdamW at a rate that warms up."""
    ours, theirs = small().double(), small().double()  # Adam would make much of a rounded zero
    history = train(ours, TASK.batches(8, seed=2), steps=3, lr=0.01, warmup=2, clip=0.5, label_smoothing=0.1)
    optimizer = make_optimizer(theirs, lr=0.01)
    supply = TASK.batches(8, seed=2)
    for t in range(3):
        for group in optimizer.param_groups:
            group["lr"] = [0.005, 0.01, 0.01][t]
        optimizer.zero_grad()
        loss = token_loss(theirs, next(supply), label_smoothing=0.1).mean
        loss.backward()
        norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in theirs.parameters()))
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        optimizer.step()
        assert history.loss[t] == pytest.approx(loss.item(), rel=1e-9)
        assert history.gradient_norm[t] == pytest.approx(norm, rel=1e-9)  # before clipping
        assert norm > 0.5
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)
    assert history.learning_rate == [0.005, 0.01, 0.01]


def test_no_clipping():
    def one_step(clip: float | None) -> nn.Module:
        layer = Constant()
        train(layer, [TASK.batch(1)], steps=1, clip=clip, loss=lambda m, b, label_smoothing: m.loss(100.0))
        return layer

    for clip, want in ((None, 100.0), (1000.0, 100.0), (1.0, 1.0)):
        assert one_step(clip).weight.grad.item() == pytest.approx(want, rel=1e-4)


class Constant(nn.Module):
    """One number, whose loss has a slope of your choice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def loss(self, slope: float, tokens: int = 1) -> TokenLoss:
        return TokenLoss(self.weight * slope * tokens, torch.tensor(tokens))


def test_case_27_micro_batches_weigh_each_token_alike():
    """Batches of 2, 9 and 4 real tokens: accumulated, they are one batch of 15, not three of the same weight."""
    pair = reverse(6, 8, 1).batch(12, seed=4)
    parts = [PairBatch(*(x[rows] for x in pair)) for rows in (slice(0, 1), slice(1, 8), slice(8, 12))]
    sizes = {int(part.target_real[:, 1:].sum()) for part in parts}
    assert len(sizes) == 3
    models = [small().double(), small().double()]
    one = train(models[0], [pair], steps=3, lr=0.01)
    many = train(models[1], parts, steps=3, lr=0.01, accumulate=3)
    assert many.loss == pytest.approx(one.loss, rel=1e-12)
    assert many.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-12)
    for a, b in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_batches_are_begun_again():
    seen = []

    def loss(model: nn.Module, batch: PairBatch, *, label_smoothing: float) -> TokenLoss:
        seen.append(batch.source[0, 0].item())
        return token_loss(model, batch, label_smoothing=label_smoothing)

    batches = [TASK.batch(1, seed=seed) for seed in (0, 1, 2)]
    train(small(), batches, steps=7, loss=loss)
    first = [batch.source[0, 0].item() for batch in batches]
    assert seen == (first * 3)[:7]
    with pytest.raises(
        ValueError, match="batches must not end, or be something to begin again; got 3 and then no more"
    ):
        train(small(), iter(batches), steps=7)
    with pytest.raises(ValueError, match="got 0 and then no more"):
        train(small(), [], steps=1)


def test_evaluation_and_an_early_end():
    modes = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        modes.append((model.training, torch.is_grad_enabled()))
        return {"accuracy": len(modes) / 4, "other": 7}

    model = small(dropout=0.5)
    history = train(model, TASK.batches(4), steps=50, evaluate=evaluate, every=10, target=0.75)
    assert history.evaluations == [{"step": 10 * n, "accuracy": n / 4, "other": 7} for n in (1, 2, 3)]
    assert history.steps == list(range(1, 31))
    assert history.reached
    assert set(modes) == {(False, False)}
    assert not model.training
    modes.clear()
    history = train(model, TASK.batches(4), steps=12, evaluate=lambda m: evaluate(m)["accuracy"], every=5, target=0.99)
    assert history.evaluations == [{"step": n, "accuracy": a} for n, a in ((5, 0.25), (10, 0.5), (12, 0.75))]
    assert not history.reached


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_at_its_step(bad: float):
    layer = Constant()
    losses = iter([1.0, 2.0, bad, 1.0])

    def loss(model: Constant, batch: PairBatch, *, label_smoothing: float) -> TokenLoss:
        return model.loss(next(losses))

    with pytest.raises(FloatingPointError, match=rf"the loss is {bad} at step 3: a lower learning rate"):
        train(layer, TASK.batches(1), steps=4, loss=loss)
    assert layer.weight.isfinite()
    assert not layer.training


def test_a_gradient_that_is_not_finite_stops_too():
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

    def loss(model: Root, batch: PairBatch, *, label_smoothing: float) -> TokenLoss:
        return TokenLoss(model.weight.sqrt(), torch.tensor(1))  # 0, with a slope of infinity

    with pytest.raises(FloatingPointError, match="the gradient's norm is inf at step 1"):
        train(Root(), TASK.batches(1), steps=1, loss=loss)


def test_a_batch_with_nothing_to_learn_is_refused():
    pair = TASK.batch(2)
    empty = pair._replace(target_real=torch.zeros_like(pair.target_real))
    with pytest.raises(ValueError, match="batches must have a token that counts, got none at step 2"):
        train(small(), [pair, empty], steps=2)


def test_a_loss_of_the_wrong_kind_is_refused():
    with pytest.raises(TypeError, match="loss must return a TokenLoss, got Tensor"):
        train(small(), TASK.batches(2), steps=1, loss=lambda m, b, label_smoothing: token_loss(m, b).mean)


def test_an_evaluation_of_the_wrong_kind_is_refused():
    for said, error, words in (
        ("good", TypeError, "evaluate's accuracy must be a real number, got str"),
        (math.nan, ValueError, "evaluate's accuracy must be finite"),
        ({"nats": 1.0}, ValueError, "evaluate must return an accuracy where there is a target, got nats"),
    ):
        with pytest.raises(error, match=words):
            train(small(), TASK.batches(2), steps=1, evaluate=lambda m, said=said: said, target=0.5)


def test_it_runs_where_the_model_is(device: str):
    torch.manual_seed(0)
    task = repeats(6, 10, min_period=2, max_period=4)
    model = DecoderOnly(TransformerConfig(vocab_size=task.vocab_size, d_model=8, num_heads=2)).to(device)
    history = train(model, task.batches(4), steps=2)
    assert next(model.parameters()).device.type == torch.device(device).type
    assert len(history.loss) == 2


def test_the_history_is_whole_and_goes_through_json():
    history = train(small(), TASK.batches(4), steps=6, evaluate=lambda m: 0.25, every=4)
    assert history.steps == [1, 2, 3, 4, 5, 6]
    for series in (history.loss, history.learning_rate, history.gradient_norm, history.tokens_per_second):
        assert len(series) == 6
        assert all(number > 0 for number in series)
    assert history.final == {"step": 6, "loss": history.loss[-1], "accuracy": 0.25}
    assert History(**json.loads(json.dumps(history.to_dict()))) == history
    assert history.series("accuracy") == ([4, 6], [0.25, 0.25])
    assert History().final == {}


def test_the_history_is_drawn():
    history = History(steps=[1, 2, 3], loss=[3.0, 2.0, 4.0], evaluations=[{"step": 2, "accuracy": 0.5}])
    axes = history.plot(label="mine", smooth=2, log=True)
    (line,) = axes.lines
    assert line.get_xydata().tolist() == [[1, 3], [2, 2.5], [3, 3]]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("step", "loss", "log")
    assert history.plot("accuracy", ax=axes) is axes
    assert axes.lines[1].get_xydata().tolist() == [[2, 0.5]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mine", "accuracy"]


def test_curves():
    axes = plots.curves({"a": [1.0, 2.0], "b": torch.tensor([3.0, 4.0])}, [10, 20], ylabel="nats")
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[10, 1], [20, 2]], [[10, 3], [20, 4]]]
    assert axes.get_ylabel() == "nats"
    assert len({line.get_linestyle() for line in axes.lines}) == 2  # told apart without colours
    assert plots.curves({"a": [5, 6, 7]}).lines[0].get_xdata().tolist() == [1, 2, 3]


def test_the_progress_bar_is_seen_only_where_somebody_looks(capsys, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    train(small(), TASK.batches(2), steps=2)
    assert capsys.readouterr() == ("", "")
    train(small(), TASK.batches(2), steps=2, progress=True)
    assert "0/2" in capsys.readouterr().err
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr.isatty", lambda: True)
        train(small(), TASK.batches(2), steps=2)
        assert "0/2" in capsys.readouterr().err
    monkeypatch.setattr("IPython.get_ipython", lambda: type("Shell", (), {"kernel": "a notebook's"}))
    train(small(), TASK.batches(2), steps=2)
    assert "0/2" in capsys.readouterr().err
    train(small(), TASK.batches(2), steps=2, progress=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    train(small(), TASK.batches(2), steps=2)
    assert capsys.readouterr() == ("", "")
