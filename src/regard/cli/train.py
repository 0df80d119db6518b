"""regard train: a recipe or a preset in, a model out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.cli.options import Assignments, DeviceOnly, argument
from regard.config import Doc, Flag, Settings
from regard.progress import TrainingBar, be_quiet, say
from regard.training.presets import names_of_presets

if TYPE_CHECKING:
    from regard.processes import Team
    from regard.training.config import RunConfig


@dataclass(frozen=True)
class RunOptions(Settings):
    """What a run reads and writes."""

    preset: Annotated[str | None, Doc(f"one of {names_of_presets()}")] = None
    data: Annotated[str | None, Doc("a folder from `regard prepare`")] = None
    out: Annotated[str | None, Doc("the run folder")] = None
    init_from: Annotated[
        str | None, Doc("a model folder to begin with: fine-tuning"), Flag("--from")
    ] = None

    def changes(self) -> dict[str, Any]:
        """The settings of a recipe that these replace."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        given.pop("preset", None)
        return given | ({"data": {"folder": self.data}} if self.data is not None else {})


def train(
    run: RunOptions,
    runtime: DeviceOnly,
    recipe: Annotated[Path | None, argument("A TOML file; see recipes/.")] = None,
    assignments: Assignments = None,
) -> None:
    """Train a model; the same command again goes on where it stopped.

    Under torchrun, several processes train it together.
    """
    from regard import plugins
    from regard.processes import joined
    from regard.tasks import task_of
    from regard.tasks.recipes import run_config

    with joined() as team:
        if not team.is_first:
            be_quiet()
        config = run_config(
            recipe, preset=run.preset, changes=run.changes(), assignments=assignments or []
        )
        finished_before = train_with_bar(config, runtime.device, team)
    if finished_before:
        say(f"This run is finished; there is nothing left to do. Its model is in {config.out}.")
    else:
        command = task_of(config.model).next_command(config.out)
        say(f"Finished. Try: {command.replace('regard', f'regard{plugins.options()}', 1)}")


def train_with_bar(config: RunConfig, device: str, team: Team | None = None) -> bool:
    """Train with a progress bar; True if there was nothing left to do."""
    from regard.api import run_training
    from regard.processes import ALONE

    for notice in _notices(config):
        say(notice)
    with TrainingBar() as bar:
        progress = run_training(config, device, bar, team or ALONE)
    if progress.stopped_early and bar.advanced:
        say(f"Stopped early: {progress.waited} validations brought no improvement.")
    return not bar.advanced


def _notices(config: RunConfig) -> Iterator[str]:
    """What a person should know before a run."""
    from regard.data.store import Store
    from regard.exchange.huggingface import obstacles_after_training
    from regard.models.folder import ModelFolder
    from regard.tasks import task_of
    from regard.training.config import origin_of

    store = Store(Path(config.data.folder))
    new = task_of(config.model).new_folder(config.model, store)
    if config.init_from is not None:
        old = ModelFolder.read(origin_of(config.init_from, config.out))
        if old.other_side(new.languages):  # a tokenizer of both languages fits
            yield (
                f"Mind that {config.init_from} translates {old.direction}, and this data is "
                f"{new.direction}. It begins with those weights all the same."
            )
    is_new = not any(Path(config.out, "checkpoints").glob("*"))
    if is_new and (obstacles := obstacles_after_training(new)):
        yield (
            f"`regard export --to huggingface` will refuse this model: {'; '.join(obstacles)}. If "
            "you need that export, change these settings before training."
        )
    if not store.has("valid"):
        yield "There is no validation text: nothing is validated, and the last weights count."
