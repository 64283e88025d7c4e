r"""Beam search: keep the best few beginnings at each step, not only the very best.

The likeliest text need not begin with the likeliest token. To look at all texts is out of the question; beam search
looks on from the ``num_beams`` best beginnings. Products of probabilities shrink with every token, so texts of
different lengths are compared with a correction (Wu et al., 2016, equation 14):

.. math:: s(y) = \frac{\log p(y \mid x)}{\text{lp}(\lvert y \rvert)}, \qquad
   \text{lp}(n) = \Bigl(\frac{5 + n}{6}\Bigr)^{\alpha}
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from companion import check
from companion.models import DecoderOnly, Seq2SeqTransformer
from companion.typing import Bool, Float, Int
from companion.writer import Writer, evaluating

__all__ = ["Beams", "beam_search"]


class Beams(NamedTuple):
    """Texts, best first.

    Attributes:
        ids: prompt and what was written, ``(B, K, L + n)``; a text that has ended is filled up.
        log_probs: of what was written after the prompt, its ``end_id`` included, ``(B, K)``. Where there are fewer
            texts than beams, the rest have minus infinity.
        scores: the same with the length penalty, ``(B, K)``.
    """

    ids: Int[Tensor, "B K T"]
    log_probs: Float[Tensor, "B K"]
    scores: Float[Tensor, "B K"]


def beam_search(
    model: DecoderOnly | Seq2SeqTransformer,
    prompt: Int[Tensor, "B L"],
    max_new_tokens: int,
    *,
    num_beams: int = 4,
    length_penalty: float = 0.0,
    end_id: int | None = None,
    real: Bool[Tensor, "B L"] | None = None,
    source: Int[Tensor, "B S"] | None = None,
    source_real: Bool[Tensor, "B S"] | None = None,
    use_cache: bool = True,
) -> Beams:
    """Look for likely texts.

    A text that has ended keeps its place for as long as it is among the best. With one beam this is ``greedy``; with
    as many as there are texts, it finds the likeliest of all.

    Args:
        model: what scores.
        prompt: what the texts begin with, ``(B, L)``, padded on the left; for an encoder-decoder its start token.
        max_new_tokens: how many to write at most.
        num_beams: ``K``.
        length_penalty: alpha, from 0 to 10. 0 compares plain log-probabilities, which favours short texts; 0.6 is
            usual in translation.
        end_id: the token that ends a text.
        real: ``True`` for a real token of the prompt; if not given, all but ``pad_id``.
        source: what an encoder-decoder reads, ``(B, S)``.
        source_real: ``True`` for a real token of the source; if not given, all but ``pad_id``.
        use_cache: keep keys and values; the same texts, faster.

    Returns:
        Texts, log-probabilities and scores, best first. Fewer than ``num_beams`` where there are not as many beginnings
        (``V ** n``).

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a number out of range, or what ``greedy`` refuses.

    Example:
        >>> from companion.models import TransformerConfig
        >>> gpt = DecoderOnly(TransformerConfig(vocab_size=10, d_model=8, num_heads=2))
        >>> beam_search(gpt, torch.tensor([[1, 2, 3]]), 4, num_beams=2).ids.shape
        torch.Size([1, 2, 7])

    Source: Wu et al., "Google's Neural Machine Translation System", 2016 (arXiv:1609.08144), section 7; alpha 0.6 with
    4 beams in Vaswani et al., 2017 (arXiv:1706.03762), section 6.1.
    """
    width = check.integer("num_beams", num_beams)
    alpha = check.real("length_penalty", length_penalty)
    if not 0 <= alpha <= 10:
        raise ValueError(f"length_penalty must be from 0 to 10, got {alpha}")
    options: dict[str, Any] = {"end_id": end_id, "real": real, "source": source, "source_real": source_real}
    with evaluating(model):
        writer = Writer(model, prompt, max_new_tokens, **options, use_cache=use_cache)
        batch = prompt.shape[0]
        total = torch.zeros(batch, 1, device=prompt.device)  # log-probability of each beam, (B, K)
        length = torch.zeros_like(total)
        scores = total
        first = torch.arange(batch, device=prompt.device).unsqueeze(1)
        while not writer.finished:
            beams, done = total.shape[1], writer.done.view(total.shape)
            step = writer.logits().log_softmax(-1).unflatten(0, total.shape)  # (B, K, V)
            step = step.masked_fill(done.unsqueeze(-1), -math.inf)
            step[..., writer.fill].masked_fill_(done, 0.0)  # one way to go on from an end, at no cost
            longer = length + ~done
            grown = (total.unsqueeze(-1) + step).flatten(1)  # (B, K·V)
            ranked = grown / _penalty(longer, alpha).repeat_interleave(step.shape[-1], dim=1)
            scores, chosen = ranked.topk(min(width, grown.shape[1]), dim=1)  # (B, K')
            parent, token = chosen.div(step.shape[-1], rounding_mode="floor"), chosen % step.shape[-1]
            total, length = grown.gather(1, chosen), longer.gather(1, parent)
            writer.take((parent + first * beams).flatten())
            writer.write(token.flatten())
    return Beams(writer.texts.unflatten(0, total.shape), total, scores)


def _penalty(length: Float[Tensor, "B K"], alpha: float) -> Float[Tensor, "B K"]:
    return ((5 + length) / 6) ** alpha
