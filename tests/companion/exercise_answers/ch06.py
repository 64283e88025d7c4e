"""What students answer to chapter 6."""

import torch


def by_loops(real):
    batch, size = real.shape
    mask = torch.zeros(batch, 1, size, size, dtype=torch.bool)
    for b in range(batch):
        for i in range(size):
            for j in range(i + 1):
                mask[b, 0, i, j] = real[b, j]
    return mask


def by_places(real):
    place = torch.arange(real.size(1))
    return ((place[None, :] <= place[:, None]) & real.unsqueeze(1)).unsqueeze(1)


def triangle(real):
    return torch.tril(torch.ones(real.size(1), real.size(1))).bool()


def every(table, real):
    return table.expand(real.size(0), 1, real.size(1), real.size(1))


RIGHT = {
    "no-empty-row": [
        {"by_hand": [[0, 0, True], [1, 1, True]]},
        {"by_hand": [[0, 0, True], [1, 0, True]]},
        {"by_hand": [[0, 0, True], [1, 0, True], [1, 1, True]], "empty": "uniform"},
    ],
    "decoder-mask": [
        by_loops,
        by_places,
        lambda real: ~(torch.ones(real.size(1), real.size(1)).triu(1).bool() | ~real.view(len(real), 1, 1, -1)),
    ],
}
WRONG = {
    "no-empty-row": {
        "moved padding": {"side": "right"},
        "future": {"by_hand": [[0, 2, True], [1, 2, True]]},
        "padding seen": {"padding": "off"},
        "hidden too much": {"by_hand": [[0, 0, True], [1, 1, True], [4, 3, False]]},
        "one left": {"by_hand": [[0, 0, True]]},
    },
    "decoder-mask": {
        "padding only": lambda real: every(real[:, None, None, :], real),
        "order only": lambda real: every(triangle(real), real),
        "rows": lambda real: triangle(real) & real.view(len(real), 1, -1, 1),
        "inverted": lambda real: triangle(real).logical_not() | ~real.view(len(real), 1, 1, -1),
        "upper": lambda real: torch.triu(torch.ones(real.size(1), real.size(1))).bool() & real[:, None, None, :],
        "strict": lambda real: (torch.ones(real.size(1), real.size(1)).tril(-1) > 0) & real[:, None, None, :],
        "either": lambda real: triangle(real) | real[:, None, None, :],
    },
}
