"""The tuner: trials, failures, pruning, parallel processes, interruptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from regard.data.store import Store
from regard.errors import ConfigError, RunError, StoppedError
from regard.settings_tree import to_tree
from regard.tasks.recipes import build_run_config
from regard.training.metrics_log import read_metrics
from toys import small_run
from tuning.searches import Interruption, make_tuner, set_behaviour, starts, tune

CLAIM = """
import sys
from pathlib import Path
from regard.files import locked_output
with locked_output(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_search(tmp_path: Path, reversal_store: Store) -> None:
    result = tune(tmp_path, reversal_store, keep=2)
    assert [trial.state for trial in result.trials] == ["complete"] * 4
    assert (result.metric.name, result.metric.maximized) == ("loss", False)
    values = [trial.value for trial in result.ranking]
    assert values == sorted(values, key=lambda value: value or 0)
    assert result.best is not None
    assert (result.best.step, result.best.seconds) == (20, 2.0)
    kept = {trial.number for trial in result.ranking[:2]}
    for trial in result.trials:
        has_weights = trial.number in kept
        assert (trial.folder / "model.safetensors").exists() == has_weights
        assert (trial.folder / "checkpoints").exists() == has_weights
        assert (trial.folder / "metrics.jsonl").exists()
    best = build_run_config(result.recipe, preset=None, changes={}, assignments=[])
    expected = to_tree(small_run(tmp_path / "best", reversal_store))
    expected["training"]["learning_rate"] = result.best.settings["training.learning_rate"]
    expected["model"]["num_heads"] = result.best.settings["model.num_heads"]
    assert to_tree(best) == expected


def test_metric_that_is_maximized(tmp_path: Path, reversal_store: Store) -> None:
    result = tune(tmp_path, reversal_store, metric="BLEU")
    assert (result.metric.title, result.metric.maximized) == ("BLEU", True)
    assert result.best is not None
    assert result.best.value == max(trial.value or 0 for trial in result.trials)


def test_search_is_a_function_of_its_seed(tmp_path: Path, reversal_store: Store) -> None:
    at_once = tune(tmp_path / "a", reversal_store, trials=10, max_steps=5)
    tune(tmp_path / "b", reversal_store, trials=3, max_steps=5)
    resumed = tune(tmp_path / "b", reversal_store, trials=10, max_steps=5)
    settings = [trial.settings for trial in at_once.trials]
    assert [trial.settings for trial in resumed.trials] == settings
    assert [*map(len, map(starts, resumed.trials))] == [1] * 10
    assert len({str(trial) for trial in settings}) == 10
    assert next(iter(at_once.importances)) == "training.learning_rate"
    other = tune(tmp_path / "c", reversal_store, trials=1, max_steps=5, seed=2)
    assert [trial.settings for trial in other.trials] != settings[:1]


def test_failed_trials_are_recorded(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {0: "fail", 1: "die", 2: "refuse", 3: "invalid"})
    result = tune(tmp_path, reversal_store, trials=5)
    assert [trial.state for trial in result.trials] == [*["failed"] * 4, "complete"]
    assert [trial.reason for trial in result.trials] == [
        "No luck.",
        "its process was ended by SIGKILL, perhaps for lack of memory; see logs/0001.log",
        "No luck.",
        "validation loss is not a number",
        None,
    ]
    assert result.best is not None
    assert result.best.number == 4
    assert not [*tmp_path.glob("trials/000[0-3]/checkpoints")]


def test_contradicting_settings_are_not_trained(tmp_path: Path, reversal_store: Store) -> None:
    space = {"model.num_heads": [2, 3], "model.dropout": {"low": 0.1, "high": 0.5}}
    result = tune(tmp_path, reversal_store, space=space, trials=6)
    failed = [trial for trial in result.trials if trial.settings["model.num_heads"] == 3]
    assert failed
    assert all("does not divide d_model" in (trial.reason or "") for trial in failed)
    assert not any(trial.folder.exists() for trial in failed)
    with pytest.raises(RunError, match=r"25 trials in a row failed.*does not divide"):
        tune(tmp_path / "b", reversal_store, space={"model.num_heads": [3, 5]}, trials=99)


def test_failures_in_a_row_end_the_search(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, dict.fromkeys(range(2, 99), "fail"))
    with pytest.raises(RunError, match=r"5 trials in a row failed, the last because: No luck\."):
        tune(tmp_path, reversal_store, trials=50)
    set_behaviour(monkeypatch, {})
    result = tune(tmp_path, reversal_store, trials=9)
    assert [trial.state for trial in result.trials] == [
        *["complete"] * 2,
        *["failed"] * 5,
        *["complete"] * 2,
    ]


def test_errors_of_the_environment_fail_no_trial(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {1: "error"})
    with pytest.raises(RunError, match="Trial 1 cannot be trained: No luck"):
        tune(tmp_path, reversal_store)
    set_behaviour(monkeypatch, {})
    assert [trial.state for trial in tune(tmp_path, reversal_store).trials] == ["complete"] * 4


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_pruning(
    pruner: str, tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {7: "worse", 8: "worse"})
    result = tune(tmp_path, reversal_store, trials=9, pruner=pruner)
    pruned = result.trials[7:]
    assert [trial.state for trial in pruned] == ["pruned"] * 2
    assert {trial.step for trial in pruned} <= {5, 10, 15}
    assert all(trial.value is not None and trial.value > 10 for trial in pruned)
    assert not [*tmp_path.glob("trials/000[78]/model.safetensors")]
    assert {trial.number for trial in result.ranking} <= {*range(7)}


def test_parallel_trials(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {0: "hang"})
    monkeypatch.setattr("regard.tuning.tuner.core_count", lambda: 6)
    result = tune(tmp_path, reversal_store, trials=3, parallel=2, timeout="2s")
    assert [trial.state for trial in result.trials] == ["running", "complete", "complete"]
    assert [starts(trial)[0][:2] for trial in result.trials] == [["cpu", "3"]] * 3
    set_behaviour(monkeypatch, {})
    result = tune(tmp_path, reversal_store, trials=3)  # resumes the first trial
    assert [trial.state for trial in result.trials] == ["complete"] * 3
    assert len(starts(result.trials[0])) == 2


def test_parallel_trials_use_gpus_in_turn(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = make_tuner(tmp_path, reversal_store, parallel=3)
    tuner._device = "auto"
    assert tuner._device_of(1) == "auto"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [tuner._device_of(slot) for slot in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_running_trials(
    number: int, tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {1: "hang"})
    tuner = make_tuner(tmp_path, reversal_store)
    timer = threading.Timer(1.0, os.kill, [os.getpid(), number])
    timer.start()
    with pytest.raises(StoppedError, match="Run the same command again to resume") as caught:
        tuner.run()
    assert caught.value.exit_status == 128 + number
    assert [trial.state for trial in tuner.result().trials] == ["complete", "running"]
    set_behaviour(monkeypatch, {})
    resumed = tune(tmp_path, reversal_store)
    assert [trial.state for trial in resumed.trials] == ["complete"] * 4
    assert [row["step"] for row in read_metrics(resumed.trials[1].folder)] == [5, 10, 15, 20]


def test_trials_of_a_failed_process_are_resumed(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {1: "hang"})
    tuner = make_tuner(tmp_path, reversal_store, parallel=2)
    with pytest.raises(ZeroDivisionError):
        tuner.run(Interruption(ZeroDivisionError()))
    assert [trial.state for trial in tuner.result().trials] == ["complete", "running"]
    set_behaviour(monkeypatch, {})
    assert [trial.state for trial in tune(tmp_path, reversal_store).trials] == ["complete"] * 4


def test_trials_of_another_process_are_left_alone(
    tmp_path: Path, reversal_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_behaviour(monkeypatch, {1: "hang"})
    tune(tmp_path, reversal_store, trials=2, timeout="1s")
    set_behaviour(monkeypatch, {})
    command = [sys.executable, "-c", CLAIM, str(tmp_path / "trials" / "0001")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        result = tune(tmp_path, reversal_store, trials=3)
        other.communicate()
    states = ["complete", "running", "complete"]
    assert [trial.state for trial in result.trials] == states
    result = tune(tmp_path, reversal_store, trials=3)
    assert [trial.state for trial in result.trials] == ["complete"] * 3


def test_data_without_validation(tmp_path: Path, unvalidated_store: Store) -> None:
    with pytest.raises(ConfigError, match=r"no validation split.*--valid-source"):
        make_tuner(tmp_path, unvalidated_store)


def test_unknown_metric(tmp_path: Path, reversal_store: Store) -> None:
    with pytest.raises(ConfigError, match="not a metric of translation; use loss or bleu"):
        make_tuner(tmp_path, reversal_store, metric="rouge")
