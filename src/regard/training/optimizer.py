"""Adam and AdamW, learning rate schedules, and the optimizer state as named tensors.

A schedule is a function of the step (counted from 1) with a peak of 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.training.config import TrainingConfig
from regard.training.parameter_groups import learning_rate_factors

_STATE = ("step", "exp_avg", "exp_avg_sq")


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """PyTorch's optimizer for the trainable parameters; weight decay applies to matrices only.

    Learning rates are set before each step, by `set_learning_rate`.
    """
    device = next(model.parameters()).device
    capturable = device.type == "cuda"  # a CUDA graph reads the learning rate from a tensor
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return optimizer(
        [
            {
                "params": weights,
                "weight_decay": config.weight_decay if has_decay else 0.0,
                "factor": factor,
                "lr": torch.zeros((), device=device) if capturable else 0.0,
            }
            for (has_decay, factor), weights in _parameter_groups(model, config.layer_decay).items()
        ],
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        fused=True,
        capturable=capturable,
    )


def _parameter_groups(
    model: nn.Module, layer_decay: float
) -> dict[tuple[bool, float], list[Tensor]]:
    """Trainable parameters by whether weight decay applies and by learning rate factor."""
    factors = learning_rate_factors((name for name, _ in model.named_parameters()), layer_decay)
    groups: dict[tuple[bool, float], list[Tensor]] = {}
    for name, weights in model.named_parameters():
        if weights.requires_grad:
            groups.setdefault((weights.ndim > 1, factors[name]), []).append(weights)
    return groups


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next update, times the factor of each group."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * group["factor"])
        else:
            group["lr"] = rate * group["factor"]


def constant(step: int, warmup_steps: int, decay_steps: int = 0) -> float:
    """Linear warm-up, `t / w`, then constant."""
    return min(1.0, step / warmup_steps)


def inverse_sqrt(step: int, warmup_steps: int, decay_steps: int = 0) -> float:
    """`min(t / w, sqrt(w / t))`; with peak `(d w)^-0.5`, that of Vaswani et al. (2017)."""
    return min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def linear(step: int, warmup_steps: int, decay_steps: int) -> float:
    """Linear warm-up, then linear decay to zero at `decay_steps`."""
    if step < warmup_steps or decay_steps <= warmup_steps:
        return constant(step, warmup_steps)
    return max(0.0, (decay_steps - step) / (decay_steps - warmup_steps))


def cosine(step: int, warmup_steps: int, decay_steps: int) -> float:
    """Linear warm-up, then cosine decay to zero at `decay_steps`."""
    remaining = linear(step, warmup_steps, decay_steps)
    return remaining if step < warmup_steps else 0.5 * (1.0 - math.cos(math.pi * remaining))


SCHEDULES = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}


def learning_rate(step: int, config: TrainingConfig, d_model: int) -> float:
    """The learning rate of an update, counted from 1."""
    peak, warmup = config.learning_rate, config.warmup_steps
    if peak is None:  # of `d^-0.5 * min(t^-0.5, t * w^-1.5)`, reached at t = w
        peak = float((d_model * warmup) ** -0.5)
    return peak * SCHEDULES[config.schedule](step, warmup, config.decay_steps or config.max_steps)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer state by parameter and entry, as tensors, so that no pickle is needed."""
    return {
        f"{name}:{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Load the state that `optimizer_tensors` returned."""
    parameters = dict(model.named_parameters())
    _refuse_mismatched_state(parameters, tensors)
    for key, value in tensors.items():
        name, entry = key.rsplit(":", 1)
        parameter = parameters[name]
        # Copied: the tensors read from a file share one buffer.
        optimizer.state[parameter][entry] = value.to(parameter.device, copy=True)


def _refuse_mismatched_state(
    parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> None:
    """Raise an error unless this is a state of Adam for these parameters."""
    for key, value in tensors.items():
        name, _, entry = key.rpartition(":")
        valid = name in parameters and entry in _STATE and value.is_floating_point()
        if not valid or value.shape != (() if entry == "step" else parameters[name].shape):
            raise ModelError(f"the optimizer state has {key}, which does not match the model")
    trained = {key.rpartition(":")[0] for key in tensors}
    for name in trained:
        if any(f"{name}:{entry}" not in tensors for entry in _STATE):
            raise ModelError(f"the optimizer state of {name} is incomplete")
