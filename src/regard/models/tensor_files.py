"""Reading and writing of safetensors files, validated and atomic.

Names, types and shapes are read from the header before any tensor is loaded. Floating-point tensors
must be finite: NaN or infinite weights would give empty translations with the best possible score.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import ModelError, StorageError
from regard.files import atomic_file
from regard.foreign_models import describe_exported_model
from regard.regular_files import open_regular_file
from regard.schema import JsonReader

MAX_WEIGHT = 1e15  # absolute value of a weight
_FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_INTEGERS = {"I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}
_TYPES = {**_FLOATS, **_INTEGERS}
_READER = JsonReader(ModelError, "Copy it again.")


@dataclass(frozen=True)
class TensorSpec:
    """The type and shape of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> TensorSpec:
        """The type and shape of a tensor."""
        return TensorSpec(tensor.dtype, tuple(tensor.shape))

    def fits(self, expected: TensorSpec) -> bool:
        """Whether a tensor can be copied into another; any float type fits any float type."""
        floats = self.dtype.is_floating_point and expected.dtype.is_floating_point
        return self.shape == expected.shape and (floats or self.dtype == expected.dtype)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"


def tensor_specs(tensors: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """The types and shapes of tensors."""
    return {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}


def read_tensor_specs(path: Path) -> dict[str, TensorSpec]:
    """The types and shapes of the tensors of a file, from its header."""
    with _open_safetensors(path) as file:
        return {name: _spec(file, name, path) for name in file.keys()}  # noqa: SIM118


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, which are all finite, and its metadata."""
    with _open_safetensors(path) as file:
        names = list(file.keys())
        for name in names:
            _spec(file, name, path)
        tensors = {name: file.get_tensor(name) for name in names}
        metadata = _metadata(file, path)
    refuse_nonfinite(tensors, path)
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a file, without its tensors."""
    with _open_safetensors(path) as file:
        return _metadata(file, path)


def refuse_nonfinite(
    tensors: Mapping[str, Tensor], path: Path, maximum: float | None = None
) -> None:
    """Raise an error that names the tensors with values that are NaN, infinite or above `maximum`.

    A flipped bit of an exponent gives a finite number whose products overflow.
    """
    bad = sorted(name for name, tensor in tensors.items() if not _is_within(tensor, maximum))
    if bad:
        beyond = f" or beyond {maximum:g}" if maximum else ""
        raise ModelError(
            f"{path} has weights that are NaN or infinite{beyond} ({', '.join(bad[:3])}; "
            f"{len(bad)} in all). Copy it again; if training diverged, use an earlier checkpoint."
        )


def _is_within(tensor: Tensor, maximum: float | None) -> bool:
    """Whether all values of a tensor are finite and their absolute values at most `maximum`."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    limit = min(maximum or math.inf, torch.finfo(tensor.dtype).max)
    low, high = tensor.aminmax()  # NaN if there is one
    return bool((low >= -limit) & (high <= limit))


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all values of many tensors are finite, with one device synchronization."""
    sums = [tensor.sum(dtype=torch.float32) for tensor in tensors if tensor.is_floating_point()]
    return not sums or bool(torch.stack(sums).isfinite().all())


def refuse_mismatched_tensors(
    actual: Mapping[str, TensorSpec], expected: Mapping[str, TensorSpec], path: Path
) -> None:
    """Raise an error unless all names, shapes and types are as expected."""
    missing = sorted(expected.keys() - actual.keys())
    unknown = sorted(actual.keys() - expected.keys())
    mismatched = [
        f"{name}: {actual[name]}, not {expected[name]}"
        for name in sorted(expected.keys() & actual.keys())
        if not actual[name].fits(expected[name])
    ]
    problems = (missing, "lacks"), (unknown, "has unknown"), (mismatched, "has mismatched")
    for names, problem in problems:
        if names:
            raise ModelError(
                f"{path} {problem} weights ({', '.join(names[:3])}; {len(names)} in all), so it "
                "does not belong to its config.json. Copy the whole folder again."
            )


def _spec(file: Any, name: str, path: Path) -> TensorSpec:
    part = file.get_slice(name)
    dtype = part.get_dtype()
    if dtype not in _TYPES:
        raise ModelError(
            f"{path}: {name} has the unsupported type {dtype}; supported are {', '.join(_FLOATS)}. "
            "Convert it, or copy it again."
        )
    return TensorSpec(_TYPES[dtype], tuple(part.get_shape()))


def _metadata(file: Any, path: Path) -> dict[str, str]:
    text: str = (file.metadata() or {}).get("notes", "{}")
    metadata = _READER.parse(text.encode(), f"The metadata of {path}")
    for name, value in metadata.items():
        if not isinstance(value, str):
            raise _READER.content_error(f"The metadata of {path}", f"{name} must be text")
    return metadata


@contextmanager
def _open_safetensors(path: Path) -> Iterator[Any]:
    """An open safetensors file; a `ModelError` if it cannot be read."""
    if not path.exists():
        raise ModelError(
            describe_exported_model(path.parent)
            or f"{path.parent} is incomplete: {path.name} is missing. Copy the whole folder again, "
            "or train until the first checkpoint."
        )
    try:
        open_regular_file(path).close()
        with safe_open(path, framework="pt") as file:
            yield file
    except StorageError as error:
        raise ModelError(str(error)) from None
    except OSError:
        raise ModelError(f"{path} cannot be read. Check the file and its permissions.") from None
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged or truncated ({error}). Copy it again.") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically."""
    with atomic_file(path) as temporary:
        host = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        # One entry: the order of several is random, and equal weights should give equal files.
        save_file(host, temporary, metadata={"notes": json.dumps(metadata, sort_keys=True)})
