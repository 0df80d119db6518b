"""Adam and AdamW, their rates, and their state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.training import schedules
from regard.training.config import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """PyTorch's own; the rate is set before each step, and only matrices decay."""
    device = next(model.parameters()).device
    replayed = device.type == "cuda"  # then the rate has to lie where a recording finds it
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    matrices = [weights for weights in model.parameters() if weights.ndim > 1]
    vectors = [weights for weights in model.parameters() if weights.ndim <= 1]
    return kind(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=torch.zeros((), device=device) if replayed else 0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
        capturable=replayed,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """For the next update."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(step: int, config: TrainingConfig, width: int) -> float:
    """The rate of an update, counted from 1."""
    peak = config.learning_rate
    if peak is None:
        peak = schedules.paper_peak(width, config.warmup_steps)
    endless = {"inverse_sqrt": schedules.inverse_sqrt, "constant": schedules.constant}
    if config.schedule in endless:
        return peak * endless[config.schedule](step, config.warmup_steps)
    ending = {"cosine": schedules.cosine, "linear": schedules.linear}
    decay_steps = config.decay_steps or config.max_steps
    return peak * ending[config.schedule](step, config.warmup_steps, decay_steps)


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
    for key, value in tensors.items():
        name, entry = key.rsplit(":", 1)
        parameter = parameters[name]
        # A copy: a tensor read from a file shares its memory with the others of that file.
        optimizer.state[parameter][entry] = value.to(parameter.device, copy=True)
