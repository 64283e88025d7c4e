"""What students answer to chapter 5."""

import math

import torch
from torch.nn import functional as F


def by_loops(q, k, v, mask):
    output = torch.zeros(len(q), v.size(1), dtype=v.dtype)
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if mask[i, j]]
        scores = torch.tensor([float(q[i] @ k[j]) / math.sqrt(len(q[i])) for j in seen], dtype=v.dtype)
        shares = (scores - scores.max()).exp()
        output[i] = (shares / shares.sum()) @ v[seen]
    return output


def by_penalty(q, k, v, mask):
    scores = torch.einsum("ld,sd->ls", q, k) * q.size(-1) ** -0.5
    return torch.softmax(scores + torch.where(mask, 0.0, -1e9), dim=-1) @ v


def scores_of(q, k):
    return q @ k.T / math.sqrt(k.size(1))


def hidden(scores, mask):
    return torch.where(mask, scores, -torch.inf)


RIGHT = {
    "spared": [
        {"causal": True, "step": "weights", "row": 2, "column": 0},
        {"causal": True, "step": "weights", "row": 2, "column": 1},
        {"causal": True, "step": "weights", "row": 2, "column": 2},
    ],
    "attention": [
        by_loops,
        by_penalty,
        lambda q, k, v, mask: F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask[None])[0],
    ],
}
WRONG = {
    "spared": {
        "no mask": {"step": "weights", "row": 2},
        "other table": {"causal": True, "step": "output", "row": 2},
        "hidden": {"causal": True, "step": "weights", "row": 0, "column": 2},
        "grown": {"causal": True, "step": "weights", "row": 1, "column": 1},
    },
    "attention": {
        "no scale": lambda q, k, v, mask: torch.softmax(hidden(q @ k.T, mask), 1) @ v,
        "scale by D": lambda q, k, v, mask: torch.softmax(hidden(q @ k.T / q.size(1), mask), 1) @ v,
        "multiplied by root D": lambda q, k, v, mask: torch.softmax(hidden(q @ k.T * q.size(1) ** 0.5, mask), 1) @ v,
        "model width": lambda q, k, v, mask: torch.softmax(hidden(scores_of(q, k) / 2, mask), 1) @ v,
        "over queries": lambda q, k, v, mask: torch.softmax(hidden(scores_of(q, k), mask), 0) @ v,
        "scaled after softmax": lambda q, k, v, mask: torch.softmax(hidden(q @ k.T, mask), 1) @ v / q.size(1) ** 0.5,
        "softmax twice": lambda q, k, v, mask: F.softmax(F.softmax(hidden(scores_of(q, k), mask), 1), 1) @ v,
        "inverted mask": lambda q, k, v, mask: torch.softmax(scores_of(q, k).masked_fill(mask, -1e30), 1) @ v,
        "masked after softmax": lambda q, k, v, mask: (torch.softmax(scores_of(q, k), 1) * mask.double()) @ v,
        "masked with zero": lambda q, k, v, mask: torch.softmax(torch.where(mask, scores_of(q, k), 0.0), 1) @ v,
        "keys not transposed": lambda q, k, v, mask: torch.softmax(hidden(q @ k / math.sqrt(q.size(1)), mask), 1) @ v,
        "no mask": lambda q, k, v, mask: torch.softmax(scores_of(q, k), 1) @ v,
        "causal instead": lambda q, k, v, mask: (
            torch.softmax(hidden(scores_of(q, k), torch.arange(len(k)) <= torch.arange(len(q))[:, None]), 1) @ v
        ),
        "root of the length": lambda q, k, v, mask: torch.softmax(hidden(q @ k.T / len(k) ** 0.5, mask), 1) @ v,
    },
}
