"""The public functions of regard: prepare, train, load, and what registers plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin

from regard.config import Tree, build, merged, settings_of
from regard.data.file_options import FILE_OPTIONS, FileOptions, select_files
from regard.data.prepare import prepare as prepare_store
from regard.data.store import Store
from regard.devices import device_named, keep_freed_memory
from regard.errors import ConfigError, StorageError
from regard.models import register_model as register_model
from regard.models.folder import ModelFolder
from regard.processes import ALONE, Team
from regard.progress import TrainingBar, counting
from regard.tasks import register_task as register_task
from regard.tasks import task_of
from regard.tasks.recipes import run_config
from regard.text.config import TokenizerConfig
from regard.text.folder import tokenizers_in
from regard.training.checkpoint import Progress
from regard.training.config import RunConfig
from regard.training.loop import Watcher
from regard.training.loop import train as train_model
from regard.training.metrics_log import Row, read_metrics

PathLike = str | Path
_TOKENIZER = {field.name for field in fields(TokenizerConfig)} - {"kind"}


def prepare(
    *,
    out: PathLike,
    valid: PathLike | Sequence[PathLike] | None = None,
    tokenizer: str | None = None,
    tokenizer_from: PathLike | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **options: Any,
) -> Store:
    """Validate and filter text files, learn their subwords, and store them in the folder `out`.

    `options` are those of `regard prepare`: `source` and `target`, `text`, `tagged` or `labelled`
    (a path or several), filters such as `max_tokens`, and settings of the tokenizer such as
    `vocab_size`. `valid` is the validation file, or source and target of it.
    """
    out = _path(out, "out")
    if out.exists() and not overwrite:
        raise StorageError(f"{out} exists. Choose another out, or pass overwrite=True.")
    own = {name: options.pop(name) for name in [*options] if name in _TOKENIZER}
    config = build(TokenizerConfig, own | ({"kind": tokenizer} if tokenizer else {}))
    if tokenizer_from is not None and (own or tokenizer):
        raise ConfigError("tokenizer_from brings its own tokenizer. Leave out its settings.")
    given = {name: value for name, value in options.items() if value is not None}
    chosen = next((cls for cls in FILE_OPTIONS if given.get(cls.main)), FILE_OPTIONS[0])
    files = select_files(_paths(chosen, given, valid))
    with counting() if progress else nullcontext(_silent) as shown:
        prepare_store(
            files.reader(),
            out,
            tokenizer=config
            if tokenizer_from is None
            else tokenizers_in(_path(tokenizer_from, "tokenizer_from")),
            languages=files.languages,
            progress=shown,
        )
    return Store(out)


def _silent(task: str, done: int) -> None:
    """No progress."""


def _path(value: Any, name: str) -> Path:
    """A path that somebody gave."""
    if not isinstance(value, str | Path):
        raise ConfigError(f"{name} is {type(value).__name__}, and must be a path: text or Path.")
    return Path(value)


def _paths(cls: type[FileOptions], given: Tree, valid: Any) -> Tree:
    """The options as the fields of a class have them: paths, and lists where several are meant."""
    options = {**given}
    if valid is not None:
        if not isinstance(valid, str | Path | list | tuple):
            raise ConfigError(f"valid is {type(valid).__name__}, and must be one path, or two.")
        values = [valid] if isinstance(valid, str | Path) else [*valid]
        if len(values) != len(cls.valid):
            raise ConfigError(
                f"valid has {len(values)} files, and {len(cls.valid)} are needed: "
                f"{', '.join(cls.valid)}."
            )
        options |= dict(zip(cls.valid, values, strict=True))
    for setting in settings_of(cls):
        value = options.get(setting.name)
        if get_origin(setting.type) is tuple and isinstance(value, str | Path):
            options[setting.name] = value = [value]
        if Path in (setting.type, *get_args(setting.type)) and value is not None:
            several = value if isinstance(value, list | tuple) else [value]
            paths = [_path(one, setting.name) for one in several]
            options[setting.name] = paths if several is value else paths[0]
    return options


@dataclass(frozen=True)
class Run:
    """A run folder after training."""

    folder: Path
    progress: Progress

    @property
    def metrics(self) -> list[Row]:
        """The rows of its metrics log: losses, learning rates, validation metrics."""
        return read_metrics(self.folder)

    def load(self, **options: Any) -> Any:
        """Its best model as a pipeline; `options` are those of `regard.load`."""
        return load(self.folder, **options)


def train(
    recipe: PathLike | None = None,
    *,
    data: PathLike | Store | None = None,
    out: PathLike | None = None,
    preset: str | None = None,
    init_from: PathLike | None = None,
    device: str = "auto",
    callbacks: Sequence[Watcher] = (),
    progress: bool = False,
    **overrides: Any,
) -> Run:
    """Train a model by a recipe or a preset; the same call resumes a run that was stopped.

    `overrides` are settings: `training={"max_steps": 100}` or `**{"training.max_steps": 100}`.
    """
    paths = {"out": out, "init_from": init_from}
    changes: Tree = {name: str(path) for name, path in paths.items() if path is not None}
    if data is not None:
        changes["data"] = {"folder": str(data.folder if isinstance(data, Store) else data)}
    for callback in callbacks:
        if not all(callable(getattr(callback, name, None)) for name in ("begin", "step", "row")):
            raise ConfigError(f"The callback {callback!r} has not all of begin, step and row.")
    path = None if recipe is None else Path(recipe)
    settings = merged(changes, _nested(overrides))
    config = run_config(path, preset=preset, changes=settings, assignments=())
    with TrainingBar() if progress else nullcontext() as bar:
        watchers = [*callbacks, *([bar] if bar else [])]
        return Run(Path(config.out), run_training(config, device, Watchers(watchers)))


def _nested(overrides: Mapping[str, Any]) -> Tree:
    """Dotted names as nested tables."""
    tree: Tree = {}
    for name, value in overrides.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        tree = merged(tree, value)
    return tree


@dataclass(frozen=True)
class Watchers:
    """Several watchers as one."""

    watchers: Sequence[Watcher]

    def begin(self, step: int, max_steps: int, about: str) -> None:
        """The run starts, or is resumed, at this step."""
        for watcher in self.watchers:
            watcher.begin(step, max_steps, about)

    def step(self, step: int) -> None:
        """An update is done."""
        for watcher in self.watchers:
            watcher.step(step)

    def row(self, row: Row) -> None:
        """A row of metrics was written."""
        for watcher in self.watchers:
            watcher.row(row)


def run_training(config: RunConfig, device: str, watcher: Watcher, team: Team = ALONE) -> Progress:
    """Train by settings, on the device of that name."""
    where = team.own(device_named(device))
    if where.type == "cpu":
        keep_freed_memory()
    store = Store(Path(config.data.folder))
    task = task_of(config.model)
    return train_model(config, store, task, where, watcher=watcher, team=team)


def load(
    *folders: PathLike,
    device: str = "auto",
    backend: str = "auto",
    precision: str | None = None,
    teacher: PathLike | None = None,
) -> Any:
    """The model of a folder, as the pipeline of its task.

    That is a Translator, Generator, MaskFiller, Embedder, Tagger or Classifier. Several folders of
    translators are loaded as an ensemble. For translators, `backend` is "torch", "ctranslate2", or
    "auto": CTranslate2 on a CPU, if it is installed and can run the model; `precision` is
    "float32", "bfloat16" (PyTorch; the default on a GPU) or "int8" (CTranslate2); `teacher` is the
    folder of an autoregressive model that reranks the candidates of a non-autoregressive one.
    """
    if not folders or not all(isinstance(folder, str | Path) for folder in folders):
        raise ConfigError(
            "There is nothing to load. Give the path of a model folder, or several paths one after "
            'the other: load("runs/a", "runs/b").'
        )
    paths = [Path(folder) for folder in folders]
    task = task_of(ModelFolder.read(paths[0]).config)
    options = {"backend": backend, "precision": precision, "teacher": teacher}
    return task.load(*paths, device=device, **options)
