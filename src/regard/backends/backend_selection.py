"""Selection of the inference backend: PyTorch, CTranslate2 or onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from regard.backends.ctranslate2_models import load_exported
from regard.backends.lazy_models import LazyModels
from regard.decoding.backend import Backend
from regard.decoding.runtime import BackendName, Precision
from regard.devices import is_gpu_name
from regard.errors import ConfigError, format_problems
from regard.exchange import ctranslate2_files
from regard.exchange.ctranslate2 import export_problems
from regard.exchange.onnx_model import is_onnx
from regard.exchange.requirements import require_packages


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
        and ctranslate2_files.ctranslate2_folder(single)
        and backend != "torch"
        and not is_gpu_name(device)
    ):
        require_packages("ctranslate2", extra="fast")
        exported = load_exported(single, models.folders[0], precision)
        return exported, f"Backend: {exported}."
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
    if not ctranslate2_files.is_installed():
        yield "it is not installed (pip install 'regard[fast]')"
    if is_gpu_name(device):
        yield "regard uses it on CPUs only, and the device is cuda"
    if len(models.paths) > 1:
        yield "it does not support ensembles"
    if models.folders[0].document_context.target:
        yield "it does not support document context of target sentences"
    yield from export_problems(models.folders[0].config)
