"""Where the arithmetic happens."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

import torch

from regard.errors import ConfigError

Precision = Literal["auto", "float32", "bfloat16"]
_WIDE = 128
_NAME = re.compile(r"cpu|cuda(:(?P<number>[0-9]{1,4}))?")


def device_named(name: str) -> torch.device:
    """The device of a name; "auto" is the GPU where there is one, "cuda:1" the second GPU.

    A GPU that is named by its number becomes PyTorch's current one, on which kernels and CUDA
    graphs run.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = _NAME.fullmatch(name)
    if found is None:
        raise ConfigError(
            f"There is no device {name!r}. Use cpu, cuda, cuda:1 (the second GPU, and so on) or "
            "auto."
        )
    if name != "cpu" and not torch.cuda.is_available():
        raise ConfigError("There is no GPU that PyTorch can use here. Use --device cpu.")
    if found["number"] is None:
        return torch.device(name)
    number, count = int(found["number"]), torch.cuda.device_count()
    if number >= count:
        these = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise ConfigError(f"There is no GPU cuda:{number}. PyTorch can use {these} here.")
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


def is_gpu_name(name: str) -> bool:
    """Whether a name asks for a GPU and nothing else."""
    return name.startswith("cuda")


def is_half(device: torch.device, precision: Precision, width: int) -> bool:
    """Whether products are made of bfloat16; "auto": wherever that is faster.

    On a CPU that takes instructions for it, and a model whose products outweigh the casts.
    """
    if precision != "auto":
        return precision == "bfloat16"
    known: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in old ones
    multiplies = bool(known.get("avx512_bf16") or known.get("amx_bf16"))
    return device.type == "cuda" or (width >= _WIDE and multiplies)


def autocast(device: torch.device, *, half: bool) -> torch.autocast:
    """The context in which a forward pass runs."""
    return torch.autocast(device.type, torch.bfloat16, enabled=half)


@functools.cache
def has_triton() -> bool:
    """Whether our GPU kernels can run: Triton builds their launcher with the system's C compiler.

    PyTorch for a GPU brings Triton along, but not on every system. GPUs older than Ampere have no
    bfloat16, for which the kernels are written.
    """
    if find_spec("triton") is None:
        return False
    import triton

    try:
        triton.runtime.driver.active.get_current_device()
    except Exception:  # no compiler, no header of Python, no driver: each fails in its own way
        return False
    return torch.cuda.get_device_capability() >= (8, 0)


def keep_freed_memory() -> None:
    """Let glibc keep what tensors free, instead of giving it back and fetching empty pages anew.

    A training step on a CPU, or a search, allocates like tensors again and again; this saves a
    quarter of it.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2  # M_MMAP_MAX and so on, from malloc.h
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # another system, another allocator
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, -1)
    mallopt(top_pad, 64 * 2**20)
