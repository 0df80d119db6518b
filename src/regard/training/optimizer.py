"""Adam and AdamW, their rates, and their state as named tensors.

A schedule is a function of the step (counted from 1), its peak being 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.training.config import TrainingConfig
from regard.training.parts import rate_factors

_STATE = ("step", "exp_avg", "exp_avg_sq")


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """PyTorch's own, for what learns; rates are set before each step, and only matrices decay."""
    device = next(model.parameters()).device
    replayed = device.type == "cuda"  # then the rate has to lie where a recording finds it
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return kind(
        [
            {
                "params": weights,
                "weight_decay": config.weight_decay if decays else 0.0,
                "factor": factor,
                "lr": torch.zeros((), device=device) if replayed else 0.0,
            }
            for (decays, factor), weights in _groups(model, config.layer_decay).items()
        ],
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
        capturable=replayed,
    )


def _groups(model: nn.Module, layer_decay: float) -> dict[tuple[bool, float], list[Tensor]]:
    """What learns, by whether it decays and how much of the rate it gets."""
    factors = rate_factors((name for name, _ in model.named_parameters()), layer_decay)
    groups: dict[tuple[bool, float], list[Tensor]] = {}
    for name, weights in model.named_parameters():
        if weights.requires_grad:
            groups.setdefault((weights.ndim > 1, factors[name]), []).append(weights)
    return groups


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """For the next update: each group gets its part of it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * group["factor"])
        else:
            group["lr"] = rate * group["factor"]


def constant(step: int, warmup_steps: int, decay_steps: int = 0) -> float:
    """Linear from 0 to the peak, `t / w`, then the peak for ever."""
    return min(1.0, step / warmup_steps)


def inverse_sqrt(step: int, warmup_steps: int, decay_steps: int = 0) -> float:
    """`min(t / w, sqrt(w / t))`: with peak `(d w)^-0.5`, the paper's schedule."""
    return min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def linear(step: int, warmup_steps: int, decay_steps: int) -> float:
    """Warm-up, then a straight line down to zero at `decay_steps`."""
    if step < warmup_steps or decay_steps <= warmup_steps:
        return constant(step, warmup_steps)
    return max(0.0, (decay_steps - step) / (decay_steps - warmup_steps))


def cosine(step: int, warmup_steps: int, decay_steps: int) -> float:
    """Warm-up, then half a cosine wave down to zero at `decay_steps`."""
    left = linear(step, warmup_steps, decay_steps)
    return left if step < warmup_steps else 0.5 * (1.0 - math.cos(math.pi * left))


SCHEDULES = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}


def learning_rate(step: int, config: TrainingConfig, width: int) -> float:
    """The rate of an update, counted from 1."""
    peak, warmup = config.learning_rate, config.warmup_steps
    if peak is None:  # of `d^-0.5 * min(t^-0.5, t * w^-1.5)`, the paper's, reached at t = w
        peak = float((width * warmup) ** -0.5)
    return peak * SCHEDULES[config.schedule](step, warmup, config.decay_steps or config.max_steps)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's memory, by parameter and entry: nothing that would have to be pickled."""
    return {
        f"{name}:{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` took out."""
    parameters = dict(model.named_parameters())
    _refuse_other_state(parameters, tensors)
    for key, value in tensors.items():
        name, entry = key.rsplit(":", 1)
        parameter = parameters[name]
        # A copy: a tensor read from a file shares its memory with the others of that file.
        optimizer.state[parameter][entry] = value.to(parameter.device, copy=True)


def _refuse_other_state(parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """The state is that of Adam for these parameters: moments of their shapes, and a step."""
    for key, value in tensors.items():
        name, _, entry = key.rpartition(":")
        known = name in parameters and entry in _STATE and value.is_floating_point()
        if not known or value.shape != (() if entry == "step" else parameters[name].shape):
            raise ModelError(f"the optimizer's state has {key}, which does not fit the model")
    learned = {key.rpartition(":")[0] for key in tensors}
    for name in learned:
        if any(f"{name}:{entry}" not in tensors for entry in _STATE):
            raise ModelError(f"the optimizer's state lacks a part of {name}")
