"""What students answer to chapter 7."""

import torch


def pieces(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def loops(x, num_heads):
    width = x.shape[-1] // num_heads
    out = torch.empty(x.shape[0], num_heads, x.shape[1], width, dtype=x.dtype)
    for head in range(num_heads):
        out[:, head] = x[:, :, head * width : (head + 1) * width]
    return out


RIGHT = {
    "same-word": [{"head": 1, "token": 4}],
    "split": [lambda x, num_heads: x.view(*x.shape[:2], num_heads, -1).transpose(1, 2), pieces, loops],
}
WRONG = {
    "same-word": {
        "as key": {"head": 1, "token": 4, "side": "key"},
        "other word": {"head": 1, "token": 2},
        "before": {"token": 4},
        "near": {"layer": 1, "token": 4},
        "alike": {"layer": 1, "head": 1, "token": 4},
    },
    "split": {
        "view without transpose": lambda x, num_heads: x.reshape(x.shape[0], num_heads, x.shape[1], -1),
        "interleaved": lambda x, num_heads: x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2),
        "positions first": lambda x, num_heads: x.unflatten(-1, (num_heads, -1)),
    },
}
