"""What students answer to chapter 8."""

import torch


def loops(x, angles):
    out = torch.empty_like(x)
    half = x.shape[1] // 2
    for t in range(x.shape[0]):
        for c in range(half):
            cos, sin = torch.cos(angles[t, c]), torch.sin(angles[t, c])
            out[t, c] = x[t, c] * cos - x[t, c + half] * sin
            out[t, c + half] = x[t, c] * sin + x[t, c + half] * cos
    return out


def rotate_half(x, angles):
    """As Hugging Face writes it."""
    both = torch.cat([angles, angles], -1)
    a, b = x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]
    return x * both.cos() + torch.cat([-b, a], -1) * both.sin()


def by_complex(x, angles):
    a, b = x.chunk(2, -1)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], -1)


def neighbours(x, angles):
    out = torch.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * angles.cos() - x[:, 1::2] * angles.sin()
    out[:, 1::2] = x[:, 0::2] * angles.sin() + x[:, 1::2] * angles.cos()
    return out


def backwards(x, angles):
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()], -1)


def mirror(x, angles):
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() + b * angles.sin(), a * angles.sin() - b * angles.cos()], -1)


RIGHT = {
    "same-score": [{"position": 30, "key_position": 35}, {"position": 0, "key_position": 5}],
    "turn": [loops, rotate_half, by_complex],
}
WRONG = {
    "same-score": {
        "other view": {"view": "distance"},
        "other vectors": {"position": 30, "key_position": 35, "pair": 2},
        "shift": {"shift": 50},
        "backwards": {"position": 25, "key_position": 20},
        "other distance": {"position": 28},
    },
    "turn": {
        "interleaved": neighbours,
        "backwards": backwards,
        "no partner": lambda x, angles: x * angles.cos().repeat(1, 2),
        "mirror": mirror,
        "added": lambda x, angles: x + torch.cat([angles.sin(), angles.cos()], -1),
    },
}
