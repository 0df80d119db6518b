"""The machine: cores, memory, and whether it may have a GPU; does not import PyTorch."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ConfigError

if TYPE_CHECKING:
    import torch

_CGROUPS = Path("/sys/fs/cgroup")
_FLOAT = 4  # bytes
# Device files of the drivers of NVIDIA, of AMD, and of Windows for its Linux subsystem.
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def core_count() -> int:
    """The number of cores that this process may use; OMP_NUM_THREADS, if set, as in PyTorch."""
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if threads.isdecimal() and int(threads) > 0:
        return int(threads)
    affinity = getattr(os, "sched_getaffinity", None)  # only on Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def may_have_gpu() -> bool:
    """False if there is certainly no GPU for PyTorch, found out without importing it."""
    return sys.platform == "win32" or any(map(os.path.exists, _GPU_DRIVERS))


def memory_limit() -> int | None:
    """The most memory that a process can have, in bytes; None if the system does not report it."""
    return min(_memory_limits(), default=None)


def refuse_out_of_memory(
    floats: int, subject: str, advice: str, device: torch.device | None = None
) -> None:
    """Raise a `ConfigError` if this many float32 numbers exceed the memory, if that is known."""
    where, memory, needed = "this machine", memory_limit(), _FLOAT * floats
    if device is not None and device.type == "cuda":
        import torch

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


def keep_freed_memory() -> None:
    """Make glibc keep freed memory instead of returning it to the system.

    A training step or a beam search on a CPU allocates tensors of the same sizes again and again;
    this saves a quarter of its time.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2  # M_MMAP_MAX and so on, from malloc.h
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, -1)
    mallopt(top_pad, 64 * 2**20)
