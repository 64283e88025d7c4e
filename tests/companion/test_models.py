"""The three models: what reaches which row, with padding on either side; embeddings, sizes and errors."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from companion.config import POSITIONS
from companion.models import DecoderOnly, EncoderOnly, Seq2SeqTransformer, TransformerConfig
from companion.multihead import MultiHeadAttention

VOCABULARY, PAD = 11, 0
EXACT = {"rtol": 0, "atol": 1e-11}  # in float64
every_position = pytest.mark.parametrize("positions", POSITIONS)

# Beside the positions, which every test goes through: all other choices, at least once.
STYLES: dict[str, dict[str, Any]] = {
    "today": {},
    "2017": {"norm_first": False, "activation": "relu", "embedding_scale": True, "tie_embeddings": False},
    "llama": {"norm": "rms", "activation": "swiglu", "bias": False, "num_kv_heads": 2, "tie_embeddings": False},
    "multi-query": {"num_kv_heads": 1, "embedding_norm": True, "activation": "gelu_tanh"},
}
every_style = pytest.mark.parametrize("style", STYLES)
every_kind = pytest.mark.parametrize(
    ("positions", "style"),
    [(positions, "today") for positions in POSITIONS] + [("rotary", style) for style in STYLES if style != "today"],
)


def config(positions: str = "rotary", style: str = "today", **options: Any) -> TransformerConfig:
    chosen = {"vocab_size": VOCABULARY, "d_model": 16, "num_layers": 3, "max_length": 32, "positions": positions}
    return TransformerConfig(**(chosen | STYLES[style] | options))


def alive(model: nn.Module, device: str = "cpu") -> Any:
    """Parameters large enough that whatever leaks is seen, and no bias of zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.to(device).double().eval()


def ids(*shape: int, device: str = "cpu") -> Tensor:
    return torch.randint(1, VOCABULARY, shape, device=device)


