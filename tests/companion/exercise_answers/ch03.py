"""What students answer to chapter 3."""

import math

import torch


def loops(q, k):
    heads, length, width = q.shape
    out = torch.zeros(heads, length, k.shape[1], dtype=q.dtype)
    for h in range(heads):
        for i in range(length):
            terms = [math.exp(float(sum(q[h, i] * k[h, j])) / math.sqrt(width)) for j in range(k.shape[1])]
            for j, term in enumerate(terms):
                out[h, i, j] = term / sum(terms)
    return out


RIGHT = {
    "sixteen": [{"width": 256}],
    "weights": [
        lambda q, k: torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1),
        lambda q, k: (torch.einsum("hld,hsd->hls", q, k) * k.size(2) ** -0.5).softmax(2),
        loops,
    ],
}
WRONG = {
    "sixteen": {"divided": {"width": 256, "scaled": True}, "linear": {"width": 16}},
    "weights": {
        "no scale": lambda q, k: torch.softmax(q @ k.mT, dim=-1),
        "scale by D": lambda q, k: torch.softmax(q @ k.mT / q.shape[-1], dim=-1),
        "over queries": lambda q, k: torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=1),
        "root of the model": lambda q, k: torch.softmax(q @ k.mT / math.sqrt(len(q) * q.shape[-1]), dim=-1),
        "root of the length": lambda q, k: torch.softmax(q @ k.mT / math.sqrt(q.size(1)), dim=-1),
        "root of the heads": lambda q, k: torch.softmax(q @ k.mT / math.sqrt(q.size(0)), dim=-1),
    },
}
