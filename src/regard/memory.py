"""How much memory this machine has, and a refusal of work that needs more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from regard.errors import ConfigError

_CGROUPS = Path("/sys/fs/cgroup")
_FLOAT = 4  # bytes
CPU = torch.device("cpu")


def machine_memory() -> int | None:
    """Bytes of memory that a process here can have at most; None: the system does not say."""
    return min(_limits(), default=None)


def refuse_beyond(floats: int, what: str, advice: str, device: torch.device = CPU) -> None:
    """Say that so many float32 numbers cannot fit; unless the size of the memory is unknown."""
    where, memory, needed = "this machine", machine_memory(), _FLOAT * floats
    if device.type == "cuda":
        where, memory = "the GPU", torch.cuda.get_device_properties(device).total_memory
    if memory is not None and needed > memory:
        raise ConfigError(
            f"{what} needs {needed / 1e9:,.1f} GB of memory, but {where} has {memory / 1e9:,.1f} "
            f"GB. {advice}"
        )


def _limits() -> Iterator[int]:
    """Of the machine, of the process, and of the control groups that a container or job is in."""
    try:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # another system
        return
    import resource

    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft
    for path in _group_files():
        try:
            yield int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):  # not here, or "max"
            continue


def _group_files() -> Iterator[Path]:
    yield _CGROUPS / "memory" / "memory.limit_in_bytes"
    yield _CGROUPS / "memory.max"
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in groups:
        number, _, name = line.partition("::")
        if number == "0":
            yield _CGROUPS / name.strip("/") / "memory.max"
