"""The most memory that a process has needed; asks for PyTorch only where there is a GPU to ask.

A process inherits the peak that `getrusage` tells from the one that started it, which may be
larger than anything it does itself; Linux also keeps one for its own program alone.
"""

from __future__ import annotations

from pathlib import Path


def peak_memory(device: str) -> float:
    """Of this process so far, GiB: of PyTorch's allocator on a GPU, of everything on a CPU."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**30
    return high_water("self")


def forget_peak() -> None:
    """A GPU's peak counts from here on: there no process need be started for a measurement."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def high_water(process: int | str) -> float:
    """The peak of a process on a CPU, GiB; 0 if it is over."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peaks[0]) / 2**20 if peaks else 0.0  # from KiB