def padded(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    longest = max(len(row) for row in rows)
    table, real = torch.full((len(rows), longest), PAD), torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(longest - len(row), longest) if side == "left" else slice(0, len(row))
        table[i, place], real[i, place] = row, True
    return table.to(rows[0].device), real.to(rows[0].device)


# --- padding ---


@every_kind
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("told", [False, True])
def test_padding_changes_nothing_in_valid_rows(positions: str, style: str, side: str, told: bool, device: str):
    """Each text in the batch gives what it gives alone, whether the padding is told or found by its id."""
    chosen = config(positions, style, pad_id=None if told else PAD)
    rows = [ids(length, device=device) for length in (3, 7, 1)]
    table, real = padded(rows, side)
    given = {"real": real} if told else {}
    for model in (alive(DecoderOnly(chosen), device), alive(EncoderOnly(chosen), device)):
        batched = model(table, **given)
        for i, row in enumerate(rows):
            torch.testing.assert_close(batched[i, real[i]], model(row[None])[0], **EXACT)
    model, targets = alive(Seq2SeqTransformer(chosen), device), [ids(length, device=device) for length in (4, 2, 6)]
    written, real_target = padded(targets, side)
    given = {"source_real": real, "target_real": real_target} if told else {}
    batched = model(table, written, **given)
    for i, (row, target) in enumerate(zip(rows, targets, strict=True)):
        torch.testing.assert_close(batched[i, real_target[i]], model(row[None], target[None])[0], **EXACT)


@every_position
def test_padding_by_its_id_and_told_are_the_same(positions: str):
    table, real = padded([ids(3), ids(7)], "left")
    plain, knowing = alive(DecoderOnly(config(positions))), DecoderOnly(config(positions, pad_id=PAD)).double()
    knowing.load_state_dict(plain.state_dict())
    assert torch.equal(plain(table, real=real), knowing(table))
    assert not torch.allclose(plain(table), knowing(table))  # without, the padding is read as text
    everything = torch.ones_like(real)
    torch.testing.assert_close(knowing(table, real=everything), plain(table), **EXACT)  # what is told goes first


def test_padding_within_a_text_is_stepped_over():
    model, text = alive(DecoderOnly(config())), ids(5)
    table = torch.tensor([[*text[:2], PAD, PAD, *text[2:]]])
    real = torch.tensor([[True, True, False, False, True, True, True]])
    torch.testing.assert_close(model(table, real=real)[0, real[0]], model(text[None])[0], **EXACT)


# --- who sees whom ---


@every_kind
def test_the_future_does_not_leak(positions: str, style: str):
    text, source = ids(1, 6), ids(1, 4)
    decoder, both = alive(DecoderOnly(config(positions, style))), alive(Seq2SeqTransformer(config(positions, style)))
    for run in (decoder, lambda t: both(source, t)):
        before = run(text)
        for t in range(6):
            changed = text.clone()
            changed[0, t] = changed[0, t] % (VOCABULARY - 1) + 1
            after = run(changed)
            assert torch.equal(after[:, :t], before[:, :t])
            assert all((after[0, i] - before[0, i]).abs().max() > 1e-4 for i in range(t, 6))


@every_position
def test_an_encoder_looks_both_ways(positions: str):
    model, text = alive(EncoderOnly(config(positions))), ids(1, 6)
    before = model(text)
    changed = text.clone()
    changed[0, 3] = changed[0, 3] % (VOCABULARY - 1) + 1
    assert ((model(changed) - before).abs().amax(-1) > 1e-4).all()


@pytest.mark.parametrize("positions", [name for name in POSITIONS if name != "none"])
def test_order_matters_but_where_there_are_no_positions(positions: str):
    text = torch.tensor([[1, 2, 3, 4]])
    swapped = text[:, [1, 0, 2, 3]]
    model, blind = alive(EncoderOnly(config(positions))), alive(EncoderOnly(config("none")))
    assert (model(text)[0, 3] - model(swapped)[0, 3]).abs().max() > 1e-5
    torch.testing.assert_close(blind(text)[0, [1, 0, 2, 3]], blind(swapped)[0], **EXACT)


@every_position
def test_cross_attention_sees_the_whole_memory_and_its_padding_only(positions: str):
    """Source and target of different lengths, padding in the source alone."""
    model, target = alive(Seq2SeqTransformer(config(positions))), ids(2, 3)
    source, real = padded([ids(5), ids(2)], "right")
    memory = model.encode(source, source_real=real)
    before = model.decode(target, memory, source_real=real)
    spoiled = memory.masked_fill(~real.unsqueeze(-1), 7.0)
    torch.testing.assert_close(model.decode(target, spoiled, source_real=real), before, rtol=0, atol=0)
    for s in range(5):
        changed = memory.clone()
        changed[0, s] += 1
        moved = (model.decode(target, changed, source_real=real) - before).abs().amax(-1)
        assert (moved[0] > 1e-4).all()
        assert (moved[1] == 0).all()
    torch.testing.assert_close(model(source, target, source_real=real), before)


def test_a_memory_does_not_show_its_padding():
    model, source, target = alive(Seq2SeqTransformer(config(pad_id=PAD))), ids(1, 4), ids(1, 2)
    memory = model.encode(source)
    with pytest.raises(ValueError, match="source_real must be given where the config has pad_id=0"):
        model.decode(target, memory)
    torch.testing.assert_close(model.decode(target, memory, source_real=source != PAD), model(source, target))


def test_alibi_by_hand():
    """A model that looks at nothing but the distance: queries and keys of zero, so weights are a softmax of −m·d."""
    chosen = config("alibi", num_layers=1, num_heads=1, bias=False)
    model = DecoderOnly(chosen).double()
    block = model.decoder.blocks[0]
    with torch.no_grad():
        block.attention.W_Q.weight.zero_()
        nn.init.eye_(block.attention.W_V.weight)
        nn.init.eye_(block.attention.W_O.weight)
        block.feed_forward.W_2.weight.zero_()
        text = ids(1, 4)
        x = model.embedding.tokens(text)  # scaled and placed by nothing
        normed = nn.functional.layer_norm(x, (16,))
        slope = 2.0**-8
        for t in range(4):
            weights = torch.softmax(torch.tensor([-slope * (t - j) for j in range(t + 1)], dtype=torch.float64), 0)
            stream = x[0, t] + weights @ normed[0, : t + 1]
            want = nn.functional.layer_norm(stream, (16,)) @ model.embedding.tokens.weight.T
            torch.testing.assert_close(model(text)[0, t], want, **EXACT)


# --- embeddings, sizes, errors ---


def test_tied_embeddings_share_storage_and_gradient():
    text = ids(2, 5)
    for kind in (DecoderOnly, Seq2SeqTransformer):
        run = (lambda m: m(text)) if kind is DecoderOnly else (lambda m: m(text, text))
        tied, free = kind(config()), kind(config(tie_embeddings=False))
        sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (tied, free)]
        assert tied.head is None
        assert sizes[1] - sizes[0] == VOCABULARY * 16
        run(tied).logsumexp(-1).sum().backward()
        unseen = [token for token in range(VOCABULARY) if token not in text]
        assert tied.embedding.tokens.weight.grad[unseen].abs().min() > 0  # by the output alone
        run(free).logsumexp(-1).sum().backward()
        assert (free.embedding.tokens.weight.grad[unseen] == 0).all()
    bert = EncoderOnly(config(), masked_lm=True)
    hidden = torch.randn(1, 2, 16)
    want = bert.head(hidden) @ bert.embedding.tokens.weight.T + bert.head.bias
    torch.testing.assert_close(bert.logits(hidden), want)
    with pytest.raises(ValueError, match="masked_lm=True"):
        EncoderOnly(config()).logits(hidden)


