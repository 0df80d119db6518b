"""Memory limits of the machine and the GPU, and an error for what exceeds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from regard.errors import ConfigError

_CGROUPS = Path("/sys/fs/cgroup")
_FLOAT = 4  # bytes
CPU = torch.device("cpu")


def memory_limit() -> int | None:
    """The most memory that a process can have, in bytes; None if the system does not report it."""
    return min(_memory_limits(), default=None)


def refuse_out_of_memory(
    floats: int, subject: str, advice: str, device: torch.device = CPU
) -> None:
    """Raise a `ConfigError` if this many float32 numbers exceed the memory, if that is known."""
    where, memory, needed = "this machine", memory_limit(), _FLOAT * floats
    if device.type == "cuda":
        where, memory = "the GPU", torch.cuda.get_device_properties(device).total_memory
    if memory is not None and needed > memory:
        raise ConfigError(
            f"{subject} needs {needed / 1e9:,.1f} GB of memory, but {where} has "
            f"{memory / 1e9:,.1f} GB. {advice}"
        )


def _memory_limits() -> Iterator[int]:
    """The limits of the machine, of the process, and of its control groups (containers, jobs)."""
    try:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not Linux
        return
    import resource

    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft
    for path in _cgroup_files():
        try:
            yield int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such file, or "max"
            continue


def _cgroup_files() -> Iterator[Path]:
    yield _CGROUPS / "memory" / "memory.limit_in_bytes"
    yield _CGROUPS / "memory.max"
    try:
        cgroups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in cgroups:
        number, _, name = line.partition("::")
        if number == "0":
            yield _CGROUPS / name.strip("/") / "memory.max"
