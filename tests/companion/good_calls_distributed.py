"""Good calls of ring attention, by two ranks: see ``test_typing_runtime.py``."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist

from companion.distributed import gather_sequence, ring_attention, shard_sequence

torch.set_num_threads(1)
folder = tempfile.mkdtemp()
rank, size = 0, 1
if sys.platform == "linux":  # elsewhere a fork is not safe, and one rank has to do
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    rank, size = (0 if os.fork() else 1), 2
dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", size), rank=rank, world_size=size)
for group in (None, dist.group.WORLD):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for lead in ((), (4,), (2, 4), (3, 2, 4)):
            groups = (*lead[:-1], 2) if lead else ()
            whole = (torch.rand(*s, 8, 6).to(dtype) for s in (lead, groups, groups))
            q, k, v = (shard_sequence(x, group=group).requires_grad_() for x in whole)
            for balanced in (True, False):
                y = ring_attention(q, k, v[..., :5], causal=True, scale=0.5, group=group, balanced=balanced)
                gather_sequence(y, group=group, balanced=balanced).float().sum().backward()
            ring_attention(q, k, v, scale=2)
            ring_attention(q[..., :0, :], k[..., :0, :], v[..., :0, :])
    for dtype in (torch.bool, torch.int16, torch.int64):
        ids = torch.zeros(2, 8, dtype=dtype)
        gather_sequence(shard_sequence(ids, dim=-1, group=group), dim=1, group=group)
        shard_sequence(ids[0], dim=0, balanced=False)
dist.destroy_process_group()
if rank:
    os._exit(0)
if size == 2:
    assert os.wait()[1] == 0
