"""The most memory that a process has needed; asks for PyTorch only where there is a GPU to ask."""

from __future__ import annotations

import resource


def peak_memory(device: str) -> float:
    """So far, GiB: of PyTorch's allocator on a GPU, of the whole process on a CPU."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # from KiB
