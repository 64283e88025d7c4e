"""Beam search against all texts there are, and against a plain loop over lists."""

import itertools
import math
from typing import Any

import pytest
import torch

from companion.generate import beam_search, greedy, pad_left
from companion.models import DecoderOnly, Seq2SeqTransformer
from tests.companion.test_generate import PROMPTS, SOURCES, START, lively

END = 2


def log_prob(model: Any, prompt: list[int], written: list[int], source: list[int] | None = None) -> float:
    """By one full pass over the text."""
    ids = torch.tensor([prompt + written])
    real = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        if source is None:
            logits = model(ids, real=real)
        else:
            logits = model(torch.tensor([source]), ids, target_real=real)
    rows = logits[0].log_softmax(-1)[len(prompt) - 1 : -1]
    return float(sum(rows[t, token] for t, token in enumerate(written)))


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def all_texts(vocabulary: int, new: int) -> list[list[int]]:
    """Those of full length without an end before the last token, and those that end."""
    texts = []
    for length in range(1, new + 1):
        for written in itertools.product(range(vocabulary), repeat=length):
            if END not in written[:-1] and (length == new or written[-1] == END):
                texts.append(list(written))
    return texts


@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("kind", [DecoderOnly, Seq2SeqTransformer])
def test_with_as_many_beams_as_texts_it_finds_all_in_order(kind: type, alpha: float, use_cache: bool):
    """Three tokens, one of which ends a text, and four steps: 31 texts."""
    model = lively(kind, vocab_size=3).double()
    source = [0, 1, 1] if kind is Seq2SeqTransformer else None
    texts = all_texts(3, 4)
    assert len(texts) == 31
    score = {tuple(t): log_prob(model, [1], t, source) for t in texts}
    assert math.fsum(math.exp(x) for x in score.values()) == pytest.approx(1)  # these are all
    want = sorted(texts, key=lambda t: -score[tuple(t)] / penalty(len(t), alpha))
    beams = beam_search(
        model,
        torch.tensor([[1]]),
        4,
        num_beams=40,
        length_penalty=alpha,
        end_id=END,
        source=None if source is None else torch.tensor([source]),
        use_cache=use_cache,
    )
    got = [row[: row.index(END) + 1] if END in row else row for row in beams.ids[0, :, 1:].tolist()]
    assert got[:31] == want
    assert beams.log_probs[0, :31].tolist() == pytest.approx([score[tuple(t)] for t in want])
    scores = [score[tuple(t)] / penalty(len(t), alpha) for t in want]
    assert beams.scores[0, :31].tolist() == pytest.approx(scores)
    assert (beams.log_probs[0, 31:] == -math.inf).all()  # there are no more
    assert (beams.scores[0, 31:] == -math.inf).all()


def by_lists(model: Any, prompt: list[int], new: int, beams: int, alpha: float, source: Any) -> list[tuple]:
    """The same search with one text at a time: (score, log-probability, text), best first."""
    held: list[tuple[float, float, list[int]]] = [(0.0, 0.0, [])]
    for _ in range(new):
        grown = []
        for score, total, written in held:
            if END in written:
                grown.append((score, total, written))
                continue
            for token in range(model.config.vocab_size):
                longer = [*written, token]
                value = log_prob(model, prompt, longer, source)
                grown.append((value / penalty(len(longer), alpha), value, longer))
        held = sorted(grown, key=lambda each: -each[0])[:beams]
    return held


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("kind", [DecoderOnly, Seq2SeqTransformer])
def test_a_batch_equals_lists_text_by_text(kind: type, alpha: float, beams: int):
    """Prompts of different lengths at once, with a cache that beams are taken anew from, and without."""
    model = lively(kind, pad_id=None).double()
    ids, real = pad_left(PROMPTS)
    sources, source_real = (x.flip(1) for x in pad_left([row[::-1] for row in SOURCES]))
    reading = {"source": sources, "source_real": source_real} if kind is Seq2SeqTransformer else {}
    for use_cache in (False, True):
        options = {"num_beams": beams, "length_penalty": alpha, "end_id": END, "real": real, "use_cache": use_cache}
        got = beam_search(model, ids, 4, **options, **reading)
        assert got.ids.shape[:2] == (3, beams)
        for i, prompt in enumerate(PROMPTS):
            want = by_lists(model, prompt, 4, beams, alpha, SOURCES[i] if reading else None)
            assert got.scores[i].tolist() == pytest.approx([each[0] for each in want])
            assert got.log_probs[i].tolist() == pytest.approx([each[1] for each in want])
            for row, (_, _, written) in zip(got.ids[i].tolist(), want, strict=True):
                assert row[4:] == (written + [END] * 4)[: len(row) - 4]
                assert row[4 - len(prompt) : 4] == prompt


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("pad_id", [None, 0])
def test_one_beam_is_greedy(alpha: float, pad_id: int | None, device: str):
    ended = 0
    for seed in range(5):
        torch.manual_seed(seed)
        model = lively(DecoderOnly, device, pad_id=pad_id)
        ids, real = pad_left(PROMPTS, device=device)
        want = greedy(model, ids, 8, end_id=END, real=real)
        got = beam_search(model, ids, 8, num_beams=1, length_penalty=alpha, end_id=END, real=real)
        assert torch.equal(got.ids[:, 0], want)
        ended += int((want[:, 4:] == END).any())
    assert ended