def test_token_types_are_added():
    model, text = alive(EncoderOnly(config(num_token_types=2))), ids(1, 4)
    kinds = torch.tensor([[0, 0, 1, 1]])
    plain = model(text)
    torch.testing.assert_close(model(text, token_types=torch.zeros_like(kinds)), plain)
    assert not torch.allclose(model(text, token_types=kinds), plain)
    got = model.embedding(text, token_types=kinds) - model.embedding(text)
    rows = model.embedding.types.weight
    torch.testing.assert_close(got[0, 2:], (rows[1] - rows[0]).expand(2, 16))
    assert (got[0, :2] == 0).all()
    with pytest.raises(ValueError, match="num_token_types=0"):
        EncoderOnly(config())(text, token_types=kinds)
    with pytest.raises(ValueError, match="token_types must be from 0 to 1, got 2"):
        model(text, token_types=kinds + 1)
    with pytest.raises(ValueError, match="token_types must have the shape of ids"):
        model(text, token_types=kinds[:, :3])


def test_learned_positions_end_and_others_do_not():
    for positions in POSITIONS:
        model = alive(DecoderOnly(config(positions, max_length=4)))
        cache = model.new_cache(8)
        model(ids(1, 4), cache=cache)
        if positions == "learned":
            with pytest.raises(ValueError, match="vectors for 0 to 3 only"):
                model(ids(1, 5))
            with pytest.raises(ValueError, match="vectors for 0 to 3 only"):
                model(ids(1, 1), cache=cache)
            table, real = padded([ids(4), ids(2)], "left")
            model(torch.cat([table[:, :1] * 0, table], 1), real=torch.cat([real[:, :1] & False, real], 1))
        else:
            assert model(ids(1, 5)).shape == (1, 5, VOCABULARY)


def test_embeddings_are_scaled_where_positions_are_sinusoidal():
    for positions in POSITIONS:
        model = DecoderOnly(config(positions))
        x = model.embedding(torch.tensor([[3]]))[0, 0]
        row = model.embedding.tokens.weight[3]
        if positions == "sinusoidal":  # position 0: sin 0, cos 0
            torch.testing.assert_close(x, row * 4 + torch.tensor([0.0, 1.0] * 8))
        elif positions == "learned":
            torch.testing.assert_close(x, row + model.embedding.positions.table.weight[0])
        else:
            torch.testing.assert_close(x, row)


@every_position
@pytest.mark.parametrize("shape", [(0, 3), (2, 1), (1, 0), (0, 0)], ids=str)
def test_empty_batches_and_texts_of_one_token(positions: str, shape: tuple[int, int]):
    for pad in (None, PAD):
        chosen, text = config(positions, pad_id=pad), ids(*shape)
        assert DecoderOnly(chosen)(text).shape == (*shape, VOCABULARY)
        assert EncoderOnly(chosen)(text).shape == (*shape, 16)
        both = Seq2SeqTransformer(chosen)
        assert both(ids(shape[0], 2), text).shape == (*shape, VOCABULARY)
        assert both(text, ids(shape[0], 2)).shape == (shape[0], 2, VOCABULARY)
        model = DecoderOnly(chosen)
        cache = model.new_cache(4)
        assert model(text, cache=cache).shape == (*shape, VOCABULARY)
        assert model(text[:, :1], cache=cache).shape == (shape[0], min(shape[1], 1), VOCABULARY)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
def test_ids_of_any_integer_dtype(dtype: torch.dtype):
    text = ids(2, 4)
    model, bert = alive(DecoderOnly(config())), alive(EncoderOnly(config(num_token_types=2)))
    assert torch.equal(model(text.to(dtype)), model(text))
    assert torch.equal(bert(text.to(dtype), token_types=(text % 2).to(dtype)), bert(text, token_types=text % 2))


def test_dropout_in_training_only():
    model, text = DecoderOnly(config(dropout=0.5)), ids(1, 5)
    assert not torch.equal(model(text), model(text))
    model.eval()
    assert torch.equal(model(text), model(text))


