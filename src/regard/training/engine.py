"""How updates are computed on this machine: chosen by itself, told in one line, and settable."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.devices import has_triton, is_half
from regard.errors import ConfigError
from regard.models.transformer import TransformerConfig
from regard.training.config import RunConfig


@dataclass(frozen=True)
class Engine:
    """What was chosen."""

    device: torch.device
    half: bool
    kernels: bool
    replay: bool

    @staticmethod
    def chosen(config: RunConfig, device: torch.device) -> Engine:
        """The fastest way that there is, but for what the settings say."""
        half = is_half(device, config.training.precision)
        kernels = half and device.type == "cuda" and has_triton()
        obstacle = _obstacle_to_replay(config.model, kernels)
        if config.training.replay and obstacle:
            raise ConfigError(f"training.replay=true cannot be: {obstacle}. Leave it unset.")
        replay = obstacle is None and config.training.replay is not False
        return Engine(device, half, kernels, replay)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        parts = [name, "bfloat16" if self.half else "float32"]
        parts += ["Triton kernels"] * self.kernels + ["replayed"] * self.replay
        return ", ".join(parts)


def _obstacle_to_replay(model: TransformerConfig, kernels: bool) -> str | None:
    """Why work cannot be recorded: a shape is filled with tokens that nothing may notice."""
    if not kernels:
        return "it needs a GPU with bfloat16, and Triton"
    if model.norm == "batch":
        return "batch norm would count tokens that only fill a shape"
    attention = model.attention
    if attention.score != "scaled_dot" or attention.select != "soft":
        return "the kernels know only attention by scaled dot products, all values by their weights"
    return None
