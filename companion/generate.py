r"""Writing: one token after the other, each chosen from what the model thinks likely after all before it.

.. math:: x_{t+1} \sim p(\cdot \mid x_{\le t}) = \operatorname{softmax}(\text{logits}_t / T)

All functions take texts of different lengths at once, padded on the left (:func:`pad_left`), and write what each text
alone would get. They need neither ``model.eval()`` nor ``torch.no_grad()`` around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from companion import check, filters
from companion.beam import Beams, beam_search
from companion.models import DecoderOnly, Seq2SeqTransformer
from companion.typing import Bool, Int
from companion.writer import Writer, evaluating

__all__ = ["Beams", "beam_search", "greedy", "pad_left", "sample"]


def pad_left(
    rows: Sequence[Sequence[int] | Tensor], pad_id: int = 0, *, device: torch.device | str | None = None
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Make one table of texts of different lengths, with the padding before them.

    Args:
        rows: ids, at least one a text.
        pad_id: what to fill up with; it is masked.
        device: where to make the table; the CPU if not given.

    Returns:
        Ids ``(B, L)``, and ``real (B, L)``, ``True`` for a real token.

    Raises:
        TypeError: no integers.
        ValueError: an empty text, or a negative id.

    Example:
        >>> pad_left([[5, 6], [7]])
        (tensor([[5, 6],
                [0, 7]]), tensor([[ True,  True],
                [False,  True]]))
    """
    filler, place = check.integer("pad_id", pad_id, minimum=0), check.device("device", device)
    texts = [_checked_row(i, row) for i, row in enumerate(_checked_rows(rows))]
    longest = max((len(text) for text in texts), default=0)
    ids = torch.full((len(texts), longest), filler)
    real = torch.zeros(len(texts), longest, dtype=torch.bool)
    for i, text in enumerate(texts):
        ids[i, longest - len(text) :] = text
        real[i, longest - len(text) :] = True
    return ids.to(place), real.to(place)


def greedy(
    model: DecoderOnly | Seq2SeqTransformer,
    prompt: Int[Tensor, "B L"],
    max_new_tokens: int,
    *,
    end_id: int | None = None,
    real: Bool[Tensor, "B L"] | None = None,
    source: Int[Tensor, "B S"] | None = None,
    source_real: Bool[Tensor, "B S"] | None = None,
    use_cache: bool = True,
) -> Int[Tensor, "B T"]:
    """Always take the likeliest token.

    Args:
        model: what scores.
        prompt: what the texts begin with, ``(B, L)``, padded on the left; for an encoder-decoder its start token.
        max_new_tokens: how many to write at most.
        end_id: the token that ends a text.
        real: ``True`` for a real token of the prompt; if not given, all but ``pad_id``.
        source: what an encoder-decoder reads, ``(B, S)``.
        source_real: ``True`` for a real token of the source; if not given, all but ``pad_id``.
        use_cache: keep keys and values; the same texts, faster.

    Returns:
        The prompt and what was written, ``(B, L + n)``, int64, with ``n`` up to ``max_new_tokens``: less, if all texts
        have ended. One that has ended is filled up with the model's ``pad_id``, or with ``end_id`` if it has none.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: shapes or ids that do not fit, a prompt that is empty or not padded on the left, more tokens than
            learned positions, or a source where there is nothing to read it, or none where there is.

    Example:
        >>> from companion.models import TransformerConfig
        >>> gpt = DecoderOnly(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> greedy(gpt, torch.tensor([[1, 2, 3]]), 4).shape
        torch.Size([1, 7])
    """
    options = {"end_id": end_id, "real": real, "source": source, "source_real": source_real, "use_cache": use_cache}
    return _write(model, prompt, max_new_tokens, lambda logits: logits.argmax(-1), **options)


