"""Writing against a plain loop over full passes, and drawing against the probabilities themselves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from companion.generate import beam_search, greedy, pad_left, sample
from companion.models import DecoderOnly, Seq2SeqTransformer, TransformerConfig

VOCABULARY, START, NEW = 9, 1, 8
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")
PROMPTS = [[3, 5, 2, 7], [4], [6, 6, 8]]


def lively(kind: type, device: str = "cpu", **options: Any) -> Any:
    """A model with opinions: its scores differ much, and with the whole text."""
    chosen = {"vocab_size": VOCABULARY, "d_model": 16, "num_layers": 2, "positions": "rotary", "tie_embeddings": False}
    model = kind(TransformerConfig(**(chosen | {"embedding_scale": True} | options)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.to(device).eval()


def by_full_passes(model: Any, prompt: list[int], new: int, end_id: int | None = None, source: Any = None) -> list[int]:
    """Greedy, with nothing but whole passes over one text."""
    text, device = list(prompt), next(model.parameters()).device
    for _ in range(new):
        ids = torch.tensor([text], device=device)
        real = torch.ones_like(ids, dtype=torch.bool)  # a written token is real, even if it is the padding's id
        with torch.no_grad():
            if source is None:
                logits = model(ids, real=real)
            else:
                logits = model(torch.tensor([source], device=device), ids, target_real=real)
        text.append(int(logits[0, -1].argmax()))
        if text[-1] == end_id:
            break
    return text


def eloquent(kind: type, prompts: list, end: bool = False, source: Any = None, **options: Any) -> tuple[Any, list]:
    """A model whose texts go different ways, and what it writes; with ``end``, until then, at different times.

    Untrained models often say one thing for ever, which would hide a fault.
    """
    for seed in range(200):
        torch.manual_seed(seed)
        model = lively(kind, **options)
        sources = source or [None] * len(prompts)
        texts = [
            by_full_passes(model, prompt, NEW, 2 if end else None, read)
            for prompt, read in zip(prompts, sources, strict=True)
        ]
        written = [tuple(text[len(prompt) :]) for text, prompt in zip(texts, prompts, strict=True)]
        if end and len({len(text) for text in written}) == 3 == len([text for text in written if len(text) > 1]):
            return model, texts
        if not end and len(set(written)) == 3 and all(len(set(text)) > 2 for text in written):
            return model, texts
    raise AssertionError("no such model")


# --- greedy ---


@pytest.mark.parametrize("positions", POSITIONS)
def test_greedy_equals_a_loop_of_full_passes(positions: str, device: str):
    """A batch padded on the left gives what each prompt alone gives."""
    model, want = eloquent(DecoderOnly, PROMPTS, device=device, positions=positions)
    ids, real = pad_left(PROMPTS, device=device)
    for use_cache in (False, True):
        texts = greedy(model, ids, NEW, real=real, use_cache=use_cache)
        assert texts.shape == (3, 4 + NEW)
        for text, row, prompt, alone in zip(texts, real, PROMPTS, want, strict=True):
            assert text[4 - int(row.sum()) :].tolist() == alone
            got = greedy(model, torch.tensor([prompt], device=device), NEW, use_cache=use_cache)
            assert got.tolist() == [alone]


SOURCES = [[2, 3, 4, 5, 6], [7, 8], [5]]


@pytest.mark.parametrize("positions", POSITIONS)
def test_an_encoder_decoder_equals_a_loop_of_full_passes(positions: str, device: str):
    """Sources padded on the right, which is told or found by its id; start tokens, and prompts padded on the left."""
    model, want = eloquent(Seq2SeqTransformer, [[START]] * 3, source=SOURCES, device=device, positions=positions)
    knowing = Seq2SeqTransformer(replace(model.config, pad_id=0)).to(device)
    knowing.load_state_dict(model.state_dict())
    begun = [by_full_passes(model, prompt, NEW, source=read) for prompt, read in zip(PROMPTS, SOURCES, strict=True)]
    source, source_real = (x.flip(1) for x in pad_left([row[::-1] for row in SOURCES], device=device))
    start = torch.full((3, 1), START, device=device)
    prompts, real = pad_left(PROMPTS, device=device)
    for use_cache in (False, True):
        for writer, told in ((model, {"source_real": source_real}), (knowing, {})):
            options = {"source": source, "use_cache": use_cache} | told
            assert greedy(writer, start, NEW, **options).tolist() == want
            texts = greedy(writer, prompts, NEW, real=real, **options)
            for text, prompt, alone in zip(texts, PROMPTS, begun, strict=True):
                assert text[4 - len(prompt) :].tolist() == alone


@pytest.mark.parametrize("pad_id", [None, 0])
def test_a_row_that_has_ended_is_filled_up_and_the_others_go_on(pad_id: int | None):
    model, want = eloquent(DecoderOnly, PROMPTS, end=True, pad_id=pad_id)
    ids, real = pad_left(PROMPTS)
    fill = 2 if pad_id is None else pad_id
    for use_cache in (False, True):
        texts = greedy(model, ids, NEW, end_id=2, real=real, use_cache=use_cache)[:, 4:].tolist()
        for text, alone, prompt in zip(texts, want, PROMPTS, strict=True):
            written = alone[len(prompt) :]
            assert text == written + [fill] * (len(texts[0]) - len(written))
        assert len(texts[0]) == max(len(alone) - len(prompt) for alone, prompt in zip(want, PROMPTS, strict=True))


def test_it_stops_when_all_have_ended():
    model = lively(DecoderOnly)
    first = int(greedy(model, torch.tensor([[3]]), 1)[0, -1])
    texts = greedy(model, torch.tensor([[3], [3]]), 50, end_id=first)
    assert texts.tolist() == [[3, first]] * 2
    assert greedy(model, torch.tensor([[3]]), 3).shape == (1, 4)


def test_what_is_written_is_real_whatever_its_id():
    """An untrained model may write the padding's id; with a cache and without it is read as what it is."""
    _, said = eloquent(DecoderOnly, PROMPTS)
    written = {token for text, prompt in zip(said, PROMPTS, strict=True) for token in text[len(prompt) : -1]}
    pad_id = min(written - {token for prompt in PROMPTS for token in prompt})
    model, want = eloquent(DecoderOnly, PROMPTS, pad_id=pad_id)  # no prompt is padded, so it says the same
    assert want == said
    for prompt, text in zip(PROMPTS, want, strict=True):
        for use_cache in (False, True):
            assert greedy(model, torch.tensor([prompt]), NEW, use_cache=use_cache).tolist() == [text]


