"""Peak memory of a process; imports PyTorch only for GPUs.

The peak of `getrusage` is inherited from the parent process, which may be larger; VmHWM of Linux
is that of the process itself.
"""

from __future__ import annotations

from pathlib import Path


def peak_memory(device: str) -> float:
    """Peak memory of this process, GiB: PyTorch's allocator on a GPU, resident set on a CPU."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**30
    return peak_rss("self")


def reset_peak() -> None:
    """Reset the peak of the GPU's allocator, so that no new process is needed."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def peak_rss(process: int | str) -> float:
    """Peak resident set of a process, GiB; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peaks[0]) / 2**20 if peaks else 0.0  # from KiB
