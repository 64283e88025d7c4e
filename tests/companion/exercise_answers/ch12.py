"""What students answer to chapter 12."""

import torch


def multiplied(hidden, real):
    r = real.unsqueeze(-1).double()
    m = (hidden * r).sum(1) / r.sum(1)
    return m / m.norm(dim=-1, keepdim=True)


def loops(hidden, real):
    rows = []
    for vectors, kept in zip(hidden, real, strict=True):
        mean = vectors[kept].mean(0)
        rows.append(mean / mean.square().sum().sqrt())
    return torch.stack(rows)


def by_product(hidden, real):
    total = torch.einsum("blm,bl->bm", hidden, real.to(hidden.dtype))
    return total / torch.linalg.vector_norm(total, dim=1, keepdim=True)


RIGHT = {
    "healthy": [{"head": 2, "token": 5}],
    "pool": [multiplied, loops, by_product],
}
WRONG = {
    "healthy": {
        "as key": {"head": 2, "token": 5, "side": "key"},
        "other word": {"head": 2, "token": 3},
        "even": {"head": 1, "token": 5},
        "sink": {"token": 5},
    },
    "pool": {
        "padding too": lambda hidden, real: hidden.mean(1) / hidden.mean(1).norm(dim=-1, keepdim=True),
        "not normalised": lambda hidden, real: (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True),
        "first token": lambda hidden, real: hidden[:, 0] / hidden[:, 0].norm(dim=-1, keepdim=True),
        "normalised before": lambda hidden, real: torch.stack(
            [(v / v.norm(dim=-1, keepdim=True))[kept].mean(0) for v, kept in zip(hidden, real, strict=True)]
        ),
    },
}
