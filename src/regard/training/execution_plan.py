"""The execution plan of a run: precision, kernels, compilation, CUDA graphs, data workers."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from regard.data.loader import DataConfig
from regard.devices import has_triton, uses_bfloat16
from regard.distributed import SINGLE_PROCESS, DistributedContext
from regard.errors import ConfigError
from regard.training.config import RunConfig


@dataclass(frozen=True)
class ExecutionPlan:
    """How updates are computed; `str` gives one line for the user."""

    device: torch.device
    bfloat16: bool
    kernels: bool
    compile: bool
    cuda_graphs: bool
    workers: int

    @staticmethod
    def choose(
        config: RunConfig, device: torch.device, distributed: DistributedContext = SINGLE_PROCESS
    ) -> ExecutionPlan:
        """The fastest plan that the settings and the device allow."""
        bfloat16 = uses_bfloat16(device, config.training.precision, config.model.d_model)
        kernels = bfloat16 and device.type == "cuda" and has_triton()
        reason = _cuda_graphs_unsupported_reason(config, kernels, distributed)
        if config.training.cuda_graphs and reason:
            raise ConfigError(
                f"training.cuda_graphs=true is not supported here: {reason}. Leave it out."
            )
        cuda_graphs = reason is None and config.training.cuda_graphs is not False
        return ExecutionPlan(
            device=device,
            bfloat16=bfloat16,
            kernels=kernels,
            compile=config.training.compile,
            cuda_graphs=cuda_graphs,
            workers=_num_workers(config.data, device),
        )

    def __str__(self) -> str:
        parts = [_device_name(self.device), "bfloat16" if self.bfloat16 else "float32"]
        parts += ["Triton kernels"] * self.kernels + ["compiled blocks"] * self.compile
        parts += ["CUDA graphs"] * self.cuda_graphs
        if self.workers:
            parts.append(_count(self.workers, "data worker"))
        return ", ".join(parts)


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU with {_count(torch.get_num_threads(), 'thread')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _num_workers(config: DataConfig, device: torch.device) -> int:
    """By default 0; up to 3 if subword regularization is the bottleneck on a GPU."""
    if config.num_workers is not None:
        return config.num_workers
    is_bottleneck = device.type == "cuda" and config.subword_nbest_size > 1
    return min(3, (os.cpu_count() or 1) - 1) if is_bottleneck else 0


def _cuda_graphs_unsupported_reason(
    config: RunConfig, kernels: bool, distributed: DistributedContext
) -> str | None:
    """Why updates cannot be captured in CUDA graphs; None if they can."""
    if not kernels:
        return "it requires a GPU, bfloat16 and Triton"
    if distributed.world_size > 1:
        return "several processes reduce gradients during the backward pass"
    if config.training.word_distillation:
        return "training.word_distillation does not pad the teacher's distributions"
    if config.training.teacher is not None:
        return "training.teacher scores samples of varying length"
    return config.model.cuda_graphs_unsupported_reason
