"""Tensors in safetensors files: checked when they are read, and written whole or not at all.

The header says names, types and shapes, and must fit the file; all of it is known before any memory
is taken. Every floating-point tensor that is read is finite: NaN or infinite weights would give
empty translations with the best possible score.
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
from regard.files import whole_file
from regard.recognize import exported_model
from regard.regular import open_regular
from regard.schema import JsonReader

LARGEST = 1e15  # of weights that are trained
_FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_INTEGERS = {"I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}
_TYPES = {**_FLOATS, **_INTEGERS}
_NOTES = JsonReader(ModelError, "Copy it again.")


@dataclass(frozen=True)
class TensorSpec:
    """The type and shape of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> TensorSpec:
        """Those of a tensor."""
        return TensorSpec(tensor.dtype, tuple(tensor.shape))

    def fits(self, wanted: TensorSpec) -> bool:
        """Whether such a tensor can be copied into one: any float is a float, no integer is."""
        floats = self.dtype.is_floating_point and wanted.dtype.is_floating_point
        return self.shape == wanted.shape and (floats or self.dtype == wanted.dtype)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"


def specs(tensors: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """The types and shapes of tensors."""
    return {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}


def tensor_specs(path: Path) -> dict[str, TensorSpec]:
    """The types and shapes of the tensors in a file, from its header alone."""
    with _opened(path) as file:
        return {name: _spec(file, name, path) for name in file.keys()}  # noqa: SIM118


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, all finite, and its notes."""
    with _opened(path) as file:
        names = list(file.keys())
        for name in names:
            _spec(file, name, path)
        tensors = {name: file.get_tensor(name) for name in names}
        notes = _notes(file, path)
    refuse_nonfinite(tensors, path)
    return tensors, notes


def read_notes(path: Path) -> dict[str, str]:
    """The notes of a file, without its tensors."""
    with _opened(path) as file:
        return _notes(file, path)


def refuse_nonfinite(
    tensors: Mapping[str, Tensor], origin: Path, largest: float | None = None
) -> None:
    """Raise an error that names the tensors with NaN or infinite numbers, or larger ones than that.

    A flipped bit of an exponent gives a number whose products overflow to NaN.
    """
    bad = sorted(name for name, tensor in tensors.items() if not _is_within(tensor, largest))
    if bad:
        beyond = f" or beyond {largest:g}" if largest else ""
        raise ModelError(
            f"{origin} has weights that are NaN or infinite{beyond} ({', '.join(bad[:3])}; "
            f"{len(bad)} in all). Copy it again; if it was trained so, use an earlier checkpoint."
        )


def _is_within(tensor: Tensor, largest: float | None) -> bool:
    """Whether all numbers of a tensor are finite and no larger than that."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    limit = min(largest or math.inf, torch.finfo(tensor.dtype).max)
    low, high = tensor.aminmax()  # NaN if there is one
    return bool((low >= -limit) & (high <= limit))


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all numbers of many tensors are finite; a GPU is asked once."""
    sums = [tensor.sum(dtype=torch.float32) for tensor in tensors if tensor.is_floating_point()]
    return not sums or bool(torch.stack(sums).isfinite().all())


def refuse_misfits(
    found: Mapping[str, TensorSpec], wanted: Mapping[str, TensorSpec], origin: Path
) -> None:
    """Raise an error unless names, shapes and types are those wanted, all of them."""
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    bent = [
        name for name in sorted(wanted.keys() & found.keys()) if not found[name].fits(wanted[name])
    ]
    shown = [f"{name}: {found[name]}, not {wanted[name]}" for name in bent]
    for names, what in ((missing, "lacks"), (extra, "has unknown"), (shown, "has misshapen")):
        if names:
            raise ModelError(
                f"{origin} {what} weights ({', '.join(names[:3])}; {len(names)} in all), so it "
                "does not belong to its config.json. Copy the whole folder again."
            )


def _spec(file: Any, name: str, path: Path) -> TensorSpec:
    part = file.get_slice(name)
    dtype = part.get_dtype()
    if dtype not in _TYPES:
        raise ModelError(
            f"{path}: {name} is of type {dtype}, and weights are of {', '.join(_FLOATS)}. "
            "Convert it, or copy it again."
        )
    return TensorSpec(_TYPES[dtype], tuple(part.get_shape()))


def _notes(file: Any, path: Path) -> dict[str, str]:
    text: str = (file.metadata() or {}).get("notes", "{}")
    notes = _NOTES.parse(text.encode(), f"The notes of {path}")
    for name, value in notes.items():
        if not isinstance(value, str):
            raise _NOTES.wrong(f"The notes of {path}", f"{name} must be text")
    return notes


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file, or a sentence about why it cannot be read."""
    if not path.exists():
        raise ModelError(
            exported_model(path.parent)
            or f"{path.parent} is incomplete: {path.name} is missing. Copy the whole folder again, "
            "or train until the first checkpoint."
        )
    try:
        open_regular(path).close()
        with safe_open(path, framework="pt") as file:
            yield file
    except StorageError as error:
        raise ModelError(str(error)) from None
    except OSError:
        raise ModelError(f"{path} cannot be read. Check what it is, and its permissions.") from None
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged or truncated ({error}). Copy it again.") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    with whole_file(path) as temporary:
        plain = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        # In one entry: the order of several is another each time, and equal weights should be
        # equal files.
        save_file(plain, temporary, metadata={"notes": json.dumps(notes, sort_keys=True)})
