"""Selection of the inference backend: PyTorch, CTranslate2 or onnxruntime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast, get_args

import torch

from regard.decoding.backend import Backend
from regard.decoding.config import BackendName, Precision
from regard.decoding.ctranslate2_backend import CTranslate2Backend
from regard.decoding.torch_backend import (
    BoundedAutoregressive,
    NonAutoregressiveBackend,
    TorchBackend,
)
from regard.devices import Precision as TorchPrecision
from regard.devices import is_gpu_name
from regard.errors import ConfigError, format_problems
from regard.exchange import ctranslate2
from regard.exchange.digests import verify_digests
from regard.exchange.onnx_model import OnnxModel, is_onnx
from regard.exchange.requirements import require_packages
from regard.files import explain_os_errors
from regard.foreign_models import refuse_exported as refuse_exported
from regard.models.base import AutoregressiveModel, Model
from regard.models.folder import ModelFolder, load_model


@dataclass(frozen=True)
class LazyModels:
    """The models of one or more folders, loaded on first use."""

    paths: Sequence[Path]
    folders: Sequence[ModelFolder]
    device: torch.device
    precision: str | None = None  # of the PyTorch backend: float32 or bfloat16; others: auto
    teacher: Path | None = None  # reranks the candidates of a non-autoregressive model

    @cached_property
    def loaded(self) -> list[Model]:
        """All models, in PyTorch."""
        return [self._load(number, self.device) for number in range(len(self.paths))]

    @cached_property
    def torch_backend(self) -> TorchBackend | NonAutoregressiveBackend:
        """The PyTorch searches over all models, some of which may run in onnxruntime."""
        if any(map(is_onnx, self.paths)):
            return TorchBackend(self._load_decoders(), torch.device("cpu"))
        supported: dict[str | None, TorchPrecision] = {
            "float32": "float32",
            "bfloat16": "bfloat16",
        }
        precision = supported.get(self.precision, "auto")
        first, *others = self.loaded
        if not first.config.autoregressive and not others:
            return NonAutoregressiveBackend(first, self.device, precision, self._load_teacher())
        return TorchBackend([*map(require_autoregressive, self.loaded)], self.device, precision)

    def _load_teacher(self) -> Model | None:
        if self.teacher is None:
            return None
        refuse_exported(self.teacher)
        folder = ModelFolder.read(self.teacher)
        if folder.tokenizers != self.folders[0].tokenizers:
            raise ConfigError(
                f"{self.teacher} and {self.paths[0]} use different tokenizers, so the first cannot "
                "rerank candidates of the second. Use a teacher trained on the same prepared data."
            )
        return require_autoregressive(load_model(self.teacher, self.device, folder)[1])

    def ctranslate2_backend(self, precision: Precision) -> CTranslate2Backend:
        """The first model, converted to CTranslate2."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            model = self._load(0, torch.device("cpu"))
            with explain_os_errors(Path(tempfile.gettempdir())):
                ctranslate2.write_model(self.folders[0], model, folder, precision=precision)
            return CTranslate2Backend(folder, self.folders[0].tokenizers, compute=precision)

    def _load_decoders(self) -> list[BoundedAutoregressive]:
        cpu = torch.device("cpu")
        return [
            OnnxModel(path, folder)
            if is_onnx(path)
            else require_autoregressive(self._load(number, cpu))
            for number, (path, folder) in enumerate(zip(self.paths, self.folders, strict=True))
        ]

    def _load(self, number: int, device: torch.device) -> Model:
        refuse_exported(self.paths[number])
        return load_model(self.paths[number], device, self.folders[number])[1]


def require_autoregressive(model: Model) -> AutoregressiveModel:
    """The model, or a ConfigError if it is not autoregressive."""
    if not model.config.autoregressive:
        raise ConfigError(
            f"Model kind {model.config.kind!r} is non-autoregressive: it cannot be part of an "
            "ensemble, nor rerank candidates. Use it alone."
        )
    return cast(AutoregressiveModel, model)


def select_backend(
    models: LazyModels, *, device: str, backend: str, precision: str | None
) -> tuple[Backend, str]:
    """Select a backend by name; returns it and a notice with its name.

    "auto" is CTranslate2 on a CPU, if it is installed and supports the model, else PyTorch. The
    default precision is that of the backend or of the exported model.
    """
    _check_name("backend", backend, get_args(BackendName))
    _check_name("precision", precision or "float32", get_args(Precision))
    if models.teacher is not None and models.folders[0].config.autoregressive:
        raise ConfigError(
            f"{models.paths[0]} is autoregressive, but --teacher reranks only candidates of "
            "non-autoregressive models. Leave out --teacher."
        )
    if any(map(is_onnx, models.paths)):
        if backend == "ctranslate2" or precision not in (None, "float32"):
            raise ConfigError(
                "A model exported to ONNX runs in onnxruntime, in float32. Leave out --backend and "
                "--precision, or use the model that was exported."
            )
        return models.torch_backend, "Backend: onnxruntime on the CPU."
    single = models.paths[0] if len(models.paths) == 1 else None
    if (
        single
        and ctranslate2.ctranslate2_folder(single)
        and backend != "torch"
        and not is_gpu_name(device)
    ):
        return _load_exported_backend(single, models.folders[0], precision)
    if precision == "int8" and backend == "torch":
        raise ConfigError("int8 is only available with --backend ctranslate2.")
    if precision == "bfloat16" and backend == "ctranslate2":
        raise ConfigError("bfloat16 is only available with --backend torch.")
    backend = {"int8": "ctranslate2", "bfloat16": "torch"}.get(precision or "", backend)
    if backend == "torch" or (backend == "auto" and models.device.type == "cuda"):
        return models.torch_backend, f"Backend: {models.torch_backend}."
    reasons = list(_unsupported_reasons(models, device))
    if not reasons:
        converted = models.ctranslate2_backend("int8" if precision == "int8" else "float32")
        return converted, f"Backend: {converted}."
    if backend == "ctranslate2":
        raise ConfigError(format_problems(reasons, "CTranslate2 cannot run this model"))
    notice = f"Backend: {models.torch_backend}. CTranslate2 is not used: {'; '.join(reasons)}."
    return models.torch_backend, notice


def _check_name(setting: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        choices = f"{', '.join(names[:-1])} or {names[-1]}"
        raise ConfigError(f"Unknown {setting} {name!r}. Use {choices}.")


def _unsupported_reasons(models: LazyModels, device: str) -> Iterator[str]:
    """All reasons why CTranslate2 cannot run these models."""
    if not ctranslate2.is_installed():
        yield "it is not installed (pip install 'regard[fast]')"
    if is_gpu_name(device):
        yield "regard uses it on CPUs only, and the device is cuda"
    if len(models.paths) > 1:
        yield "it does not support ensembles"
    yield from ctranslate2.export_problems(models.folders[0].config)


def _load_exported_backend(
    path: Path, folder: ModelFolder, precision: str | None
) -> tuple[Backend, str]:
    """The backend of a model that was exported to CTranslate2, in the precision of the export."""
    require_packages("ctranslate2", extra="fast")
    exported = ctranslate2.ctranslate2_folder(path)
    assert exported is not None
    verify_digests(path)
    backend = CTranslate2Backend(exported, folder.tokenizers)
    if precision not in (None, backend.precision):
        raise ConfigError(
            f"{path} was exported in {backend.precision}. Leave out --precision, or export it "
            f"again with --precision {precision}."
        )
    return backend, f"Backend: {backend}."
