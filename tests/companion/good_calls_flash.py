"""Good calls of the Triton kernels, in the interpreter: see ``test_typing_runtime.py``."""

import os

import torch

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton

from companion.call import Call
from companion.kernels import flash
from companion.kernels.flash import flash_attention

assert flash.why_not(torch.device("cuda"), None) or torch.cuda.is_available()
if flash.why_not(torch.device("cpu"), None) is None:  # there is no Triton on a Mac
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for lead in ((), (4,), (2, 4), (1, 2, 4)):
            groups = (*lead[:-1], 2) if lead else ()
            q, k, v = (torch.rand(*s).to(dtype) for s in ((*lead, 3, 8), (*groups, 5, 8), (*groups, 5, 6)))
            assert isinstance(flash_attention(q, k, v), torch.Tensor)
    q, k, v = (torch.rand(2, 2, 5, 8, requires_grad=True) for _ in range(3))
    for lengths in ([3, 5], torch.tensor([0, 4], dtype=torch.int32)):
        output, logsumexp = flash_attention(
            q, k, v, causal=True, window=2, lengths=lengths, scale=0.5, return_logsumexp=True
        )
        (output.sum() + logsumexp[1].sum()).backward()
    flash_attention(q[:, :, :0], k, v)
    flash_attention(q, k[:, :, :0], v[:, :, :0], window=3)
    call = Call.of(q, k, v, causal=True)
    assert flash.why_not(call.device, call) is None
    flash.run(call)
