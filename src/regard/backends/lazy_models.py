"""The models of translation in PyTorch, loaded on first use, alone or as an ensemble."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, cast

import torch

from regard.backends.aligners import PairAligner, make_aligner
from regard.backends.ctranslate2_backend import CTranslate2Backend
from regard.backends.ctranslate2_models import add_to_cache, load_cached
from regard.backends.rerankers import Reranker
from regard.backends.torch_backend import (
    BoundedAutoregressive,
    NonAutoregressiveBackend,
    TorchBackend,
)
from regard.devices import Precision, resolve_device
from regard.errors import ConfigError, ModelError
from regard.exchange import ctranslate2
from regard.exchange.onnx_model import OnnxModel, is_onnx
from regard.files import explain_os_errors
from regard.foreign_models import describe_exported_model, refuse_exported
from regard.models.base import AutoregressiveModel, Model
from regard.models.folder import DataStatistics, ModelFolder, load_model


@dataclass(frozen=True)
class LazyModels:
    """The models of one or more folders, loaded on first use."""

    paths: Sequence[Path]
    folders: Sequence[ModelFolder]
    device: torch.device
    precision: str | None = None  # of the PyTorch backend: float32 or bfloat16; others: auto
    teacher: Path | None = None  # reranks the candidates of a non-autoregressive model

    @staticmethod
    def read(
        paths: Sequence[Path], device: str, precision: str | None, teacher: Path | None
    ) -> LazyModels:
        """Read and check the folders of a model or an ensemble; no weights are loaded."""
        folders = [ModelFolder.read(path) for path in paths]
        ensemble_description(paths, folders)
        return LazyModels(paths, folders, resolve_device(device), precision, teacher)

    @cached_property
    def common(self) -> ModelFolder:
        """The common description of the folders."""
        return ensemble_description(self.paths, self.folders)

    @cached_property
    def loaded(self) -> list[Model]:
        """All models, in PyTorch."""
        return [self._load(number, self.device) for number in range(len(self.paths))]

    @cached_property
    def torch_backend(self) -> TorchBackend | NonAutoregressiveBackend:
        """The PyTorch searches over all models, some of which may run in onnxruntime."""
        target = self.folders[0].tokenizers.target
        if any(map(is_onnx, self.paths)):
            return TorchBackend(self._load_decoders(), torch.device("cpu"), target=target)
        supported: dict[str | None, Precision] = {
            "float32": "float32",
            "bfloat16": "bfloat16",
        }
        precision = supported.get(self.precision, "auto")
        first, *others = self.loaded
        if not first.config.autoregressive and not others:
            return NonAutoregressiveBackend(first, self.device, precision, self._load_teacher())
        models = [*map(require_autoregressive, self.loaded)]
        return TorchBackend(models, self.device, precision, target)

    @cached_property
    def aligner(self) -> PairAligner | None:
        """Aligns sources and translations by the first model; None if it cannot."""
        if describe_exported_model(self.paths[0]) is not None:
            return None
        return make_aligner(self.loaded[0], self.common.tokenizers.source)

    def rerankers(self, paths: Sequence[Path]) -> list[Reranker]:
        """The models that rerank translations; each is loaded once."""
        for path in paths:
            if path not in self._loaded_rerankers:
                loaded = Reranker.load(path, self.common, self.device)
                self._loaded_rerankers[path] = loaded
        return [self._loaded_rerankers[path] for path in paths]

    @cached_property
    def _loaded_rerankers(self) -> dict[Path, Reranker]:
        return {}

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

    def ctranslate2_backend(self, precision: Literal["float32", "int8"]) -> CTranslate2Backend:
        """The first model, converted to CTranslate2; the conversion is cached, if possible."""
        path, folder = self.paths[0], self.folders[0]
        cached = load_cached(path, folder.text, precision)
        if cached is not None:
            return cached
        model = self._load(0, torch.device("cpu"))
        write = partial(ctranslate2.write_model, folder, model, precision=precision)
        cached = add_to_cache(path, folder.text, precision, write)
        if cached is not None:
            return cached
        with tempfile.TemporaryDirectory() as temporary:
            converted = Path(temporary) / "model"
            with explain_os_errors(Path(tempfile.gettempdir())):
                write(converted)
            return CTranslate2Backend(converted, folder.tokenizers, compute=precision)

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


def ensemble_description(paths: Sequence[Path], folders: Sequence[ModelFolder]) -> ModelFolder:
    """The common description of the folders; raises an error if they cannot form an ensemble."""
    first = folders[0]
    for path, folder in zip(paths, folders, strict=True):
        if not folder.config.translates:
            raise ConfigError(
                f"{path} is a model for {folder.config.task.replace('_', ' ')} (model kind "
                f"{folder.config.kind!r}), and does not translate. In Python, `regard.load` "
                "returns its pipeline; the commands are generate, fill, embed, tag and classify."
            )
        if folder.data_statistics.longest_source < 1:  # sentences would be split into single tokens
            raise ModelError(
                f"{path}/config.json: data_statistics.longest_source is "
                f"{folder.data_statistics.longest_source}, but must be at least 1. Copy the whole "
                "folder again."
            )
        if first.mismatched_side(folder.languages):
            raise ModelError(
                f"{path} translates {folder.direction}, but {paths[0]} {first.direction}, so they "
                "cannot form an ensemble. Choose models of the same direction."
            )
        if {each.direction for each in folder.directions} != {
            each.direction for each in first.directions
        }:
            raise ModelError(
                f"{path} translates {folder.direction}, but {paths[0]} {first.direction}, so they "
                "cannot form an ensemble. Choose models of the same directions."
            )
        if folder.document_context.counts != first.document_context.counts:
            raise ModelError(
                f"{path} was trained with {folder.document_context} as document context, but "
                f"{paths[0]} with {first.document_context}, so they cannot form an ensemble. Train "
                "all of them on the same prepared data."
            )
        if folder.tokenizers.config.reverse_target != first.tokenizers.config.reverse_target:
            raise ModelError(
                f"{path} and {paths[0]} generate text in opposite orders, so they cannot form an "
                "ensemble. Use one of them with --rerank."
            )
        if folder.tokenizers != first.tokenizers:
            raise ModelError(
                f"{path} and {paths[0]} use different tokenizers, so they cannot form an ensemble. "
                "Train all of them on the same prepared data."
            )
    common = DataStatistics(
        longest_source=min(folder.data_statistics.longest_source for folder in folders),
        several_sentences=min(folder.data_statistics.several_sentences for folder in folders),
        annotated_terms=min(folder.data_statistics.annotated_terms for folder in folders),
    )
    longest_target = min(folder.document_context.longest_target for folder in folders)
    context = dataclasses.replace(first.document_context, longest_target=longest_target)
    return dataclasses.replace(first, data_statistics=common, document_context=context)
