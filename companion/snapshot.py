"""All that a run is at the end of a step, as tensors: from it, the run goes on as if it had never stopped.

Parameters, what AdamW remembers, the history, and the state of each source of random numbers. Batches need nothing: the
step says which is next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from companion.history import History
from companion.parallel import Alone
from companion.trainer import Trainer

__all__: list[str] = []

_SERIES = ("loss", "learning_rate", "gradient_norm", "tokens_per_second")


def capture(trainer: Trainer) -> dict[str, Tensor]:
    """Everything, on the CPU.

    Where several processes train, all of them must ask, and the first gets it.

    Args:
        trainer: between two steps.
    """
    team = trainer.team
    parts = {f"model.{name}": x for name, x in trainer.model.state_dict().items()}
    for name, parameter in trainer.parameters.items():
        parts |= {f"optimizer.{name}.{key}": x for key, x in trainer.optimizer.state[parameter].items()}
    tensors = {}
    for name, part in parts.items():
        x = team.whole(part)
        if team.rank == 0:
            tensors[name] = x.cpu()
    for name in _SERIES:
        tensors[f"history.{name}"] = torch.tensor(getattr(trainer.history, name), dtype=torch.float64)
    for name, x in random_state(trainer.device).items():
        tensors[f"random.{name}"] = team.gather(x)  # (W, n): each process draws by itself
    return tensors


def restore(trainer: Trainer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what :func:`capture` took; the parameters, which DDP and FSDP spread, are in their places already.

    Args:
        trainer: new.
        tensors: from a checkpoint.
    """
    for name, parameter in trainer.parameters.items():
        prefix = f"optimizer.{name}."
        state = {key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)}
        for key, x in state.items():
            own = x.clone() if key == "step" else trainer.team.part(x.clone(), parameter)  # AdamW counts on the CPU
            trainer.optimizer.state[parameter][key] = own
    loss, rate, norm, speed = (tensors[f"history.{name}"].tolist() for name in _SERIES)
    trainer.history = History(list(range(1, len(loss) + 1)), loss, rate, norm, speed)
    set_random_state(tensors, trainer.team, trainer.device)


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of Python's, NumPy's and PyTorch's sources of random numbers."""
    _, words, spare = random.getstate()
    legacy: Any = np.random.get_state()  # noqa: NPY002 (other people's code draws from it)
    _, keys, place, has_spare, kept = legacy
    states = {
        "python": torch.tensor(words, dtype=torch.int64),
        "numpy": torch.tensor([*keys.tolist(), place, has_spare], dtype=torch.int64),
        # The second of two normal numbers that are drawn together, if it waits to be asked for.
        "spare": torch.tensor([float("nan") if spare is None else spare, kept], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_random_state(tensors: Mapping[str, Tensor], team: Alone, device: torch.device) -> None:
    """Go on drawing where the checkpoint was; a process that it did not have keeps what it has."""
    states = {name.removeprefix("random."): x for name, x in tensors.items() if name.startswith("random.")}
    if team.rank >= len(states["torch"]):
        return
    mine = {name: x[team.rank].clone() for name, x in states.items()}
    spare, kept = mine["spare"].tolist()
    random.setstate((3, tuple(mine["python"].tolist()), None if spare != spare else spare))
    *keys, place, has_spare = mine["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), place, has_spare, kept))  # noqa: NPY002
    setters: dict[str, Callable[[Tensor], None]] = {"torch": torch.set_rng_state}
    if device.type == "cuda":
        setters["cuda"] = lambda state: torch.cuda.set_rng_state(state, device)
    for name, put in setters.items():
        if name in mine:
            put(mine[name])
