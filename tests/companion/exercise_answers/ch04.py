"""What students answer to chapter 4."""

import torch
from torch.nn import functional as F


def by_padding(z):
    return torch.softmax(F.pad(z, (0, 1)), dim=-1)[..., :-1]


def by_logarithms(z):
    rows = z.reshape(-1, z.shape[-1])
    done = []
    for row in rows:
        rest = torch.logsumexp(torch.cat([row, torch.zeros(1, dtype=row.dtype)]), 0)
        done.append(torch.exp(row - rest))
    return torch.stack(done).reshape(z.shape)


def by_shift(z):
    largest = torch.maximum(z.max(-1, keepdim=True).values, torch.zeros((), dtype=z.dtype))
    up = torch.exp(z - largest)
    return up / (torch.exp(-largest) + up.sum(-1, keepdim=True))


def forgot_the_one(z):
    up = torch.exp(z - z.max(-1, keepdim=True).values)
    return up / (1.0 + up.sum(dim=-1, keepdim=True))


def naive(z):
    up = torch.exp(z)
    return up / (up.sum(dim=-1, keepdim=True) + 1)


RIGHT = {
    "awake": [
        {"scores": [4.0, 4.0, -8.0, -8.0]},
        {"scores": [-3.0, 5.0, -3.0, 5.0]},
        {"scores": [8.0, -8.0, 7.9, 0.0], "shift": 50.0},
    ],
    "off-by-one": [by_padding, by_logarithms, by_shift],
}
WRONG = {
    "awake": {
        "colder": {"scores": [1.0, 1.0, 0.0, 0.0], "temperature": 0.5},
        "one-wins": {"scores": [3.0, 0.0, 0.0, 0.0]},
        "all-alike": {"scores": [0.1, 0.0, 0.0, 0.0]},
        "rest-in-the-way": {"scores": [1.0, 1.0, 0.0, 0.0]},
    },
    "off-by-one": {
        "plain": lambda z: torch.softmax(z, -1),
        "one-is-kept": forgot_the_one,
        "overflows": naive,
        "one-taken-off": lambda z: torch.softmax(z, -1) - 1,
    },
}
