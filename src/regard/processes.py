"""Several processes that train one model: who each of them is, and how they agree.

`torchrun` starts them and tells each its rank. Plain numbers are exchanged over the CPU (gloo), so
that nobody waits for a GPU to hear them; gradients stay where they are (NCCL among GPUs). A process
that is alone is a team of one, and nothing is started for it.
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

from regard.errors import ConfigError, LostError, RegardError

# The others wait so long while the first validates; who dies is noticed without a clock.
_PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Team:
    """One process among all of a run; ranks begin at 0, local ones on each machine anew."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def gathered(self, number: float) -> list[float]:
        """The numbers of all processes, by rank. Nobody has them before everybody has asked."""
        if self.size == 1:
            return [number]
        everyones = [torch.zeros((), dtype=torch.float64) for _ in range(self.size)]
        dist.all_gather(everyones, torch.tensor(number, dtype=torch.float64))
        return [float(one) for one in everyones]

    def wait(self) -> None:
        """Until everybody has come here."""
        self.gathered(0)

    def add_up(self, sums: Tensor) -> None:
        """Put the sum over all processes in the place of each one's own; a GPU does not wait."""
        if self.size > 1:
            dist.all_reduce(sums)

    def wrapped(self, model: nn.Module) -> nn.Module:
        """The model, its gradients being the mean over all processes."""
        if self.size == 1:
            return model
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def own(self, device: torch.device) -> torch.device:
        """The device of this process: each has a GPU of its machine for itself."""
        if self.size == 1 or device.type != "cuda":
            return device
        if device != torch.device("cuda"):  # one with a number
            raise ConfigError(
                f"--device {device} is one GPU, and {self.size} processes need one each. Use "
                "--device cuda."
            )
        gpus = torch.cuda.device_count()
        if self.local_size > gpus:
            raise ConfigError(
                f"There are {self.local_size} processes for the GPUs of this machine, of which it "
                f"has {gpus}. Use torchrun --nproc-per-node {gpus}, or --device cpu."
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)


ALONE = Team()


def keeping_gradients(model: nn.Module, wanted: bool) -> AbstractContextManager[None]:
    """While this lasts, a wrapped model does not send its gradients, if so wanted."""
    if wanted and isinstance(model, nn.parallel.DistributedDataParallel):
        return model.no_sync()
    return nullcontext()


@contextmanager
def joined() -> Iterator[Team]:
    """The team that torchrun has put this process in; without torchrun, it is alone."""
    started = "TORCHELASTIC_RUN_ID" in os.environ
    if not started or os.environ["WORLD_SIZE"] == "1":
        yield ALONE
        return
    if not (dist.is_available() and dist.is_gloo_available()):
        raise ConfigError(
            "This PyTorch has no gloo, over which processes agree. Install one that has it, such "
            "as PyPI's for Linux, or train with one process, without torchrun."
        )
    from torch.distributed.rendezvous import rendezvous  # which is not there without gloo

    store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
    # What processes noted there before torchrun restarted them is about the dead.
    attempt = f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    store = dist.PrefixStore(attempt, store)  # type: ignore[attr-defined]
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    backend = "cpu:gloo,cuda:nccl" if has_nccl else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    local_rank, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    with _said_once(store.add), _explained_losses():
        yield Team(rank, size, local_rank, local_size)
    # A wrapped model, which is part of a cycle of references, holds on to the group. Its threads
    # have to end before Python does: what they let go of later would abort the process.
    gc.collect()
    dist.destroy_process_group()  # not after an error: it would wait for who may be gone


@contextmanager
def _explained_losses() -> Iterator[None]:
    """Turn what PyTorch says when another process is gone into a sentence with a remedy."""
    try:
        yield
    except RuntimeError as error:  # gloo's own errors have no class of theirs
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise LostError(
            "Another process of this run has ended, so this one ends too. The same command goes "
            "on from the last checkpoint."
        ) from error


@contextmanager
def _said_once(count: Callable[[str, int], int]) -> Iterator[None]:
    """Mark an error that another process has said before this one: people need it once.

    `count` adds to a number of that name, which all processes share, and returns it.
    """
    try:
        yield
    except RegardError as error:
        with suppress(RuntimeError):  # torchrun itself is gone
            # That a process is gone is worth a word only if it went without one.
            explained = isinstance(error, LostError) and count("regard errors", 0) > 0
            error.is_said = explained or count(f"regard error: {error}", 1) > 1
            count("regard errors", 1)
        raise
