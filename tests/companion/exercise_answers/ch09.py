"""What students answer to chapter 9."""

import math

import torch
from torch.nn import functional as F


def loops(x, eps):
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty_like(rows)
    for row, place in zip(rows, out, strict=True):
        mean = sum(row.tolist()) / len(row)
        variance = sum((number - mean) ** 2 for number in row.tolist()) / len(row)
        for c, number in enumerate(row.tolist()):
            place[c] = (number - mean) / math.sqrt(variance + eps)
    return out.reshape(x.shape)


def short(x, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt()


def over_tokens(x, eps):
    mean = x.mean(dim=-2, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(dim=-2, keepdim=True, unbiased=False) + eps)


RIGHT = {
    "collapse": [{"temperature": 3.5}],
    "layer-norm": [lambda x, eps: F.layer_norm(x, x.shape[-1:], eps=eps), short, loops],
}
WRONG = {
    "collapse": {
        "moved scores": {"scores": [0.5, 0.5, 0.5]},
        "colder": {"temperature": 0.3},
        "not yet flat": {"temperature": 1.5},
    },
    "layer-norm": {
        "over tokens": over_tokens,
        "over everything": lambda x, eps: F.layer_norm(x, x.shape, eps=eps),
        "sample variance": lambda x, eps: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + eps),
        "epsilon outside": lambda x, eps: (
            (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + eps)
        ),
        "no mean": lambda x, eps: F.rms_norm(x, x.shape[-1:], eps=eps),
    },
}
