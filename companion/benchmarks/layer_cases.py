"""Whole layers and models: multi-head attention beside PyTorch's, and decoding with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from companion.benchmarks.duel import duel, judged
from companion.benchmarks.results import Row
from companion.benchmarks.settings import Job, Settings, number
from companion.benchmarks.subjects import forward, forward_backward
from companion.benchmarks.timing import spread
from companion.models import DecoderOnly, TransformerConfig
from companion.multihead import MultiHeadAttention

__all__: list[str] = []

LAYER = "nn.MultiheadAttention(need_weights=False)"

Run = Callable[[], object]


def of_multihead(settings: Settings) -> Iterator[Job]:
    """``MultiHeadAttention`` beside ``nn.MultiheadAttention``, whose fast path for evaluation is on."""
    for n in settings.sizes.layer:
        goal = settings.goal(1.0, here=n == 4096)
        for what, run in (
            ("training", _training),
            ("inference", partial(_inference, fast=True)),
            ("inference, their fast path off", partial(_inference, fast=False)),
        ):
            judge = goal if "off" not in what else None
            row = Row("multihead", f"{what}, n = {number(n)}", "MultiHeadAttention", LAYER, goal=judge)
            yield Job("multihead", row.what, partial(run, settings, row, n), judge, (row.ours, row.theirs))


def of_decoding(settings: Settings) -> Iterator[Job]:
    """A token with a cache: late beside early, and beside a run of the whole text."""
    sizes = settings.sizes
    first, last = sizes.decode_at[0], sizes.decode_at[-1]
    flat = settings.goal(1.1, here=last >= 1024)
    few = max(1, sizes.heads // 4)
    for what, goal, options in (
        (f"vocabulary of {number(sizes.vocabulary)}", flat, {"vocab_size": sizes.vocabulary}),
        (f"vocabulary of {number(sizes.small_vocabulary)}", None, {}),
        (f"vocabulary of {number(sizes.small_vocabulary)}, G = {few}", None, {"num_kv_heads": few}),
    ):
        name = f"token {number(last)} beside token {first}, {what}"
        row = Row("decoding", name, f"at {number(last)}", f"at {first}", goal=goal)
        yield Job("decoding", name, partial(_flatness, settings, row, options), goal, (row.ours, row.theirs))
    much = settings.goal(15.0, at_most=False, here=last >= 1024)
    name = f"token {number(last)}, cached or not, vocabulary of {number(sizes.small_vocabulary)}"
    row = Row("decoding", name, "with KVCache", "all computed again", measure="speedup", goal=much)
    yield Job("decoding", name, partial(_against_recomputing, settings, row), much, (row.ours, row.theirs))


def _layers(settings: Settings) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    heads = settings.sizes.heads
    width = heads * settings.sizes.width
    torch.manual_seed(0)
    ours = MultiHeadAttention(width, heads)
    theirs = nn.MultiheadAttention(width, heads, batch_first=True)
    return ours.to(settings.device, settings.dtype), theirs.to(settings.device, settings.dtype)


def _training(settings: Settings, row: Row, length: int) -> list[Row]:
    ours, theirs = _layers(settings)
    x = settings.random(1, length, settings.sizes.heads * settings.sizes.width).requires_grad_()
    one = forward_backward(ours, [x], [*ours.parameters()])
    two = forward_backward(partial(_attention_of, theirs), [x], [*theirs.parameters()])
    return [duel(settings, row, one, two)]


def _inference(settings: Settings, row: Row, length: int, *, fast: bool) -> list[Row]:
    ours, theirs = _layers(settings)
    ours.eval(), theirs.eval()
    x = settings.random(1, length, settings.sizes.heads * settings.sizes.width)
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        return [duel(settings, row, forward(ours, [x]), forward(partial(_attention_of, theirs), [x]))]
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _attention_of(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
    output: Tensor = layer(x, x, x, need_weights=False)[0]
    return output


def _decoder(settings: Settings, options: dict[str, Any]) -> tuple[DecoderOnly, Tensor]:
    """A small GPT with random weights, and a text to read."""
    sizes = settings.sizes
    width = sizes.heads * sizes.width
    chosen: dict[str, Any] = {"vocab_size": sizes.small_vocabulary} | options
    config = TransformerConfig(d_model=width, num_heads=sizes.heads, num_layers=sizes.decode_layers, **chosen)
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(config.vocab_size, (1, sizes.decode_at[-1] + 1), generator=generator)
    torch.manual_seed(0)
    return DecoderOnly(config).to(settings.device, settings.dtype).eval(), text.to(settings.device)


def _step(model: DecoderOnly, text: Tensor, position: int) -> Run:
    """Write one token after so many; then step back, so that the next call does the same."""
    cache = model.new_cache(text.shape[1])
    with torch.no_grad():
        model(text[:, :position], cache=cache)
    token = text[:, position : position + 1]

    def run() -> object:
        with torch.no_grad():
            logits = model(token, cache=cache)
        cache.crop(position)
        return logits

    return run


def _whole(model: DecoderOnly, text: Tensor, position: int) -> Run:
    return forward(model, [text[:, : position + 1]])


def _flatness(settings: Settings, row: Row, options: dict[str, int]) -> list[Row]:
    model, text = _decoder(settings, options)
    where = settings.sizes.decode_at
    times = settings.race({str(p): _step(model, text, p) for p in where})
    points = [(p, spread(times[str(p)]).median) for p in where]
    filled = judged(settings, row, times[str(where[-1])], times[str(where[0])])
    return [filled if options else replace(filled, series={"with KVCache": points})]


def _against_recomputing(settings: Settings, row: Row) -> list[Row]:
    model, text = _decoder(settings, {})
    where = settings.sizes.decode_at
    last = where[-1]
    contenders = {str(p): _whole(model, text, p) for p in where} | {"cached": _step(model, text, last)}
    times = settings.race(contenders)
    points = [(p, spread(times[str(p)]).median) for p in where]
    filled = judged(settings, row, times["cached"], times[str(last)])
    return [replace(filled, series={row.theirs: points})]