@every_style
def test_every_parameter_is_used_and_learns(style: str):
    text = ids(2, 5)
    chosen = config("learned", style, num_token_types=2, dropout=0.1)
    for model in (DecoderOnly(chosen), EncoderOnly(chosen, masked_lm=True), Seq2SeqTransformer(chosen)):
        if isinstance(model, EncoderOnly):
            scores = model.logits(model(text, token_types=text % 2))
        else:
            scores = model(text, text) if isinstance(model, Seq2SeqTransformer) else model(text)
        nn.functional.cross_entropy(scores.flatten(0, 1), text.flatten()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            if "W_K.bias" not in name:  # adds the same to all scores of a query
                assert parameter.grad.abs().max() > 0, name


def test_the_stream_keeps_its_size_with_depth():
    """Pre-LN blocks add to the stream; they start so small that a deep one is not larger than a shallow one."""
    for cross in (False, True):
        sizes = []
        for layers in (2, 24):
            chosen = config("none", num_layers=layers, d_model=64, embedding_scale=True)
            model, text = (Seq2SeqTransformer if cross else DecoderOnly)(chosen), ids(4, 16)
            stream = []
            model.decoder.norm.register_forward_pre_hook(lambda module, given, kept=stream: kept.append(given[0]))
            model(text, text) if cross else model(text)
            sizes.append(stream[0].std().item())
        assert sizes[1] == pytest.approx(sizes[0], rel=0.25)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"vocab_size": 0}, ValueError, "vocab_size must be at least 1, got 0"),
        ({"d_model": 16.0}, TypeError, "d_model must be an int, got float"),
        ({"d_model": 18}, ValueError, "d_model=18 must be a multiple of num_heads=4"),
        ({"d_model": 12, "positions": "rotary"}, ValueError, "d_head must be even"),
        ({"d_model": 15, "num_heads": 3, "positions": "sinusoidal"}, ValueError, "d_model must be even"),
        ({"num_kv_heads": 3}, ValueError, "num_heads=4 must be a multiple of num_kv_heads=3"),
        ({"num_layers": 0}, ValueError, "num_layers must be at least 1"),
        ({"num_decoder_layers": 0}, ValueError, "num_decoder_layers must be at least 1"),
        ({"positions": "absolute"}, ValueError, "positions must be one of sinusoidal, learned, rotary, alibi, none"),
        ({"activation": "tanh"}, ValueError, "activation must be one of"),
        ({"norm": "batch"}, ValueError, "must be one of layer, rms; got 'batch'"),
        ({"dropout": 1.5}, ValueError, "dropout must be between 0 and 1"),
        ({"eps": 0.0}, ValueError, "eps must be positive"),
        ({"rotary_base": 1, "positions": "rotary"}, ValueError, "base must be more than 1"),
        ({"pad_id": 11}, ValueError, "pad_id must be less than vocab_size=11, got 11"),
        ({"pad_id": -1}, ValueError, "pad_id must be at least 0"),
        ({"tie_embeddings": 1}, TypeError, "tie_embeddings must be True or False"),
        ({"embedding_scale": "yes"}, TypeError, "embedding_scale must be True or False"),
        ({"num_token_types": -1}, ValueError, "num_token_types must be at least 0"),
        ({"backend": "nobody"}, ValueError, "backend must be 'auto' or one of"),
        ({"d_ff": 0}, ValueError, "d_ff must be at least 1"),
        ({"max_length": 0}, ValueError, "max_length must be at least 1"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_config_that_cannot_be_is_refused(options: dict, error: type[Exception], words: str):
    """By the config itself, or by the module that would be wrong, before it computes anything."""
    with pytest.raises(error, match=words):
        DecoderOnly(TransformerConfig(**({"vocab_size": VOCABULARY} | options)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DecoderOnly, EncoderOnly, Seq2SeqTransformer])
@torch.no_grad()
def test_bug_23_compiled_equals_eager(compiled, kind: type):
    model = alive(kind(config(num_layers=1, pad_id=PAD)))
    text = torch.tensor([[PAD, PAD, 3, 5, 2], [4, 6, 6, 8, 1]])
    inputs = (text, text[:, 2:]) if kind is Seq2SeqTransformer else (text,)
    torch.testing.assert_close(compiled(model)(*inputs), model(*inputs), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", [DecoderOnly, EncoderOnly, Seq2SeqTransformer])
def test_a_scale_reaches_every_head(kind):
    config = TransformerConfig(vocab_size=9, d_model=8, num_heads=2, scale=1.0)
    heads = [part for part in kind(config).modules() if isinstance(part, MultiHeadAttention)]
    assert len(heads) == {DecoderOnly: 2, EncoderOnly: 2, Seq2SeqTransformer: 6}[kind]
    assert all(head.scale == 1.0 for head in heads)
