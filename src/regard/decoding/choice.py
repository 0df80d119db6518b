"""Which engine translates: chosen by itself, told in one line, and settable."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast, get_args

import torch

from regard.decoding.config import EngineName, Precision
from regard.decoding.ctranslate2_engine import CTranslate2Engine
from regard.decoding.engine import Engine
from regard.decoding.torch_engine import ParallelEngine, TorchEngine, Writer
from regard.devices import Precision as Half
from regard.devices import is_gpu_name
from regard.errors import ConfigError, one_message
from regard.exchange import ctranslate2
from regard.exchange.digests import verify_digests
from regard.exchange.onnx_model import OnnxModel, is_onnx
from regard.exchange.requirements import need
from regard.files import explained
from regard.models.base import AutoregressiveModel, Model
from regard.models.folder import ModelFolder, load_model
from regard.recognize import refuse_exported as refuse_exported


@dataclass(frozen=True)
class Models:
    """The models of some folders, which are read when somebody needs them."""

    paths: Sequence[Path]
    folders: Sequence[ModelFolder]
    device: torch.device
    precision: str | None = None  # of our own engine: auto, unless it is float32 or bfloat16
    teacher: Path | None = None  # chooses among what a model writes all at once

    @cached_property
    def loaded(self) -> list[Model]:
        """All of them, ready to run."""
        return [self._read(number, self.device) for number in range(len(self.paths))]

    @cached_property
    def torch_engine(self) -> TorchEngine | ParallelEngine:
        """Our own searches over all of them, some of which may run in onnxruntime."""
        if any(map(is_onnx, self.paths)):
            return TorchEngine(self._writers(), torch.device("cpu"))
        known: dict[str | None, Half] = {"float32": "float32", "bfloat16": "bfloat16"}
        precision = known.get(self.precision, "auto")
        first, *others = self.loaded
        if not first.config.autoregressive and not others:
            return ParallelEngine(first, self.device, precision, self._loaded_teacher())
        return TorchEngine([*map(word_by_word, self.loaded)], self.device, precision)

    def _loaded_teacher(self) -> Model | None:
        if self.teacher is None:
            return None
        refuse_exported(self.teacher)
        folder = ModelFolder.read(self.teacher)
        if folder.tokenizers != self.folders[0].tokenizers:
            raise ConfigError(
                f"{self.teacher} cuts text in another way than {self.paths[0]}, so it cannot judge "
                "what that one writes. Take a teacher that was trained on data prepared likewise."
            )
        return word_by_word(load_model(self.teacher, self.device, folder)[1])

    def ctranslate2_engine(self, precision: Precision) -> CTranslate2Engine:
        """The first of them, handed over to CTranslate2."""
        with tempfile.TemporaryDirectory() as place:
            inside = Path(place) / "model"
            model = self._read(0, torch.device("cpu"))
            with explained(Path(tempfile.gettempdir())):
                ctranslate2.write_model(self.folders[0], model, inside, precision=precision)
            return CTranslate2Engine(inside, self.folders[0].tokenizers, compute=precision)

    def _writers(self) -> list[Writer]:
        cpu = torch.device("cpu")
        return [
            OnnxModel(path, own) if is_onnx(path) else word_by_word(self._read(number, cpu))
            for number, (path, own) in enumerate(zip(self.paths, self.folders, strict=True))
        ]

    def _read(self, number: int, device: torch.device) -> Model:
        refuse_exported(self.paths[number])
        return load_model(self.paths[number], device, self.folders[number])[1]


def word_by_word(model: Model) -> AutoregressiveModel:
    """The same model as an autoregressive one; others are refused."""
    if not model.config.autoregressive:
        raise ConfigError(
            f"Model kind {model.config.kind!r} writes all words at once: it can neither be part of "
            "an ensemble nor rerank candidates. Use it alone."
        )
    return cast(AutoregressiveModel, model)


def choose(
    models: Models, *, device: str, engine: str, precision: str | None
) -> tuple[Engine, str]:
    """The engine of that name, and a line about it.

    "auto": CTranslate2 on a CPU, if it is there and can run the model. Without a precision, a model
    is computed in float32, and an exported one as it was exported.
    """
    _check_name("backend", engine, get_args(EngineName))
    _check_name("precision", precision or "float32", get_args(Precision))
    if models.teacher is not None and models.folders[0].config.autoregressive:
        raise ConfigError(
            f"{models.paths[0]} writes word by word and needs no teacher. Leave out --teacher."
        )
    if any(map(is_onnx, models.paths)):
        if engine == "ctranslate2" or precision not in (None, "float32"):
            raise ConfigError(
                "What was exported to ONNX runs in onnxruntime, in float32. Leave out --backend "
                "and --precision, or use the model that it was made from."
            )
        return models.torch_engine, "Engine: onnxruntime on the CPU."
    alone = models.paths[0] if len(models.paths) == 1 else None
    if alone and ctranslate2.inside(alone) and engine != "torch" and not is_gpu_name(device):
        return _exported(alone, models.folders[0], precision)
    if precision == "int8" and engine == "torch":
        raise ConfigError("int8 is only available with --backend ctranslate2.")
    if precision == "bfloat16" and engine == "ctranslate2":
        raise ConfigError("CTranslate2 is for float32 and int8 here. Use --backend torch.")
    wanted = {"int8": "ctranslate2", "bfloat16": "torch"}.get(precision or "", engine)
    if wanted == "torch" or (wanted == "auto" and models.device.type == "cuda"):
        return models.torch_engine, f"Engine: {models.torch_engine}."
    against = list(_obstacles(models, device))
    if not against:
        found = models.ctranslate2_engine("int8" if precision == "int8" else "float32")
        return found, f"Engine: {found}."
    if wanted == "ctranslate2":
        raise ConfigError(one_message(against, "CTranslate2 cannot translate this"))
    told = f"Engine: {models.torch_engine}. CTranslate2 was left aside: {'; '.join(against)}."
    return models.torch_engine, told


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        names = f"{', '.join(known[:-1])} or {known[-1]}"
        raise ConfigError(f"There is no {what} {name!r}. Use {names}.")


def _obstacles(models: Models, device: str) -> Iterator[str]:
    """Every reason why CTranslate2 cannot translate."""
    if not ctranslate2.is_installed():
        yield "it is not installed (pip install 'regard[fast]')"
    if is_gpu_name(device):
        yield "it is for CPUs here, and the device is cuda"
    if len(models.paths) > 1:
        yield "it runs one model, not several together"
    yield from ctranslate2.obstacles(models.folders[0].config)


def _exported(path: Path, folder: ModelFolder, precision: str | None) -> tuple[Engine, str]:
    """What was exported runs as it was exported."""
    need("ctranslate2", extra="fast")
    inside = ctranslate2.inside(path)
    assert inside is not None
    verify_digests(path)
    found = CTranslate2Engine(inside, folder.tokenizers)
    if precision not in (None, found.precision):
        raise ConfigError(
            f"{path} was exported as {found.precision}. Leave the precision away, or export the "
            f"model again with --precision {precision}."
        )
    return found, f"Engine: {found}."
