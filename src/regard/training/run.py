"""A run folder: held by one process, and by one run for ever.

run.json           the settings and the data's fingerprint: what makes it this run
lock               held while a process works here
metrics.jsonl      the story so far
checkpoints/       what the run goes on from
config.json, ...   a model folder with the best weights so far
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Settings, Tree, as_tree, build, differences
from regard.data.store import Store
from regard.errors import ConfigError, RunError
from regard.files import LOCK, is_leftover, locked, write_json
from regard.models.folder import as_today, published_notes
from regard.schema import JsonReader
from regard.training.config import RunConfig

RUN = "run.json"
FORMAT = 1
_READER = JsonReader(RunError, "Choose another --out.")
# What may differ when a run goes on: how long, what is told and kept, and where things lie.
_FREE = {
    *("out", "init_from", "data.folder", "training.max_steps", "training.patience"),
    *("training.checkpoint_every", "training.keep_checkpoints"),
    *("training.log_every", "training.tensorboard"),
}


@dataclass(frozen=True)
class _Identity(Settings):
    """The fields of `run.json`."""

    format: int
    settings: dict[str, Any]
    data: str


@contextmanager
def held(config: RunConfig, store: Store) -> Iterator[None]:
    """While this lasts, the run's folder is locked and known to be this run's."""
    out = Path(config.out)
    _refuse_foreign_folder(out)
    with locked(out):
        settings = as_tree(config)
        identity = {"format": FORMAT, "settings": settings, "data": store.fingerprint}
        _refuse_other_run(out, identity)
        write_json(out / RUN, identity)
        yield


def _refuse_foreign_folder(out: Path) -> None:
    if not out.exists() or (out / RUN).is_file():
        return
    if not out.is_dir() or any(
        path.name != LOCK and not is_leftover(path) for path in out.iterdir()
    ):
        raise RunError(
            f"{out} exists and is not a run folder, so it is left as it is. Choose another --out."
        )


def _refuse_other_run(out: Path, identity: Tree) -> None:
    path = out / RUN
    if not path.is_file():
        return
    old, _ = _READER.versioned(_Identity, path, FORMAT)
    try:
        known = build(RunConfig, _today(old.settings))  # what it did not know has its default
    except ConfigError as error:
        raise _READER.wrong(path, str(error)) from None
    if not any((out / "checkpoints").glob("*")):
        _refuse_lost_checkpoints(out, known.training.checkpoint_every)
        return  # nothing that a new run could harm
    changed = differences(as_tree(known), identity["settings"])
    changed = [change for change in changed if change.partition(":")[0] not in _FREE]
    if old.data != identity["data"]:
        changed.append("the prepared data has other contents")
    if changed:
        raise RunError(
            f"{out} holds another run: {'; '.join(changed)}. Choose another --out to start a new "
            "run, or use the old settings to go on."
        )


def _refuse_lost_checkpoints(out: Path, first_checkpoint: int) -> None:
    """A model without checkpoints is somebody's result, but for one killed at its first."""
    noted = published_notes(out).get("step", "0")
    step = int(noted) if re.fullmatch("[0-9]{1,18}", noted) else first_checkpoint + 1
    if step > first_checkpoint:
        raise RunError(
            f"{out} has a model of step {step}, but its checkpoints are gone, so it cannot go on. "
            "Choose another --out, or delete the folder to begin anew."
        )


def _today(settings: Tree) -> Tree:
    """The settings of a run, as they are called now."""
    model = settings.get("model")
    if not isinstance(model, dict) or not isinstance(settings.get("out"), str):
        raise ConfigError("settings.model and settings.out are needed")
    return {**settings, "model": as_today(model)}
