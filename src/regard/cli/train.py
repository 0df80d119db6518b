"""regard train: trains a model from a recipe or preset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.cli.options import Assignments, DeviceOnly, argument
from regard.config import Doc, Flag, Settings
from regard.progress import TrainingProgressBar, notify, silence
from regard.training.presets import format_preset_names
from regard.training.tracking_config import TrackerName

if TYPE_CHECKING:
    from regard.distributed import DistributedContext
    from regard.training.config import RunConfig


@dataclass(frozen=True)
class RunOptions(Settings):
    """Inputs and output of a run."""

    preset: Annotated[str | None, Doc(f"preset: {format_preset_names()}")] = None
    data: Annotated[str | None, Doc("prepared folder, written by `regard prepare`")] = None
    out: Annotated[str | None, Doc("run folder to write")] = None
    init_from: Annotated[str | None, Doc("model folder to fine-tune"), Flag("--from")] = None
    log_to: Annotated[
        tuple[TrackerName, ...],
        Doc("experiment tracker that receives settings and metrics; may be repeated"),
    ] = ()

    def changes(self) -> dict[str, Any]:
        """The settings of a recipe that the options override."""
        paths = {"out": self.out, "init_from": self.init_from}
        values: dict[str, Any] = {name: path for name, path in paths.items() if path is not None}
        if self.data is not None:
            values["data"] = {"folder": self.data}
        if self.log_to:
            values["tracking"] = {"log_to": [*self.log_to]}
        return values


def train(
    run: RunOptions,
    runtime: DeviceOnly,
    recipe: Annotated[Path | None, argument("Path of a recipe, a TOML file; see recipes/.")] = None,
    assignments: Assignments = None,
) -> None:
    """Train a model; running the same command again resumes a stopped run.

    Under torchrun, training is distributed over several processes.
    """
    from regard import plugins
    from regard.distributed import distributed_context
    from regard.tasks import task_of
    from regard.tasks.recipes import build_run_config

    with distributed_context() as distributed:
        if not distributed.is_main_process:
            silence()
        config = build_run_config(
            recipe, preset=run.preset, changes=run.changes(), assignments=assignments or []
        )
        finished_before = train_with_bar(config, runtime.device, distributed)
    if finished_before:
        notify(f"The run is already finished. The model is in {config.out}.")
    else:
        command = task_of(config.model).next_command(config.out)
        notify(
            f"Finished. Next: {command.replace('regard', f'regard{plugins.plugin_options()}', 1)}"
        )


def train_with_bar(
    config: RunConfig, device: str, distributed: DistributedContext | None = None
) -> bool:
    """Train with a progress bar; returns whether the run was finished before."""
    from regard.distributed import SINGLE_PROCESS
    from regard.tracking.run import run_training

    for notice in _notices(config):
        notify(notice)
    with TrainingProgressBar() as bar:
        progress = run_training(config, device, bar, distributed or SINGLE_PROCESS, notice=notify)
    if progress.stopped_early and bar.advanced:
        notify(f"Stopped early: no improvement in {progress.waited} validations.")
    return not bar.advanced


def _notices(config: RunConfig) -> Iterator[str]:
    """Notices to print before a run."""
    from regard.data.store import Store
    from regard.exchange.huggingface import export_problems_after_training
    from regard.models.folder import ModelFolder
    from regard.tasks import task_of
    from regard.training.config import base_model_path

    store = Store(Path(config.data.folder))
    new = task_of(config.model).new_folder(config.model, store)
    if config.init_from is not None:
        old = ModelFolder.read(base_model_path(config.init_from, config.out))
        if old.mismatched_side(new.languages):  # possible with a joint tokenizer
            yield (
                f"{config.init_from} translates {old.direction}, but the data is {new.direction}. "
                "Training starts from its weights nevertheless."
            )
    is_new = not any(Path(config.out, "checkpoints").glob("*"))
    if is_new and (problems := export_problems_after_training(new)):
        yield (
            f"This model cannot be exported with --to huggingface: {'; '.join(problems)}. If you "
            "need that export, change these settings before training."
        )
    if not store.has("valid"):
        yield "The data has no validation split: the model is saved with its last weights."
