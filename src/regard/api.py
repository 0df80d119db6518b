"""Public functions of the package: prepare, train, tune, load, and registration of plugins."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin

from regard.config import RenamedWarning, Tree, build, settings_of
from regard.data.file_options import FILE_OPTIONS, FileOptions, select_files
from regard.data.prepare import prepare as prepare_store
from regard.data.store import Store
from regard.errors import ConfigError, StorageError
from regard.exchange.requirements import require_packages
from regard.models import register_model as register_model
from regard.models.folder import ModelFolder
from regard.progress import TrainingProgressBar, TuningProgressBar, notify, progress_counter
from regard.settings_tree import merge_trees, nest_names
from regard.tasks import register_task as register_task
from regard.tasks import task_of
from regard.tasks.recipes import build_run_config
from regard.text.config import TokenizerConfig
from regard.text.folder import load_folder_tokenizers
from regard.tracking.callback import warn
from regard.tracking.run import CallbackList, run_training
from regard.training.checkpoint import Progress
from regard.training.config import RunConfig
from regard.training.loop import TrainingCallback
from regard.training.metrics_log import Row, read_metrics
from regard.tuning.config import TuneConfig
from regard.tuning.result import TuningResult
from regard.tuning.space import read_space

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
    """Validate and filter text files, train a tokenizer, and write token ids to the folder `out`.

    `options` are those of `regard prepare`: `source` and `target`, `text`, `tagged` or `labelled`
    (one path or several), filters such as `max_tokens`, and tokenizer settings such as
    `vocab_size`. `valid` is the validation file, or its source and target file.
    """
    out = _path(out, "out")
    if out.exists() and not overwrite:
        raise StorageError(f"{out} exists already. Choose another out, or pass overwrite=True.")
    settings = {name: options.pop(name) for name in [*options] if name in _TOKENIZER}
    config = build(TokenizerConfig, settings | ({"kind": tokenizer} if tokenizer else {}))
    if tokenizer_from is not None and ({*settings} - {"reverse_target"} or tokenizer):
        raise ConfigError(
            "tokenizer_from cannot be combined with tokenizer settings. Leave out one of them."
        )
    values = {name: value for name, value in options.items() if value is not None}
    selected = next((cls for cls in FILE_OPTIONS if values.get(cls.main)), FILE_OPTIONS[0])
    files = select_files(_convert_paths(selected, values, valid))
    with progress_counter() if progress else nullcontext(_no_progress) as report:
        prepare_store(
            files.reader(),
            out,
            tokenizer=config
            if tokenizer_from is None
            else load_folder_tokenizers(
                _path(tokenizer_from, "tokenizer_from"), reverse_target=config.reverse_target
            ),
            languages=files.languages,
            progress=report,
        )
    return Store(out)


def _no_progress(task: str, completed: int) -> None:
    """Report nothing."""


def _path(value: Any, name: str) -> Path:
    """An argument as a path; raises an error for other types."""
    if not isinstance(value, str | Path):
        raise ConfigError(f"{name} is {type(value).__name__}, but must be a path: str or Path.")
    return Path(value)


def _convert_paths(cls: type[FileOptions], values: Tree, valid: Any) -> Tree:
    """The options with the types of the class's fields: paths, or lists of paths."""
    options = {**values}
    if valid is not None:
        if not isinstance(valid, str | Path | list | tuple):
            raise ConfigError(f"valid is {type(valid).__name__}, but must be one path, or two.")
        files = [valid] if isinstance(valid, str | Path) else [*valid]
        if len(files) != len(cls.valid):
            raise ConfigError(
                f"valid has {len(files)} files, but must have {len(cls.valid)}: "
                f"{', '.join(cls.valid)}."
            )
        options |= dict(zip(cls.valid, files, strict=True))
    for setting in settings_of(cls):
        value = options.get(setting.name)
        if get_origin(setting.type) is tuple and isinstance(value, str | Path):
            options[setting.name] = value = [value]
        if Path in (setting.type, *get_args(setting.type)) and value is not None:
            several = value if isinstance(value, list | tuple) else [value]
            paths = [_path(item, setting.name) for item in several]
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
        """Load the best model as a pipeline; `options` are those of `regard.load`."""
        return load(self.folder, **options)