def test_more_beams_find_no_worse_text():
    """Beams that keep the greedy one, and here find better."""
    model = lively(DecoderOnly)
    best = [
        beam_search(model, torch.tensor([[3, 5]]), 6, num_beams=beams).log_probs[0, 0].item() for beams in (1, 4, 700)
    ]
    assert best[0] < best[2]
    assert best[1] <= best[2] + 1e-5


def test_log_probabilities_are_those_of_a_full_pass_in_float32(device: str):
    model = lively(DecoderOnly, device)
    beams = beam_search(model, torch.tensor([[3, 5]], device=device), 6, num_beams=3, end_id=END)
    cpu = model.cpu()
    for row, total in zip(beams.ids[0, :, 2:].tolist(), beams.log_probs[0].tolist(), strict=True):
        written = row[: row.index(END) + 1] if END in row else row
        assert total == pytest.approx(log_prob(cpu, [3, 5], written), abs=1e-5)
    assert beams.log_probs[0].tolist() == sorted(beams.log_probs[0].tolist(), reverse=True)


def test_a_long_text_is_favoured_by_the_penalty():
    """With alpha 0 log-probabilities are compared as they are, and with more the longer text wins sooner or later."""
    model = lively(DecoderOnly)
    lengths = []
    for alpha in (0.0, 10.0):
        beams = beam_search(model, torch.tensor([[3]]), 6, num_beams=50, end_id=END, length_penalty=alpha)
        row = beams.ids[0, 0, 1:].tolist()
        lengths.append(row.index(END) + 1 if END in row else 6)
        assert beams.scores[0].tolist() == sorted(beams.scores[0].tolist(), reverse=True)
    assert lengths[0] < lengths[1]


def test_it_stops_when_all_beams_have_ended():
    """One token that is nearly sure to end: beams of it and of what else begins, each followed by an end."""
    model = lively(DecoderOnly)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.weight[END] = 5 * torch.sign(model.decoder.norm.bias)
        model.decoder.norm.weight.zero_()
    beams = beam_search(model, torch.tensor([[START]]), 50, num_beams=2, end_id=END)
    assert beams.ids.shape[-1] < 5
    assert beams.ids[0, 0].tolist()[:2] == [START, END]


def test_fewer_beginnings_than_beams():
    model = lively(DecoderOnly, vocab_size=3)
    assert beam_search(model, torch.tensor([[1]]), 1, num_beams=8).ids.shape == (1, 3, 2)
    assert beam_search(model, torch.tensor([[1]]), 2, num_beams=8).ids.shape == (1, 8, 3)
    rows = beam_search(model, torch.tensor([[1]]), 2, num_beams=9).ids[0].tolist()
    assert sorted(rows) == [[1, a, b] for a in range(3) for b in range(3)]


def test_an_empty_batch():
    beams = beam_search(lively(DecoderOnly), torch.zeros(0, 2).long(), 3)
    assert (beams.ids.shape, beams.log_probs.shape) == ((0, 1, 2), (0, 1))
