"""What students answer to chapter 1."""

import math

import torch


def by_loops(q, k, v, t):
    output = torch.zeros(len(q), v.shape[1], dtype=v.dtype)
    for i in range(len(q)):
        shares = [math.exp(float(q[i] @ k[j]) / t) for j in range(len(k))]
        for j, share in enumerate(shares):
            output[i] += share / sum(shares) * v[j]
    return output


def by_hand(q, k, v, t):
    scores = torch.matmul(q, k.transpose(0, 1)) / t
    shares = torch.exp(scores - scores.max())
    return torch.matmul(shares / shares.sum(1, keepdim=True), v)


def nearest(q, k, v, t):
    near = -((q[:, None, :] - k[None, :, :]) ** 2).sum(-1) / 2
    return torch.softmax(near / t, 1) @ v


RIGHT = {
    "equal": [{"query": [0.0, 0.0]}, {"query": [0.005, 0.0]}, {"query": [-0.002, 0.004]}],
    "lookup": [
        by_loops,
        by_hand,
        lambda q, k, v, t: torch.einsum("ls,se->le", (torch.einsum("ld,sd->ls", q, k) / t).softmax(dim=1), v),
    ],
}
WRONG = {
    "equal": {"hot": {"temperature": 100.0}, "far": {"query": [-1.0, -1.9]}},
    "lookup": {
        "multiplied": lambda q, k, v, t: torch.softmax(t * (q @ k.T), dim=1) @ v,
        "no temperature": lambda q, k, v, t: torch.softmax(q @ k.T, dim=1) @ v,
        "temperature after softmax": lambda q, k, v, t: torch.softmax(q @ k.T, dim=1) @ v / t,
        "over queries": lambda q, k, v, t: torch.softmax(q @ k.T / t, dim=-2) @ v,
        "no division": lambda q, k, v, t: torch.exp((q @ k.T) / t) @ v,
        "hard": lambda q, k, v, t: torch.stack([v[(k @ row).argmax()] for row in q]),
        "keys mixed": lambda q, k, v, t: torch.softmax(q @ k.T / t, dim=1) @ k,
        "distance": nearest,
    },
}
