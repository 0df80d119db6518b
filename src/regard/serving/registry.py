"""The served models: loaded from folders, found by name, direction or task, and reloaded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.api import load
from regard.data.directions import Direction
from regard.decoding.runtime import Runtime
from regard.errors import ConfigError, RegardError
from regard.exchange import ctranslate2_files
from regard.exchange.ctranslate2 import export_problems
from regard.exchange.onnx_model import is_onnx
from regard.machine import core_count
from regard.models.folder import ModelFolder
from regard.serving.batcher import Batcher, Observer
from regard.serving.config import LimitConfig
from regard.serving.languages import Detected, LanguageDetector, matching_language
from regard.serving.models import ServedModel, folder_signature

_log = logging.getLogger("regard.serving")


@dataclass
class Registry:
    """Models by name."""

    paths: dict[str, Path]  # by name
    runtime: Runtime
    limits: LimitConfig
    observe: Observer = lambda items, tokens: None
    models: dict[str, ServedModel] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    # On a GPU, one thread at a time: a captured graph becomes invalid if another one is freed.
    _device_lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> None:
        """Load all models."""
        for name, path in self.paths.items():
            self.models[name] = self._load(name, path)

    def _load(self, name: str, path: Path) -> ServedModel:
        folder = ModelFolder.read(path)
        signature = folder_signature(path)
        with self._device_lock:
            pipeline = load_pipeline(path, folder, self.runtime)
        device = pipeline.backend.device if folder.config.translates else pipeline.model.device
        on_cpu = device is None or device.type == "cpu"
        if on_cpu:
            _use_single_threads()
        lock = None if on_cpu else self._device_lock
        tokens, queue = self.limits.batch_tokens, self.limits.max_queue
        threads = core_count() if on_cpu else 1
        batcher = Batcher(threads, tokens, queue, self.observe, lock)
        streams = self.limits.max_streams
        model = ServedModel(name, path, folder, pipeline, batcher, streams + 2, lock)
        model.signature = signature  # of before: a change while loading is noticed
        return model

    def reload(self) -> list[str]:
        """Load the models whose folders have changed; returns their names.

        Requests in progress are finished by the old model. A folder that cannot be loaded is
        reported in the log, and the old model is kept.
        """
        reloaded = []
        with self._lock:
            for name, path in self.paths.items():
                old = self.models[name]
                try:
                    if folder_signature(path) == old.signature:
                        continue
                    self.models[name] = self._load(name, path)
                except (RegardError, OSError) as error:
                    _log.error("cannot reload %s, which stays as it is: %s", name, error)
                    continue
                closing = threading.Timer(self.limits.deadline, old.close)  # requests may hold it
                closing.daemon = True
                closing.start()
                reloaded.append(name)
        return reloaded

    def close(self) -> None:
        """Finish all queued work."""
        for model in self.models.values():
            model.close()

    @property
    def queued(self) -> int:
        """The number of items that wait, of all models."""
        return sum(model.batcher.queued for model in self.models.values())

    def by_name(self, name: str) -> ServedModel | None:
        """The model with this name."""
        return self.models.get(name)

    def of_task(self, *tasks: str) -> list[ServedModel]:
        """The models with one of these tasks, in order."""
        return [model for model in self.models.values() if model.task in tasks]

    @property
    def translators(self) -> list[ServedModel]:
        """The models that translate."""
        return [model for model in self.models.values() if model.translates]

    @property
    def directions(self) -> dict[Direction, ServedModel]:
        """All directions, each with the first model for it."""
        directions: dict[Direction, ServedModel] = {}
        for model in self.translators:
            for direction in model.directions:
                directions.setdefault(direction, model)
        return directions

    @property
    def sources(self) -> list[str]:
        """All source languages, in order."""
        return [*dict.fromkeys(direction.source for direction in self.directions)]

    @property
    def targets(self) -> list[str]:
        """All target languages, in order."""
        return [*dict.fromkeys(direction.target for direction in self.directions)]

    def find_direction(self, source: str, target: str) -> Direction | None:
        """The direction of two codes of a client."""
        known_source = matching_language(source, self.sources)
        if known_source is None:
            return None
        targets = [each.target for each in self.directions if each.source == known_source]
        known_target = matching_language(target, targets)
        return None if known_target is None else Direction(known_source, known_target)

    def detect(self, text: str, target: str | None = None) -> Detected:
        """The language of a text, among those that are translated (into `target`)."""
        languages = self.sources
        if target is not None:
            into = [e.source for e in self.directions if matching_language(target, [e.target])]
            languages = [*dict.fromkeys(into)] or languages
        if not languages:
            raise ConfigError("No model with known languages is served.")
        return LanguageDetector(languages).detect(text)


def load_pipeline(path: Path, folder: ModelFolder, runtime: Runtime) -> Any:
    """The pipeline of a model; in int8, where CTranslate2 runs the model on a CPU by default."""
    if not folder.config.translates:
        return load(path, device=runtime.device)
    loading = runtime.loading
    is_free = runtime.precision is None and runtime.backend in ("auto", "ctranslate2")
    is_exported = ctranslate2_files.ctranslate2_folder(path) is not None or is_onnx(path)
    if is_free and not is_exported and ctranslate2_files.is_installed():
        from regard.devices import resolve_device

        on_cpu = resolve_device(runtime.device).type == "cpu"
        if on_cpu and not [*export_problems(folder.config)]:
            loading = {**loading, "precision": "int8"}
    return load(path, **loading)


def _use_single_threads() -> None:
    """Run each batch on one core; several run in parallel."""
    import torch

    torch.set_num_threads(1)


def named_paths(arguments: Sequence[str]) -> dict[str, Path]:
    """Folders by name: `NAME=PATH`, or a path whose last part is the name."""
    paths: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or "/" in name:
            path, name = argument, Path(argument).resolve().name
        if name in paths:
            raise ConfigError(
                f"Two models have the name {name!r}: {paths[name]} and {path}. Give one of them "
                f"another name: {name}-2={path}"
            )
        paths[name] = Path(path)
    return paths
