"""The loss is the mean over real tokens, whatever stands in the padding; labels are where they belong."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from companion.accuracy import accuracy, sequence_accuracy, token_accuracy
from companion.batch import LabelBatch, PairBatch, TextBatch
from companion.losses import cross_entropy, predictions, token_loss
from companion.masked import mask_tokens
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.splitmix import SplitMix
from companion.tasks import END, MASK, PAD, START, copy, repeats, reverse
from companion.vocabulary import pad

YES, NO = True, False


def config(vocab_size: int = 12, **options) -> TransformerConfig:
    return TransformerConfig(vocab_size=vocab_size, d_model=16, num_heads=2, num_layers=1, **options)


def test_a_loss_by_hand():
    """Two tokens alike: log 2. Scores log 3 and 0: 3/4 and 1/4, so -log 1/4 = log 4 for the second."""
    logits = torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]]])
    labels = torch.tensor([[0, 1]])
    loss = cross_entropy(logits, labels)
    assert loss.total.item() == pytest.approx(math.log(2) + math.log(4))
    assert loss.tokens.item() == 2
    assert loss.mean.item() == pytest.approx(math.log(8) / 2)
    # Smoothing by ε: (1 - ε) log 4 + ε (log 4 + log 4/3) / 2 for the second token, log 2 still for the first.
    smooth = cross_entropy(logits, labels, label_smoothing=0.2).total.item()
    second = 0.8 * math.log(4) + 0.2 * (math.log(4) + math.log(4 / 3)) / 2
    assert smooth == pytest.approx(math.log(2) + second)


def test_case_27_padding_is_not_in_the_loss(device: str):
    """LaTeX-OCR#305. Padded or alone, a text has the same loss; a padded batch has the mean over its real tokens."""
    torch.manual_seed(0)
    model = DecoderOnly(config()).to(device).double()
    texts = [[1, 5, 6, 7, 2], [1, 8, 2], [1, 9, 10, 4, 5, 6, 2]]
    alone = [token_loss(model, TextBatch(*pad([text])).to(device)) for text in texts]
    assert [loss.tokens.item() for loss in alone] == [4, 2, 6]
    want = sum(loss.total for loss in alone) / 12
    for left in (False, True):
        for length in (7, 11):
            ids, real = pad(texts, length=length, left=left)
            for filler in (PAD, 3):
                batch = TextBatch(ids.masked_fill(~real, filler), real).to(device)
                loss = token_loss(model, batch)
                assert loss.tokens.item() == 12
                torch.testing.assert_close(loss.mean, want)


def test_case_27_gradients_are_those_of_the_real_tokens():
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    labels, counted = torch.tensor([[0, 1, 2], [3, 4, 4]]), torch.tensor([[YES, YES, NO], [YES, NO, NO]])
    cross_entropy(logits, labels, counted).mean.backward()
    real = logits.detach()[counted].requires_grad_()
    F.cross_entropy(real, labels[counted]).backward()
    torch.testing.assert_close(logits.grad[counted], real.grad)
    assert (logits.grad[~counted] == 0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_equal_to_pytorchs_loss_of_the_real_tokens(smoothing: float, dtype: torch.dtype):
    torch.manual_seed(0)
    logits, labels = torch.randn(4, 6, 9).to(dtype), torch.randint(9, (4, 6))
    counted = torch.rand(4, 6) < 0.6
    wide = logits.double() if dtype is torch.float64 else logits.float()
    want = F.cross_entropy(wide[counted], labels[counted], label_smoothing=smoothing)
    loss = cross_entropy(logits, labels.masked_fill(~counted, 10**6), counted, label_smoothing=smoothing)
    torch.testing.assert_close(loss.mean, want)
    assert loss.total.dtype is wide.dtype


def test_nothing_that_counts_is_a_loss_of_zero():
    logits = torch.randn(1, 2, 3, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.bool))
    loss.mean.backward()
    assert (loss.total.item(), loss.tokens.item(), loss.mean.item()) == (0, 0, 0)
    assert (logits.grad == 0).all()


