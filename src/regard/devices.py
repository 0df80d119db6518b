"""Devices and their precision: device names, autocast and Triton."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

import torch

from regard.errors import ConfigError

Precision = Literal["auto", "float32", "bfloat16"]
_MIN_BFLOAT16_WIDTH = 128  # on a CPU: below, casts cost more than they save
_NAME = re.compile(r"cpu|cuda(:(?P<index>[0-9]{1,4}))?")


def resolve_device(name: str) -> torch.device:
    """The device of a name: "auto" is a GPU if there is one, "cuda:1" the second GPU.

    A GPU given by index becomes PyTorch's current device, on which kernels and CUDA graphs run.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = str(name)  # such as torch.device("cpu")
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(
            f"Unknown device {name!r}. Use cpu, cuda, cuda:1 (the second GPU, and so on) or auto."
        )
    if name != "cpu" and not torch.cuda.is_available():
        raise ConfigError("No GPU is available to PyTorch on this machine. Use --device cpu.")
    if match["index"] is None:
        return torch.device(name)
    index, count = int(match["index"]), torch.cuda.device_count()
    if index >= count:
        available = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise ConfigError(f"This machine has no GPU cuda:{index}. Use {available}.")
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def is_gpu_name(name: str) -> bool:
    """Whether a device name requires a GPU."""
    return str(name).startswith("cuda")


def uses_bfloat16(device: torch.device, precision: Precision, width: int) -> bool:
    """Whether matrix products are computed in bfloat16; "auto": where that is faster.

    On a CPU, that requires bfloat16 instructions and a model wide enough to outweigh the casts.
    """
    if precision != "auto":
        return precision == "bfloat16"
    capabilities: Mapping[str, Any] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # not in older versions
    has_instructions = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return device.type == "cuda" or (width >= _MIN_BFLOAT16_WIDTH and has_instructions)


def autocast(device: torch.device, *, enabled: bool) -> torch.autocast:
    """The bfloat16 autocast context of a forward pass."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


@functools.cache
def has_triton() -> bool:
    """Whether our Triton kernels can run; Triton needs a C compiler for their launchers.

    PyTorch for GPUs includes Triton, but not on all systems. The kernels use bfloat16, which GPUs
    older than Ampere do not support.
    """
    if find_spec("triton") is None:
        return False
    import triton

    try:
        triton.runtime.driver.active.get_current_device()
    except Exception:  # no compiler, no Python headers, no driver: various exceptions
        return False
    return torch.cuda.get_device_capability() >= (8, 0)
