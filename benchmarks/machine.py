"""Description of the machine, and its peak matrix-product throughput."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ["torch", "triton", "transformers", "numpy"]


def describe(device: str) -> dict[str, str | int]:
    """The name of the processor or GPU, and the number of cores."""
    cores = len(os.sched_getaffinity(0))
    if device == "cuda":
        return {"device": torch.cuda.get_device_name(), "cores": cores}
    return {"device": _processor(), "cores": cores}


def has_gpu() -> bool:
    """Whether PyTorch can use a GPU."""
    return torch.cuda.is_available()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions(*more: str) -> dict[str, str]:
    """Versions of Python, regard and installed packages."""
    from regard.version import __version__

    installed = {"python": platform.python_version(), "regard": __version__}
    for package in [*PACKAGES, *more]:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def matmul_tflops(sizes: tuple[int, int, int] = (8192, 8192, 8192)) -> float:
    """TFLOP/s of a large bfloat16 matrix product on the GPU, the best of several runs."""
    rows, inner, columns = sizes
    left = torch.randn(rows, inner, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(inner, columns, device="cuda", dtype=torch.bfloat16)
    times = [_seconds(left, right) for _ in range(5)]
    return 2 * rows * inner * columns / min(times) / 1e12


def _seconds(left: torch.Tensor, right: torch.Tensor, repeats: int = 20) -> float:
    for _ in range(3):
        left @ right
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        left @ right
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / repeats
