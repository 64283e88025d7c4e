"""Good calls of online softmax and of attention by chunks: see ``test_typing_runtime.py``."""

import torch

from companion import causal, sliding_window
from companion.online import OnlineSoftmax
from companion.streaming import chunked_attention, merge_partials, online_softmax, sliding_window_attention

state = OnlineSoftmax.start((2, 3), 4)
state = OnlineSoftmax.start([2, 3], 4, dtype=torch.float32, device="cpu").update(torch.rand(2, 3, 5), torch.rand(5, 4))
state.update(torch.rand(2, 3, 5).half(), torch.rand(1, 5, 4).bfloat16()).finish()

for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    online_softmax(torch.rand(3).to(dtype))
    online_softmax(torch.rand(2, 3).to(dtype), 0, chunk_size=1)
    for lead in ((), (4,), (2, 4), (3, 2, 4)):
        groups = (*lead[:-1], 2) if lead else ()
        q, k, v = (torch.rand(*s).to(dtype) for s in ((*lead, 3, 8), (*groups, 5, 8), (*groups, 5, 6)))
        yes, bias = torch.ones(3, 5, dtype=torch.bool), torch.zeros(3, 5)
        for mask in (None, yes, yes[(None,) * (q.dim() - 2)], causal(), sliding_window(2) & ~causal(1)):
            pair = chunked_attention(
                q,
                k,
                v,
                mask,
                bias=bias,
                causal=True,
                scale=2,
                query_chunk=2,
                key_chunk=2,
                return_logsumexp=True,
            )
            chunked_attention(q, k, v, mask)
            merge_partials([pair, pair])
            merge_partials((pair,))
        chunked_attention(q[..., :0, :], k, v, return_logsumexp=True)
        chunked_attention(q, k[..., :0, :], v[..., :0, :])
        sliding_window_attention(q, k, v, 2)
        sliding_window_attention(q, k, v, 2, causal=False, scale=0.5)