def train(
    recipe: PathLike | None = None,
    *,
    data: PathLike | Store | None = None,
    out: PathLike | None = None,
    preset: str | None = None,
    init_from: PathLike | None = None,
    device: str = "auto",
    callbacks: Sequence[TrainingCallback] = (),
    progress: bool = False,
    **overrides: Any,
) -> Run:
    """Train a model with a recipe or preset; the same call resumes a stopped run.

    `overrides` are settings: `training={"max_steps": 100}` or `**{"training.max_steps": 100}`.
    """
    paths = {"out": out, "init_from": init_from}
    changes: Tree = {name: str(path) for name, path in paths.items() if path is not None}
    if data is not None:
        changes["data"] = {"folder": str(data.folder if isinstance(data, Store) else data)}
    for callback in callbacks:
        if not all(
            callable(getattr(callback, name, None))
            for name in ("on_train_begin", "on_step_end", "on_log")
        ):
            raise ConfigError(
                f"The callback {callback!r} needs the methods on_train_begin, on_step_end and "
                "on_log."
            )
    path = None if recipe is None else Path(recipe)
    settings = merge_trees(changes, nest_names(overrides))
    config = build_run_config(path, preset=preset, changes=settings, assignments=())
    with TrainingProgressBar() if progress else nullcontext() as bar:
        callbacks = [*callbacks, *([bar] if bar else [])]
        notice = notify if progress else warn
        run_progress = run_training(config, device, CallbackList(callbacks), notice=notice)
        return Run(Path(config.out), run_progress)


def tune(
    recipe: PathLike | None = None,
    *,
    space: PathLike | Mapping[str, Any],
    out: PathLike,
    data: PathLike | Store | None = None,
    preset: str | None = None,
    device: str = "auto",
    progress: bool = False,
    **options: Any,
) -> TuningResult:
    """Search for the best settings of a run with Optuna; the same call resumes a stopped search.

    `space` is a TOML file with the settings to tune, or the same as a dictionary. `options` are
    those of `regard tune` (`trials`, `parallel`, `metric`, `pruner`, `timeout`, `seed`, `keep`),
    and settings of all trials as for `train`. Each trial is trained in a process of its own, so
    model kinds and tasks that are registered here have to be plugins.
    """
    names = {field.name for field in fields(TuneConfig)}
    config = build(TuneConfig, {name: options.pop(name) for name in [*options] if name in names})
    changes: Tree = {"out": str(_path(out, "out"))}
    if data is not None:
        changes["data"] = {"folder": str(data.folder if isinstance(data, Store) else data)}
    settings = merge_trees(changes, nest_names(options))
    path = None if recipe is None else Path(recipe)
    base = build_run_config(path, preset=preset, changes=settings, assignments=())
    source = space if isinstance(space, Mapping) else _path(space, "space")
    return run_tuning(base, source, config, device, show_progress=progress)


def run_tuning(
    base: RunConfig,
    space: Path | Mapping[str, Any],
    config: TuneConfig,
    device: str,
    *,
    show_progress: bool,
) -> TuningResult:
    """Tune the settings of a space; `base` has all others, and the folder of the search."""
    require_packages("optuna", extra="tune")
    from regard.tuning.tuner import Tuner

    tuner = Tuner(base, read_space(space, base), config, device=device)
    with TuningProgressBar(tuner.metric.title) if show_progress else nullcontext() as bar:
        return tuner.run(bar)


def load(
    *folders: PathLike,
    device: str = "auto",
    backend: str = "auto",
    precision: str | None = None,
    teacher: PathLike | None = None,
    engine: str | None = None,
) -> Any:
    """Load a model folder as the pipeline of its task.

    This is a Translator, Generator, MaskFiller, Embedder, Tagger or Classifier. Several folders of
    translators are loaded as an ensemble. For translators, `backend` is "torch", "ctranslate2", or
    "auto": CTranslate2 on a CPU, if it is installed and can run the model; `precision` is
    "float32", "bfloat16" (PyTorch; the default on a GPU) or "int8" (CTranslate2); `teacher` is the
    folder of an autoregressive model that reranks the candidates of a non-autoregressive one.
    `engine` is the former name of `backend`.
    """
    if engine is not None:
        text = "load(engine=...) is now load(backend=...)."
        warnings.warn(text, RenamedWarning, stacklevel=2)
        backend = engine
    if not folders or not all(isinstance(folder, str | Path) for folder in folders):
        raise ConfigError(
            "No model folder is given. Pass the path of a model folder, or several paths as "
            'separate arguments: load("runs/a", "runs/b").'
        )
    paths = [Path(folder) for folder in folders]
    task = task_of(ModelFolder.read(paths[0]).config)
    options = {"backend": backend, "precision": precision, "teacher": teacher}
    return task.load(*paths, device=device, **options)