def test_modes_come_back_and_nothing_is_recorded():
    model = lively(DecoderOnly, dropout=0.5)
    want = greedy(model, torch.tensor([[3]]), NEW)
    model.train()
    model.decoder.blocks[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    with torch.enable_grad():
        for write in (greedy, sample, beam_search):
            write(model, torch.tensor([[3]]), 3)
        assert torch.equal(greedy(model, torch.tensor([[3]]), NEW), want)  # without dropout
        assert torch.is_grad_enabled()
        beams = beam_search(model, torch.tensor([[3]]), 3)
    assert not beams.log_probs.requires_grad
    assert {name: module.training for name, module in model.named_modules()} == modes
    model.decoder.forward = lambda *args, **options: 1 / 0
    with pytest.raises(ZeroDivisionError):
        greedy(model, torch.tensor([[3]]), 3)
    assert {name: module.training for name, module in model.named_modules()} == modes


def test_learned_positions_that_end_are_refused_before_writing():
    model = lively(DecoderOnly, positions="learned", max_length=6)
    prompt = torch.tensor([[3, 4]])
    assert greedy(model, prompt, 5).shape == (1, 7)  # the last is not read again
    with pytest.raises(ValueError, match=r"max_new_tokens=6 after 2 tokens needs 7 positions, .* max_length is 6"):
        greedy(model, prompt, 6)
    ids, real = pad_left([[3, 4]])
    ids, real = (torch.cat([x.new_zeros(1, 4), x], 1) for x in (ids, real))  # padding needs none
    assert greedy(model, ids, 5, real=real)[0, 4:].tolist() == greedy(model, prompt, 5)[0].tolist()


def test_an_empty_batch_has_nothing_to_write():
    model, both = lively(DecoderOnly), lively(Seq2SeqTransformer)
    none, source = torch.zeros(0, 2).long(), torch.zeros(0, 3).long()
    for write in (greedy, sample, lambda *given, **options: beam_search(*given, **options).ids[:, 0]):
        assert write(model, none, 3).shape == (0, 2)
        assert write(both, none, 3, source=source).shape == (0, 2)


# --- sample ---


@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, lambda logits: logits.softmax(-1)),
        ({"temperature": 0.5}, lambda logits: (2 * logits).softmax(-1)),
        ({"temperature": 3.0}, lambda logits: (logits / 3).softmax(-1)),
        ({"top_k": 3}, lambda logits: shares(logits.softmax(-1), 3)),
        ({"top_p": 0.8}, lambda logits: shares(logits.softmax(-1), mass(logits, 0.8))),
        ({"top_k": 5, "top_p": 0.7, "temperature": 2.0}, lambda logits: both(logits / 2, 5, 0.7)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_frequencies_are_the_probabilities(
    options: dict, rule: Callable[[Tensor], Tensor], use_cache: bool, device: str
):
    """Chi-square over 20,000 draws of a first token, and of a second one given the first; 8 degrees at most."""
    model, draws = lively(DecoderOnly, device), 20_000
    with torch.no_grad():
        want = rule(model(torch.tensor([[3, 5]], device=device))[0, -1].double())
    prompt = torch.tensor([[3, 5]], device=device).expand(draws, 2)
    texts = sample(model, prompt, 2, seed=0, use_cache=use_cache, **options)
    first, second = texts[:, 2], texts[:, 3]
    check_frequencies(first, want)
    common = int(want.argmax())
    with torch.no_grad():
        after = rule(model(torch.tensor([[3, 5, common]], device=device))[0, -1].double())
    check_frequencies(second[first == common], after)


def check_frequencies(drawn: Tensor, want: Tensor) -> None:
    counts = torch.bincount(drawn, minlength=VOCABULARY).double()
    assert len(drawn) > 2000
    assert (counts[want == 0] == 0).all()
    expected = want * len(drawn)
    likely = expected > 5
    statistic = ((counts - expected)[likely].square() / expected[likely]).sum()
    assert statistic < 33  # chi-square with 8 degrees of freedom: 26.1 at one in a thousand
    wrong = torch.full_like(want, 1 / VOCABULARY) * len(drawn)
    assert ((counts - wrong).square() / wrong).sum() > 100  # and the bound can tell


def shares(probabilities: Tensor, count: int) -> Tensor:
    """The ``count`` likeliest, by sorting."""
    order = probabilities.argsort(descending=True)
    kept = torch.zeros_like(probabilities)
    kept[order[:count]] = probabilities[order[:count]]
    return kept / kept.sum()


def mass(logits: Tensor, p: float) -> int:
    total, count = 0.0, 0
    for probability in logits.softmax(-1).sort(descending=True).values.tolist():
        if total >= p:
            break
        total, count = total + probability, count + 1
    return count


def both(logits: Tensor, k: int, p: float) -> Tensor:
    first = shares(logits.softmax(-1), k)
    return shares(first, mass(first.log(), p))


def test_towards_cold_it_is_greedy():
    model = lively(DecoderOnly)
    ids, real = pad_left(PROMPTS)
    want = greedy(model, ids, NEW, real=real)
    for options in ({"temperature": 1e-6}, {"temperature": 1e-300}, {"top_k": 1}, {"top_p": 0.0}):
        assert torch.equal(sample(model, ids, NEW, real=real, **options), want)


def test_seeds_and_generators(device: str):
    model, prompt = lively(DecoderOnly, device), torch.tensor([[3]], device=device).expand(20, 1)
    before = torch.random.get_rng_state()
    one, again, other = (sample(model, prompt, NEW, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one[0], one[1])
    assert torch.equal(torch.random.get_rng_state(), before)  # a generator of its own
    generator = torch.Generator(device).manual_seed(7)
    assert torch.equal(sample(model, prompt, NEW, seed=generator), one)
    assert not torch.equal(sample(model, prompt, NEW, seed=generator), one)  # it has gone on
    torch.manual_seed(7)
    one = sample(model, prompt, NEW)
    torch.manual_seed(7)
    assert torch.equal(sample(model, prompt, NEW), one)


def test_samples_are_the_same_with_a_cache_and_without():
    for kind, options in ((DecoderOnly, {}), (Seq2SeqTransformer, {"source": torch.tensor(SOURCES[:1] * 3)})):
        model = lively(kind)
        ids, real = pad_left(PROMPTS)
        cached, plain = (sample(model, ids, NEW, real=real, seed=3, use_cache=use, **options) for use in (True, False))
        assert torch.equal(cached, plain)


def test_a_sample_ends_too():
    model = lively(DecoderOnly)
    texts = sample(model, torch.tensor([[3]]).expand(200, 1), 30, end_id=2, seed=0)[:, 1:]
    ended = (texts == 2).long().cumsum(-1)
    assert ended[:, -1].gt(0).any()
    assert (texts[ended > 0] == 2).all()


# --- pad_left ---


def test_pad_left(device: str):
    ids, real = pad_left([[1, 2, 3], torch.tensor([4]), (5, 6)], pad_id=9, device=device)
    assert ids.tolist() == [[1, 2, 3], [9, 9, 4], [9, 5, 6]]
    assert real.tolist() == [[True] * 3, [False, False, True], [False, True, True]]
    assert ids.dtype is torch.int64
    assert ids.device.type == real.device.type == device
    assert pad_left([])[0].shape == pad_left([])[1].shape == (0, 0)


def test_a_prompt_padded_on_the_right_is_refused():
    model = lively(DecoderOnly, pad_id=0)
    with pytest.raises(ValueError, match="padded on the left"):
        greedy(model, torch.tensor([[3, 0]]), 2)
    with pytest.raises(ValueError, match="padded on the left"):
        beam_search(lively(DecoderOnly), torch.tensor([[3, 4]]), 2, real=torch.tensor([[True, False]]))
    real = torch.ones(1, 2, dtype=torch.bool)  # told that it is no padding
    assert greedy(model, torch.tensor([[3, 0]]), 2, real=real).shape == (1, 4)
