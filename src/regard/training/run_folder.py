"""The run folder: locked by one process, and used by one run only.

run.json           the settings and the fingerprint of the data, which identify the run
lock               locked while a process trains
metrics.jsonl      the metrics log
checkpoints/       from which the run is resumed
config.json, ...   a model folder with the best weights so far
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Settings, Tree
from regard.data.store import Store
from regard.errors import RunError
from regard.files import LOCK, is_temporary_path, locked_folder, write_json
from regard.models.folder import read_weights_metadata, upgrade_settings
from regard.schema import JsonReader
from regard.settings_tree import to_tree, tree_differences
from regard.training.config import RunConfig

RUN = "run.json"
FORMAT = 1
_READER = JsonReader(RunError, "Choose another --out.")
# Settings that may differ when a run is resumed: length, logging, checkpoints and paths.
_CHANGEABLE = {
    *("out", "init_from", "data.folder", "training.max_steps", "training.patience"),
    *("training.checkpoint_every", "training.keep_checkpoints"),
    *("training.log_every", "training.tensorboard"),
    *("tracking.log_to", "tracking.project", "tracking.name"),
}


@dataclass(frozen=True)
class _Identity(Settings):
    """The fields of `run.json`."""

    format: int
    settings: dict[str, Any]
    data: str


@contextmanager
def locked_run(config: RunConfig, store: Store) -> Iterator[None]:
    """Lock the folder of a run, and check that it belongs to this run."""
    out = Path(config.out)
    _refuse_foreign_folder(out)
    with locked_folder(out):
        settings = to_tree(config)
        identity = {"format": FORMAT, "settings": settings, "data": store.fingerprint}
        _refuse_other_run(out, identity)
        write_json(out / RUN, identity)
        yield


def _refuse_foreign_folder(out: Path) -> None:
    if not out.exists() or (out / RUN).is_file():
        return
    if not out.is_dir() or any(
        path.name != LOCK and not is_temporary_path(path) for path in out.iterdir()
    ):
        raise RunError(
            f"{out} exists and is not a run folder; nothing was changed. Choose another --out."
        )


def _refuse_other_run(out: Path, identity: Tree) -> None:
    path = out / RUN
    if not path.is_file():
        return
    old, _ = _READER.read_versioned(_Identity, path, FORMAT)
    previous = _READER.build(RunConfig, _upgrade_settings(old.settings, path), path)
    if not any((out / "checkpoints").glob("*")):
        _refuse_lost_checkpoints(out, previous.training.checkpoint_every)
        return  # a new run overwrites nothing
    changed = tree_differences(to_tree(previous), identity["settings"])
    changed = [change for change in changed if change.partition(":")[0] not in _CHANGEABLE]
    if old.data != identity["data"]:
        changed.append("the prepared data has changed")
    if changed:
        raise RunError(
            f"{out} contains another run: {'; '.join(changed)}. Choose another --out to start a "
            "new run, or use the old settings to resume."
        )


def _refuse_lost_checkpoints(out: Path, first_checkpoint: int) -> None:
    """Refuse to overwrite a finished model whose checkpoints were removed.

    A model without checkpoints may also be of a run that was killed before its first one.
    """
    step_text = read_weights_metadata(out).get("step", "0")
    step = int(step_text) if re.fullmatch("[0-9]{1,18}", step_text) else first_checkpoint + 1
    if step > first_checkpoint:
        raise RunError(
            f"{out} has a model of step {step}, but no checkpoints, so it cannot be resumed. "
            "Choose another --out, or delete the folder to start again."
        )


def _upgrade_settings(settings: Tree, path: Path) -> Tree:
    """The settings of a run, converted from earlier versions."""
    model = settings.get("model")
    if not isinstance(model, dict) or not isinstance(settings.get("out"), str):
        raise _READER.content_error(path, "settings.model and settings.out are required")
    return {**settings, "model": upgrade_settings(model)}
