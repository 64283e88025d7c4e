"""What students answer to chapter 2."""

import math

import torch
from torch.nn import functional as F


def by_loops(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    rows = []
    for query in q:
        shares = torch.stack([torch.exp(query @ key / math.sqrt(len(query))) for key in k])
        rows.append(sum(share * value for share, value in zip(shares / shares.sum(), v, strict=True)))
    return torch.stack(rows)


def squeezed(x, w_q, w_k, w_v):
    return F.scaled_dot_product_attention((x @ w_q)[None], (x @ w_k)[None], (x @ w_v)[None])[0]


def soft(scores):
    return scores.exp() / scores.exp().sum(1, keepdim=True)


RIGHT = {
    "itself": [
        {"w_k": [[0.0, 1.0], [-1.0, 0.0]]},
        {"w_k": [[0.0, 2.0], [-2.0, 0.0]]},
        {"w_k": [[0.1, 0.9], [-1.1, 0.0]]},
    ],
    "attention": [
        by_loops,
        squeezed,
        lambda x, w_q, w_k, w_v: soft(x @ (w_q @ w_k.T) @ x.T / w_q.size(1) ** 0.5) @ x @ w_v,
    ],
}
WRONG = {
    "itself": {
        "moved": {"w_q": [[1.0, 0.0], [0.0, 1.0]]},
        "tied": {"tied": True},
        "backwards": {"w_k": [[0.0, -1.0], [1.0, 0.0]]},
    },
    "attention": {
        "no scale": lambda x, w_q, w_k, w_v: soft(x @ w_q @ (x @ w_k).T) @ x @ w_v,
        "root M": lambda x, w_q, w_k, w_v: soft(x @ w_q @ (x @ w_k).T / math.sqrt(x.size(1))) @ x @ w_v,
        "over queries": lambda x, w_q, w_k, w_v: (
            torch.softmax(x @ w_q @ (x @ w_k).T / math.sqrt(w_q.size(1)), 0) @ (x @ w_v)
        ),
        "tied": lambda x, w_q, w_k, w_v: soft(x @ w_q @ (x @ w_q).T / math.sqrt(w_q.size(1))) @ x @ w_v,
        "keys as values": lambda x, w_q, w_k, w_v: soft(x @ w_q @ (x @ w_k).T / math.sqrt(w_q.size(1))) @ x @ w_k,
        "bare values": lambda x, w_q, w_k, w_v: soft(x @ w_q @ (x @ w_k).T / math.sqrt(w_q.size(1))) @ x,
        "matrices turned": lambda x, w_q, w_k, w_v: soft(F.linear(x, w_q) @ F.linear(x, w_k).T / 2) @ F.linear(x, w_v),
        "square root of M D": lambda x, w_q, w_k, w_v: soft(x @ w_q @ (x @ w_k).T / math.sqrt(w_q.numel())) @ x @ w_v,
    },
}
