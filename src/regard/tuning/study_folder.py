"""The folder of a hyperparameter search, which belongs to one search only.

study.json           what is tuned: settings, search space, data, seed
journal.jsonl        Optuna's journal of the trials, one JSON object per line
trials/0007/         the run folder of a trial
logs/0007.log        notices and errors of its process
best.toml            the recipe of the best trial
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileSymlinkLock

from regard.config import Settings, Tree
from regard.errors import RunError
from regard.files import is_temporary_path, write_json
from regard.json_text import dumps
from regard.schema import JsonReader
from regard.settings_tree import to_tree, tree_differences
from regard.training.config import RunConfig
from regard.tuning.space import Space

STUDY, JOURNAL, TRIALS, LOGS = "study.json", "journal.jsonl", "trials", "logs"
_FORMAT = 1
_CLAIMS = "claims"  # a lock, held while a trial is claimed
_READER = JsonReader(RunError, "Choose another --out.")
# Settings without influence on the trials, which may differ between calls.
_CHANGEABLE = ("out:", "data.folder:", "tracking.")


@dataclass(frozen=True)
class _Identity(Settings):
    """The fields of `study.json`."""

    format: int
    settings: dict[str, Any]
    space: dict[str, Any]
    data: str
    seed: int
    pruner: str


def make_identity(base: RunConfig, space: Space, data: str, *, seed: int, pruner: str) -> Tree:
    """All that determines the trials of a study, for `study.json`; `data` is a fingerprint."""
    identity = {"format": _FORMAT, "settings": to_tree(base), "space": dict(space.tree)}
    text = dumps({**identity, "data": data, "seed": seed, "pruner": pruner})
    return _READER.parse(text.encode(), STUDY)  # as it is read again


@contextmanager
def open_study_folder(out: Path, identity: Tree) -> Iterator[None]:
    """Create the folder of a study, or check that it belongs to this one; holds the claims lock."""
    foreign = not out.is_dir() or any(map(_is_foreign, out.iterdir())) if out.exists() else False
    if foreign and not (out / STUDY).is_file():
        raise RunError(
            f"{out} exists and is not the folder of a hyperparameter search; nothing was changed. "
            "Choose another --out."
        )
    out.mkdir(parents=True, exist_ok=True)
    with locked_claims(out):
        if (out / STUDY).is_file():
            _refuse_other_study(out, identity)
        else:
            write_json(out / STUDY, identity)
        _repair_journal(out)
        yield


def _is_foreign(path: Path) -> bool:
    """Whether a path is not what a killed process may leave before `study.json` is written."""
    return not (is_temporary_path(path) or path.name.startswith(f"{_CLAIMS}.lock"))


def locked_claims(out: Path) -> Any:
    """A context manager: the lock for claiming trials, for which other processes wait."""
    return _locked(out / _CLAIMS)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of Optuna, which also works on network file systems."""
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _refuse_other_study(out: Path, identity: Tree) -> None:
    old, _ = _READER.read_versioned(_Identity, out / STUDY, _FORMAT)
    previous = _READER.build(RunConfig, old.settings, out / STUDY, notify=False)
    changed = [
        change
        for change in tree_differences(to_tree(previous), identity["settings"])
        if not change.startswith(_CHANGEABLE)
    ]
    names = ("space", "seed", "pruner")
    before, after = ({name: tree[name] for name in names} for tree in (vars(old), identity))
    changed += tree_differences(before, after)
    if old.data != identity["data"]:
        changed.append("the prepared data has changed")
    if changed:
        raise RunError(
            f"{out} contains another hyperparameter search: {'; '.join(changed)}. Choose another "
            "--out to start a new search, or use the old settings to resume."
        )


def _repair_journal(out: Path) -> None:
    """Remove an incomplete last line of a killed process."""
    path = out / JOURNAL
    if not path.is_file():
        return
    with _locked(path):
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            with path.open("r+b") as file:
                file.truncate(end)