def sample(
    model: DecoderOnly | Seq2SeqTransformer,
    prompt: Int[Tensor, "B L"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | torch.Generator | None = None,
    end_id: int | None = None,
    real: Bool[Tensor, "B L"] | None = None,
    source: Int[Tensor, "B S"] | None = None,
    source_real: Bool[Tensor, "B S"] | None = None,
    use_cache: bool = True,
) -> Int[Tensor, "B T"]:
    """Draw each token with its probability.

    Args:
        model: what scores.
        prompt: what the texts begin with; see ``greedy``.
        max_new_tokens: how many to write at most.
        temperature: ``T``, which divides the scores: towards 0 it is ``greedy``, above 1 bolder than the model.
        top_k: draw from the ``top_k`` likeliest only; see :func:`companion.filters.top_k`.
        top_p: of those, draw from the likeliest that make up ``top_p`` together; see :func:`companion.filters.top_p`.
        seed: a number, to start a generator of its own; or a generator on the model's device, to go on with. If not
            given, PyTorch's own is used. What one text gets depends on what else is in the batch.
        end_id: the token that ends a text.
        real: see ``greedy``.
        source: see ``greedy``.
        source_real: see ``greedy``.
        use_cache: see ``greedy``.

    Returns:
        The prompt and what was written, as from ``greedy``.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a number out of range, a generator elsewhere, or what ``greedy`` refuses.

    Example:
        >>> from companion.models import TransformerConfig
        >>> gpt = DecoderOnly(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> one, two = (sample(gpt, torch.tensor([[1]]), 5, seed=0) for _ in range(2))
        >>> torch.equal(one, two)
        True
    """
    heat = max(check.positive("temperature", temperature), 1e-30)  # colder would be 0 in float32
    if top_k is not None:
        check.integer("top_k", top_k)
    if top_p is not None:
        check.probability("top_p", top_p)
    source_of_chance = _generator(seed, prompt)

    def draw(logits: Tensor) -> Tensor:
        scores = (logits - logits.amax(-1, keepdim=True)) / heat  # the largest is 0, so that none overflows
        if top_k is not None:
            scores = filters.top_k(scores, top_k)
        if top_p is not None:
            scores = filters.top_p(scores, top_p)
        return torch.multinomial(scores.softmax(-1), 1, generator=source_of_chance).squeeze(-1)

    options = {"end_id": end_id, "real": real, "source": source, "source_real": source_real, "use_cache": use_cache}
    return _write(model, prompt, max_new_tokens, draw, **options)


def _write(
    model: DecoderOnly | Seq2SeqTransformer,
    prompt: Tensor,
    max_new_tokens: int,
    choose: Callable[[Tensor], Tensor],
    **options: Any,
) -> Tensor:
    with evaluating(model):
        writer = Writer(model, prompt, max_new_tokens, **options)
        while not writer.finished:
            writer.write(choose(writer.logits()))
    return writer.texts


def _generator(seed: int | torch.Generator | None, prompt: Tensor) -> torch.Generator | None:
    if seed is None:
        return None
    device = check.tensor("prompt", prompt).device
    if not isinstance(seed, torch.Generator):
        number = check.integer("seed", seed, minimum=0)
        if number >= 2**64:
            raise ValueError(f"seed must be less than 2**64, got {number}")
        return torch.Generator(device).manual_seed(number)
    if seed.device.type != device.type:
        raise ValueError(f"seed must be a generator on the device of prompt, {device}, got one on {seed.device}")
    return seed


def _checked_rows(rows: object) -> Sequence[object]:
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Sequence):
        raise TypeError(f"rows must be a sequence of sequences of ids, got {type(rows).__name__}")
    return rows


def _checked_row(i: int, row: object) -> Tensor:
    text = check.int_or_bool(f"rows[{i}]", row, "L")
    if text.dtype is torch.bool:
        raise TypeError(f"rows[{i}] must be ids, got torch.bool")
    if not len(text):
        raise ValueError(f"rows[{i}] must hold at least one id, got none")
    return text
