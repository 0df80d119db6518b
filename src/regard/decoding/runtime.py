"""Settings of inference: device, backend, precision and throughput; does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from regard.bounds import Ge, Le
from regard.config import Doc, Flag, Settings

if TYPE_CHECKING:
    import torch

BackendName = Literal["auto", "torch", "ctranslate2"]
MAX_WORKERS = 256  # processes
MAX_WINDOW = 1_000_000  # texts
CPU_WINDOW, GPU_WINDOW = 2048, 32_768  # texts; a GPU needs many for large batches
Precision = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True)
class Runtime(Settings):
    """Device, backend and precision of inference."""

    batch_size: Annotated[
        int | None,
        Doc("sentences per batch; default: chosen by the backend"),
        Ge(1),
        Le(100_000),
    ] = None
    backend: Annotated[
        str,
        Doc(
            "inference backend: torch, ctranslate2, or auto (CTranslate2 on a CPU, if it is "
            "installed and supports the model)"
        ),
        Flag(formerly=("--engine",)),
    ] = "auto"
    precision: Annotated[
        str | None,
        Doc(
            "precision: float32, bfloat16 (PyTorch) or int8 (CTranslate2); default: bfloat16 on "
            "a GPU, float32 elsewhere, or as exported"
        ),
    ] = None
    device: Annotated[
        str,
        Doc("device: cpu, cuda, cuda:1 (the second GPU), or auto (a GPU if there is one)"),
    ] = "auto"

    @property
    def loading(self) -> dict[str, Any]:
        """The keyword arguments of `Translator.load`."""
        return {"device": self.device, "backend": self.backend, "precision": self.precision}


@dataclass(frozen=True)
class ThroughputOptions(Settings):
    """Processing of many lines."""

    buffer_size: Annotated[
        int | None,
        Doc(
            "lines that are sorted by length and processed together; 1: each line at once; "
            "default: chosen by the backend"
        ),
        Ge(1),
        Le(MAX_WINDOW),
        Flag(formerly=("--buffer",)),
    ] = None
    workers: Annotated[
        int | None,
        Doc("processes that tokenize and detokenize; default: 0 on a CPU, up to 8 with a GPU"),
        Ge(0),
        Le(MAX_WORKERS),
    ] = None


def default_window(device: torch.device) -> int:
    """The default window of a model on a device of PyTorch."""
    return CPU_WINDOW if device.type == "cpu" else GPU_WINDOW
