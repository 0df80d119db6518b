"""How updates are computed on this machine: chosen by itself, told in one line, and settable."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from regard.data.loader import DataConfig
from regard.devices import has_triton, is_half
from regard.errors import ConfigError
from regard.processes import ALONE, Team
from regard.training.config import RunConfig


@dataclass(frozen=True)
class Engine:
    """What was chosen."""

    device: torch.device
    half: bool
    kernels: bool
    compile: bool
    replay: bool
    workers: int

    @staticmethod
    def chosen(config: RunConfig, device: torch.device, team: Team = ALONE) -> Engine:
        """The fastest way that there is, but for what the settings say."""
        half = is_half(device, config.training.precision, config.model.width)
        kernels = half and device.type == "cuda" and has_triton()
        obstacle = _obstacle_to_replay(config, kernels, team)
        if config.training.replay and obstacle:
            raise ConfigError(
                f"training.replay=true is not supported here: {obstacle}. Leave it unset."
            )
        replay = obstacle is None and config.training.replay is not False
        return Engine(
            device, half, kernels, config.training.compile, replay, _workers(config.data, device)
        )

    def __str__(self) -> str:
        parts = [_name(self.device), "bfloat16" if self.half else "float32"]
        parts += ["Triton kernels"] * self.kernels + ["compiled blocks"] * self.compile
        parts += ["replayed updates"] * self.replay
        if self.workers:
            parts.append(f"batches made by {_count(self.workers, 'process', 'processes')}")
        return ", ".join(parts)


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU with {_count(torch.get_num_threads(), 'thread', 'threads')}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _workers(config: DataConfig, device: torch.device) -> int:
    """Only subword sampling takes longer than a GPU does; a CPU's cores have enough to do."""
    if config.workers is not None:
        return config.workers
    pays = device.type == "cuda" and config.sampling_candidates > 1
    return min(3, (os.cpu_count() or 1) - 1) if pays else 0


def _obstacle_to_replay(config: RunConfig, kernels: bool, team: Team) -> str | None:
    """Why work cannot be recorded."""
    if not kernels:
        return "it needs a GPU with bfloat16, and Triton"
    if team.size > 1:
        return "several processes exchange gradients while they are made"
    if config.training.word_distillation:
        return "a teacher's distributions are not filled up to a shape"
    if config.training.teacher is not None:
        return "what a teacher judges is drawn, and of any length"
    return config.model.obstacle_to_capture