class Recorder(nn.Module):
    """Stands for a model: notes what it reads, and answers with scores for what it was built to say."""

    def __init__(self, says: torch.Tensor, vocab_size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.says = F.one_hot(says, vocab_size).float()
        self.read: dict[str, torch.Tensor] = {}

    def forward(self, *ids: torch.Tensor, **masks: torch.Tensor) -> torch.Tensor:
        self.read = {"ids": ids[-1], "source": ids[0], **masks}
        return self.says * self.scale

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


def test_the_labels_of_an_encoder_decoder_are_one_ahead_of_what_it_reads():
    """Reads <start> a b, is to answer a b <end>. Read unshifted, it would only have to copy."""
    target = torch.tensor([[START, 5, 6, END], [START, 7, END, PAD]])
    source = torch.tensor([[6, 5], [7, PAD]])
    batch = PairBatch(source, target, source != PAD, target != PAD)
    model = Recorder(target[:, 1:], 9)
    found = predictions(model, batch)
    assert model.read["ids"].tolist() == [[START, 5, 6], [START, 7, END]]
    assert model.read["source"].tolist() == source.tolist()
    assert model.read["source_real"].tolist() == [[YES, YES], [YES, NO]]
    assert model.read["target_real"].tolist() == [[YES, YES, YES], [YES, YES, YES]]
    assert found.labels.tolist() == [[5, 6, END], [7, END, PAD]]
    assert found.counted.tolist() == [[YES, YES, YES], [YES, YES, NO]]
    assert accuracy(model, batch) == (1, 1)
    assert accuracy(Recorder(target[:, :-1], 9), batch).tokens == 0  # who copies what it reads is always wrong


def test_the_labels_of_a_decoder():
    ids, real = pad([[START, 5, 6, END], [START, 7]])
    model = Recorder(ids[:, 1:], 9)
    found = predictions(model, TextBatch(ids, real))
    assert model.read["ids"].tolist() == [[START, 5, 6], [START, 7, PAD]]
    assert model.read["real"].tolist() == [[YES, YES, YES], [YES, YES, NO]]
    assert found.labels.tolist() == [[5, 6, END], [7, PAD, PAD]]
    assert found.counted.tolist() == [[YES, YES, YES], [YES, NO, NO]]
    only = torch.tensor([[NO, NO, YES, NO], [NO, YES, YES, NO]])
    found = predictions(model, TextBatch(ids, real, only))
    assert found.counted.tolist() == [[NO, YES, NO], [YES, NO, NO]]  # what counts, where it is real


def test_what_stands_after_padding_on_the_left_is_not_counted():
    """The first token has nothing before it that could tell it: a row of padding does not predict."""
    ids, real = pad([[5, 6, 7], [8, 9]], left=True)
    found = predictions(Recorder(ids[:, 1:], 10), TextBatch(ids, real))
    assert found.labels.tolist() == [[6, 7], [8, 9]]
    assert found.counted.tolist() == [[YES, YES], [NO, YES]]


def test_the_labels_of_an_encoder_are_in_place():
    ids, real = pad([[5, MASK, 7], [MASK]])
    labels = torch.tensor([[5, 6, 7], [8, 0, 0]])
    chosen = torch.tensor([[NO, YES, NO], [YES, YES, NO]])
    model = Recorder(labels, 9)
    found = predictions(model, LabelBatch(ids, real, labels, chosen))
    assert model.read["ids"].tolist() == ids.tolist()
    assert torch.equal(found.labels, labels)
    assert found.counted.tolist() == [[NO, YES, NO], [YES, NO, NO]]


@pytest.mark.parametrize("task", [reverse(8, 5, 2), repeats(8, 12, min_period=3, max_period=6)], ids=["pairs", "text"])
def test_the_loss_of_real_models_at_the_start_is_about_that_of_a_guess(task):
    torch.manual_seed(0)
    kind = Seq2SeqTransformer if isinstance(task.batch(1), PairBatch) else DecoderOnly
    model = kind(config(positions="learned"))
    assert token_loss(model, task.batch(64)).mean.item() == pytest.approx(math.log(12), abs=0.2)


def test_the_loss_of_an_encoder():
    model = EncoderOnly(config(positions="learned"), masked_lm=True)
    loss = token_loss(model, copy(8, 5, 2).batch(64).labels())
    assert loss.mean.item() == pytest.approx(math.log(12), abs=0.6)


def test_accuracies_by_hand():
    labels = torch.tensor([[0, 1], [1, 1], [0, 0]])
    logits = F.one_hot(torch.tensor([[0, 1], [1, 0], [1, 0]]), 2).float()
    assert token_accuracy(logits, labels) == pytest.approx(4 / 6)
    assert sequence_accuracy(logits, labels) == pytest.approx(1 / 3)
    counted = torch.tensor([[YES, YES], [YES, NO], [NO, NO]])
    assert token_accuracy(logits, labels, counted) == 1
    assert sequence_accuracy(logits, labels, counted) == 1  # of two rows: nothing is asked in the third
    counted = torch.tensor([[YES, NO], [NO, YES], [NO, NO]])
    assert token_accuracy(logits, labels, counted) == 0.5
    assert sequence_accuracy(logits, labels, counted) == 0.5


def test_accuracy_over_batches_weighs_each_token_alike():
    """Three tokens right of three, and none of one: 3/4, not 1/2."""
    ids = torch.tensor([[START, 5, 6, 7]])
    model = Recorder(ids[:, 1:], 9)
    right = TextBatch(ids, torch.ones(1, 4, dtype=torch.bool))
    wrong = TextBatch(torch.tensor([[START, 8, 0, 0]]), torch.tensor([[YES, YES, NO, NO]]))
    assert accuracy(model, [right, wrong]) == (0.75, 0.5)
    assert accuracy(model, iter([right])) == (1, 1)


def test_accuracy_leaves_the_model_in_its_mode():
    model = DecoderOnly(config(dropout=0.5))
    batch = repeats(8, 12, min_period=3, max_period=6).batch(16)
    for training in (True, False):
        model.train(training)
        assert accuracy(model, batch) == accuracy(model, batch)  # in eval mode, or dropout would tell them apart
        assert model.training is training
        assert all(p.grad is None for p in model.parameters())


def test_masking_hides_80_10_10():
    """Of 15 in 100; bounds of four standard deviations."""
    ids = SplitMix(1).integers(40, (200, 200)) + 10
    real = torch.ones_like(ids, dtype=torch.bool)
    batch = mask_tokens(ids, real, vocab_size=50, random=SplitMix(2))
    assert torch.equal(batch.labels, ids)
    share = batch.counted.double().mean().item()
    assert share == pytest.approx(0.15, abs=4 * (0.15 * 0.85 / 40_000) ** 0.5)
    chosen, was = batch.ids[batch.counted], ids[batch.counted]
    n = len(chosen)
    masked, same = (chosen == MASK).double().mean().item(), (chosen == was).double().mean().item()
    assert masked == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / n) ** 0.5)
    # One in 46 of the random tokens is the old one by chance.
    assert same == pytest.approx(0.1 + 0.1 / 46, abs=4 * (0.1 * 0.9 / n) ** 0.5)
    other = chosen[(chosen != MASK) & (chosen != was)]
    assert (other >= 4).all()
    assert other.unique().numel() == 46
    assert torch.equal(batch.ids[~batch.counted], ids[~batch.counted])


def test_masking_leaves_padding_and_special_tokens_alone(device: str):
    ids, real = pad([[START, 5, 6, END], [START, 7, END]])
    batch = mask_tokens(ids.to(device), real.to(device), vocab_size=9, random=SplitMix(0), rate=1.0)
    assert batch.counted.tolist() == [[NO, YES, YES, NO], [NO, YES, NO, NO]]
    assert batch.ids[batch.counted.logical_not()].tolist() == [START, END, START, END, PAD]
    assert batch.ids.device.type == torch.device(device).type
    none = mask_tokens(ids, real, vocab_size=9, random=SplitMix(0), rate=0.0)
    assert torch.equal(none.ids, ids)
    assert not none.counted.any()


def test_masking_is_repeatable_and_goes_on():
    ids, real = pad([[5, 6, 7, 8] * 10])
    first = mask_tokens(ids, real, vocab_size=9, random=SplitMix(3))
    source = SplitMix(3)
    again, then = (mask_tokens(ids, real, vocab_size=9, random=source) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.counted, then.counted)
