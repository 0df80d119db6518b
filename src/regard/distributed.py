"""Data-parallel training with several processes: ranks, collectives and error handling.

`torchrun` starts the processes and sets their ranks. Plain numbers are exchanged over gloo on the
CPU, which avoids synchronizing a GPU; gradients are reduced on their device (NCCL on GPUs). A
single process gets a context of world size 1, and no process group is created.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import ConfigError, ProcessLostError, RegardError

# The other ranks wait during rank 0's validation; a process that dies is detected at once.
_TIMEOUT = timedelta(hours=2)


@dataclass(frozen=True)
class DistributedContext:
    """The rank of this process and the world size, over all machines and on this one (local)."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1

    @property
    def is_main_process(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    def all_gather(self, number: float) -> list[float]:
        """The numbers of all ranks, by rank. A collective call: it also acts as a barrier."""
        if self.world_size == 1:
            return [number]
        numbers = [torch.zeros((), dtype=torch.float64) for _ in range(self.world_size)]
        dist.all_gather(numbers, torch.tensor(number, dtype=torch.float64))
        return [float(value) for value in numbers]

    def barrier(self) -> None:
        """Wait until all ranks have called this."""
        self.all_gather(0)

    def all_reduce(self, sums: Tensor) -> None:
        """Sum a tensor over all ranks in place, without synchronizing a GPU."""
        if self.world_size > 1:
            dist.all_reduce(sums)

    def wrap_model(self, model: nn.Module) -> nn.Module:
        """The model in DistributedDataParallel, which averages gradients over all ranks."""
        if self.world_size == 1:
            return model
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def local_device(self, device: torch.device) -> torch.device:
        """The device of this process: with several processes, each uses one GPU."""
        if self.world_size == 1 or device.type != "cuda":
            return device
        if device != torch.device("cuda"):  # with an index
            raise ConfigError(
                f"--device {device} is one GPU, and {self.world_size} processes need one each. Use "
                "--device cuda."
            )
        gpus = torch.cuda.device_count()
        if self.local_world_size > gpus:
            raise ConfigError(
                f"There are {self.local_world_size} processes on this machine, but {gpus} GPUs. "
                f"Use torchrun --nproc-per-node {gpus}, or --device cpu."
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)


SINGLE_PROCESS = DistributedContext()


def no_gradient_sync(model: nn.Module, enabled: bool) -> AbstractContextManager[None]:
    """If enabled, a context in which DistributedDataParallel does not reduce gradients."""
    if enabled and isinstance(model, nn.parallel.DistributedDataParallel):
        return model.no_sync()
    return nullcontext()


@contextmanager
def distributed_context() -> Iterator[DistributedContext]:
    """Join the process group of torchrun; without torchrun, yield `SINGLE_PROCESS`."""
    started_by_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    if not started_by_torchrun or os.environ["WORLD_SIZE"] == "1":
        yield SINGLE_PROCESS
        return
    if not (dist.is_available() and dist.is_gloo_available()):
        raise ConfigError(
            "This build of PyTorch has no gloo, which training with several processes requires. "
            "Install PyTorch from PyPI for Linux, or train with one process, without torchrun."
        )
    from torch.distributed.rendezvous import rendezvous  # does not exist without gloo

    store, rank, world_size = next(rendezvous("env://", timeout=_TIMEOUT))
    # torchrun keeps its store when it restarts the processes: ignore keys of earlier attempts.
    attempt = f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    store = dist.PrefixStore(attempt, store)  # type: ignore[attr-defined]
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    backend = "cpu:gloo,cuda:nccl" if has_nccl else "gloo"
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=world_size, timeout=_TIMEOUT
    )
    local_rank, local_world_size = (
        int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE")
    )
    with _deduplicate_errors(store.add), _explain_lost_processes():
        yield DistributedContext(rank, world_size, local_rank, local_world_size)
    # A wrapped model is part of a reference cycle and keeps the process group alive. Its threads
    # have to end before the interpreter does, or they abort the process.
    gc.collect()
    dist.destroy_process_group()  # not after an error: it would wait for ranks that may be gone


@contextmanager
def _explain_lost_processes() -> Iterator[None]:
    """Replace PyTorch's error about a process that has ended by a `ProcessLostError`."""
    try:
        yield
    except RuntimeError as error:  # gloo raises plain RuntimeErrors
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise ProcessLostError(
            "Another process of this run has ended, so this one ends too. Run the same command "
            "again to resume from the last checkpoint."
        ) from error


@contextmanager
def _deduplicate_errors(count: Callable[[str, int], int]) -> Iterator[None]:
    """Mark an error that another process has already reported, so that it is printed once.

    `count` adds to the counter of that name, shared by all processes, and returns its value.
    """
    try:
        yield
    except RegardError as error:
        with suppress(RuntimeError):  # torchrun itself has ended
            # A lost process is reported only if it ended without reporting an error itself.
            explained = isinstance(error, ProcessLostError) and count("regard errors", 0) > 0
            error.is_reported = explained or count(f"regard error: {error}", 1) > 1
            count("regard errors", 1)
        raise
