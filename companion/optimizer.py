"""How far each step goes: a learning rate that warms up, and AdamW that lets only matrices decay."""

from __future__ import annotations

import math

import torch
from torch import nn

from companion import check

__all__ = ["learning_rate", "make_optimizer"]

SCHEDULES = ("constant", "cosine")


def learning_rate(
    step: int, *, lr: float, steps: int, warmup: int = 0, schedule: str = "constant", floor: float = 0.0
) -> float:
    r"""The learning rate of one step: up in a line, then level, or down along half a cosine.

    .. math:: \eta_t = \eta\, \frac{t}{T_0} \quad (t \le T_0), \qquad
       \eta_t = \eta \Bigl(f + \tfrac{1 - f}{2} \bigl(1 + \cos \pi \tfrac{t - T_0}{T - T_0}\bigr)\Bigr) \quad (t > T_0)

    Args:
        step: :math:`t`, from 1.
        lr: :math:`\eta`, the highest.
        steps: :math:`T`, how many there are.
        warmup: :math:`T_0`, how many of them go up.
        schedule: ``"constant"`` or ``"cosine"``.
        floor: :math:`f`, the share of ``lr`` that a cosine ends with.

    Returns:
        The learning rate.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a number out of range, or an unknown schedule.

    Example:
        >>> [learning_rate(t, lr=1.0, steps=8, warmup=2, schedule="cosine") for t in (1, 2, 5, 8)]
        [0.5, 1.0, 0.5, 0.0]

    Source: Vaswani et al., 2017 (arXiv:1706.03762), section 5.3, for the warm-up; Loshchilov and Hutter, "SGDR", 2016
    (arXiv:1608.03983), for the cosine.
    """
    check.positive("lr", lr)
    if check.integer("step", step) > check.integer("steps", steps):
        raise ValueError(f"step must be at most steps={steps}, got {step}")
    if check.integer("warmup", warmup, minimum=0) > steps:
        raise ValueError(f"warmup must be at most steps={steps}, got {warmup}")
    check.one_of("schedule", schedule, SCHEDULES)
    check.probability("floor", floor)
    if step <= warmup:
        return lr * step / warmup
    if schedule == "constant":
        return lr
    return lr * (floor + (1 - floor) / 2 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))))


def make_optimizer(
    model: nn.Module, *, lr: float = 1e-3, weight_decay: float = 0.01, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.AdamW:
    """AdamW that lets matrices decay, and leaves norms, biases and embeddings alone.

    A norm's weight belongs near 1, and an embedding is touched only when its token comes up: pulling them towards 0
    at each step would mean something else than it does for a matrix.

    Args:
        model: whose parameters are trained.
        lr: the learning rate.
        weight_decay: which share of a matrix is taken away at each step, times ``lr``.
        betas: how long the running means of the gradient and of its square remember.

    Returns:
        The optimizer, with two groups of parameters; what needs no gradient is in neither.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a number out of range, or nothing to train.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2017 (arXiv:1711.05101).
    """
    check.module("model", model)
    check.positive("lr", lr)
    if check.real("weight_decay", weight_decay) < 0:
        raise ValueError(f"weight_decay must be at least 0, got {weight_decay}")
    if not isinstance(betas, tuple) or len(betas) != 2:
        raise TypeError(f"betas must be two numbers, got {betas!r}")
    for beta in betas:
        if check.probability("betas", beta) == 1:
            raise ValueError(f"betas must be less than 1, got {betas}")
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters(recurse=False)}
    decay: list[nn.Parameter] = []
    keep: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (keep if parameter.dim() < 2 or id(parameter) in tables else decay).append(parameter)
    if not decay and not keep:
        raise ValueError("model must have a parameter that requires a gradient, got none")
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": keep, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=lr, betas=betas)
