"""The study: its folder, its journal, and damage to them."""

from __future__ import annotations

import fcntl
import json
import random
from pathlib import Path

import pytest

from hostile import trees
from regard.data.store import Store
from regard.errors import RegardError, RunError
from regard.tuning.study import Study, make_pruner
from regard.tuning.study_folder import JOURNAL, STUDY
from toys import write_reversal_store
from tuning.searches import SPACE, make_tuner, tune


def study_of(out: Path, store: Store) -> Study:
    """The study of an unfinished search."""
    return make_tuner(out, store)._study


def test_journal_is_json_without_pickles(tmp_path: Path, reversal_store: Store) -> None:
    tune(tmp_path, reversal_store, trials=1)
    assert [*map(json.loads, (tmp_path / JOURNAL).read_text().splitlines())]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {STUDY, JOURNAL, "best.toml", "logs", "trials"}


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_incomplete_last_line_is_removed(kept: int, tmp_path: Path, reversal_store: Store) -> None:
    tune(tmp_path, reversal_store, trials=2, max_steps=5)
    journal = tmp_path / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines) + lines[-1][:kept])
    result = tune(tmp_path, reversal_store, trials=3, max_steps=5)
    assert [trial.state for trial in result.trials] == ["complete"] * 3


def test_trial_of_a_process_killed_while_sampling_is_completed(
    tmp_path: Path, reversal_store: Store
) -> None:
    study = study_of(tmp_path / "a", reversal_store)
    study._study.ask()
    expected = tune(tmp_path / "b", reversal_store, trials=2, max_steps=20)
    result = tune(tmp_path / "a", reversal_store, trials=2)
    assert [trial.settings for trial in result.trials] == [t.settings for t in expected.trials]


def test_claims(tmp_path: Path, reversal_store: Store) -> None:
    study = study_of(tmp_path, reversal_store)
    first, second = study.claim(2), study.claim(2)
    assert first is not None
    assert second is not None
    assert (first.number, second.number, study.claim(2)) == (0, 1, None)
    study.finish(second, "failed", reason="No luck.")
    study.release(first)
    again = study.claim(2)
    assert again is not None
    assert (again.number, again.settings) == (0, first.settings)
    assert study.report(again, 5, 1.0) is False
    assert study.report(again, 5, 1.0) is False  # repeated by a resumed run
    assert study.report(again, 10, None) is False
    study.finish(again, "complete", value=1.0, step=5)
    states = [(trial.state, trial.value, trial.step, trial.reason) for trial in study.results()]
    assert states == [("complete", 1.0, 5, None), ("failed", None, None, "No luck.")]
    assert study.importances() == {}


def test_process_that_is_still_saving_is_waited_for(tmp_path: Path, reversal_store: Store) -> None:
    study = study_of(tmp_path, reversal_store)
    claim = study.claim(1)
    assert claim is not None
    claim.folder.mkdir()
    (claim.folder / "run.json").touch()
    study.release(claim)
    with (claim.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert study.claim(1) is None
        assert study.is_waiting
    assert study.claim(1) is not None
    assert not study.is_waiting


def test_other_searches_are_refused(tmp_path: Path, reversal_store: Store) -> None:
    make_tuner(tmp_path, reversal_store)
    with pytest.raises(RunError, match=r"max_steps: 20 -> 30; seed: 1 -> 2\. Choose another --out"):
        make_tuner(tmp_path, reversal_store, max_steps=30, seed=2)
    space = SPACE | {"model.num_heads": [1, 2, 4]}
    with pytest.raises(RunError, match=r"space\.model\.num_heads: \[1, 2\] -> \[1, 2, 4\]"):
        make_tuner(tmp_path, reversal_store, space=space)
    make_tuner(tmp_path, reversal_store, trials=9, parallel=3, timeout="1h", keep=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(RunError, match="not the folder of a hyperparameter search; nothing was"):
        make_tuner(tmp_path / "other", reversal_store)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["file"]


def test_other_data_is_refused(tmp_path: Path, reversal_store: Store) -> None:
    make_tuner(tmp_path / "search", reversal_store)
    (tmp_path / "other").mkdir()
    other = write_reversal_store(tmp_path / "other", valid=True, tokenizer="bpe")
    with pytest.raises(RunError, match="another hyperparameter search: the prepared data has"):
        make_tuner(tmp_path / "search", other)


@pytest.mark.parametrize("name", [STUDY, JOURNAL])
def test_damaged_files_are_reported(name: str, tmp_path: Path, reversal_store: Store) -> None:
    tune(tmp_path, reversal_store, trials=2, max_steps=5)
    path, draw = tmp_path / name, random.Random(1)
    original = path.read_text()
    lines = [original] if name == STUDY else original.splitlines()
    errors = 0
    for number in draw.choices(range(len(lines)), k=60):
        place = draw.choice([*trees.node_paths(json.loads(lines[number]))])
        change = draw.choice([*trees.CHANGES])
        changed = trees.apply_change(json.loads(lines[number]), place, change, draw)
        path.write_text("\n".join([*lines[:number], changed, *lines[number + 1 :]]) + "\n")
        try:
            make_tuner(tmp_path, reversal_store, trials=2, max_steps=5).run()
        except RegardError:
            errors += 1
    assert errors > 20


def test_pruners() -> None:
    names = [type(make_pruner(name, first_step=5, last_step=20)).__name__ for name in PRUNERS]
    assert names == ["MedianPruner", "HyperbandPruner", "NopPruner"]
    make_pruner("hyperband", first_step=1000, last_step=20)


PRUNERS = ("median", "hyperband", "none")
