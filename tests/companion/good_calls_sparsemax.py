"""Good calls of sparsemax: see ``test_typing_runtime.py``."""

import torch

from companion.sparsemax import sparsemax

for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    x = torch.rand(2, 3, 4).to(dtype)
    sparsemax(x)
    sparsemax(x, 0)
    sparsemax(x[0, 0])
    sparsemax(x[:, :0], 1)
