"""What the server of ``train_children`` imports before it forks: all that a run needs, and nothing started."""

import importlib

for name in (
    "safetensors.torch",
    "torch._dynamo",  # the first step of an optimizer would import it
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "tqdm.auto",
    "companion.train",
):
    importlib.import_module(name)
