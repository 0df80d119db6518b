"""What a run writes, refuses and survives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.store import Store
from regard.errors import ConfigError, DivergedError, RunError
from regard.files import locked
from regard.models.folder import AVERAGE, WEIGHTS, load_model, read_tensors
from regard.models.protocol import Predictions
from regard.tasks import TASKS
from regard.training.checkpoint import OPTIMIZER, PROGRESS, average, folders, read_progress
from regard.training.loop import train
from regard.training.losses import Loss, token_loss
from regard.training.metrics_log import MetricsLog, read_metrics
from toys import Silent, altered, run, small_run

CPU = torch.device("cpu")


def test_metrics_tell_the_story(tmp_path: Path, reversal_store: Store) -> None:
    run(small_run(tmp_path, reversal_store), reversal_store)
    rows = read_metrics(tmp_path)
    training = [row for row in rows if "loss" in row]
    assert [row["step"] for row in training] == [4, 8, 12, 16, 20]
    wanted = {"step", "loss", "learning_rate", "target_tokens", "tokens_per_second", "seconds"}
    assert all(wanted <= row.keys() for row in training)
    for name in ("target_tokens", "seconds"):
        values = [row[name] for row in training]
        assert values == sorted(values)
    assert [row["step"] for row in rows if "valid_loss" in row] == [5, 10, 15, 20]


def test_the_best_weights_by_validation_are_published(
    tmp_path: Path, reversal_store: Store
) -> None:
    run(small_run(tmp_path, reversal_store, learning_rate=0.2), reversal_store)
    rows = [row for row in read_metrics(tmp_path) if "valid_loss" in row]
    best = min(rows, key=lambda row: float(row["valid_loss"]))
    tensors, notes = read_tensors(tmp_path / WEIGHTS)
    assert int(notes["step"]) == best["step"]
    saved = read_tensors(tmp_path / "checkpoints" / f"{best['step']:08d}" / WEIGHTS)[0]
    assert all(torch.equal(tensors[name], saved[name]) for name in saved)


def test_without_validation_the_last_weights_count(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, max_steps=7), unvalidated_store)
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == "7"
    assert not any("valid_loss" in row for row in read_metrics(tmp_path))
    load_model(tmp_path, CPU)


def test_averaged_weights_are_the_mean_of_the_last_checkpoints(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, average_last=3), unvalidated_store)
    published = read_tensors(tmp_path / WEIGHTS)[0]
    last = [read_tensors(path / WEIGHTS)[0] for path in folders(tmp_path)[-3:]]
    for name, tensor in published.items():
        mean = torch.stack([weights[name] for weights in last]).double().mean(0)
        torch.testing.assert_close(tensor.double(), mean, atol=1e-7, rtol=1e-6)


def test_average_is_the_mean() -> None:
    found = average([{"w": torch.tensor([1.0, 5.0])}, {"w": torch.tensor([2.0, 6.0])}])
    assert found["w"].tolist() == [1.5, 5.5]


def test_old_checkpoints_go(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path, unvalidated_store, keep_checkpoints=2), unvalidated_store)
    assert [path.name for path in folders(tmp_path)] == ["00000015", "00000020"]


def test_early_stopping_waits_for_its_patience(tmp_path: Path, reversal_store: Store) -> None:
    config = small_run(
        tmp_path, reversal_store, max_steps=100, checkpoint_every=2, patience=3, learning_rate=0.0
    )
    watcher = Silent()
    progress = train(config, reversal_store, TASKS["translation"], CPU, watcher=watcher)
    assert (progress.step, progress.waited, progress.stopped_early) == (8, 3, True)
    assert train(config, reversal_store, TASKS["translation"], CPU, watcher=watcher).step == 8


def test_a_finished_run_does_nothing(tmp_path: Path, unvalidated_store: Store) -> None:
    config = small_run(tmp_path, unvalidated_store)
    run(config, unvalidated_store)
    before = (tmp_path / WEIGHTS).stat().st_mtime_ns
    assert run(config, unvalidated_store).rows == []
    assert (tmp_path / WEIGHTS).stat().st_mtime_ns == before


def test_a_loss_that_is_no_number_names_the_last_good_checkpoint(
    tmp_path: Path, unvalidated_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def poisoned(predictions: Predictions, *settings: Any) -> Loss:
        nonlocal calls
        calls += 1
        loss = token_loss(predictions, *settings)
        factor = float("nan") if calls > 11 else 1.0
        return Loss(loss.total * factor, loss.nll * factor)

    monkeypatch.setattr("regard.training.objective.token_loss", poisoned)
    with pytest.raises(DivergedError, match=r"last good checkpoint is .*00000010"):
        run(small_run(tmp_path, unvalidated_store), unvalidated_store)
    assert DivergedError.exit_status == 1
    weights = read_tensors(folders(tmp_path)[-1] / WEIGHTS)[0]
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"training": {"seed": 2}}, r"training.seed: 1 -> 2"),
        ({"model": {"width": 32}}, r"model.width: 16 -> 32"),
        ({"data": {"batch_tokens": 200}}, r"data.batch_tokens: 300 -> 200"),
        ({"data": {"weights": [0.5]}}, r"data.weights: \[\] -> \[0.5\]"),
        ({"training": {"ema_decay": 0.5}}, r"training.ema_decay: 0.0 -> 0.5"),
    ],
)
def test_another_run_is_refused_with_the_difference(
    tmp_path: Path, unvalidated_store: Store, change: dict[str, Any], named: str
) -> None:
    config = small_run(tmp_path, unvalidated_store, max_steps=2)
    run(config, unvalidated_store)
    with pytest.raises(RunError, match=named):
        run(altered(config, **change), unvalidated_store)


def test_a_run_from_before_a_setting_existed_had_its_default(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    config = small_run(tmp_path, unvalidated_store, max_steps=5)
    run(config, unvalidated_store)
    kept = json.loads((tmp_path / "run.json").read_text())
    del kept["settings"]["init_from"], kept["settings"]["data"]["weights"]
    for section, name in (
        ("model", "key_width"),
        ("training", "r_drop"),
        ("training", "ema_decay"),
    ):
        del kept["settings"][section][name]
    shape = kept["settings"]["model"]
    shape["architecture"] = shape.pop("kind")
    (tmp_path / "run.json").write_text(json.dumps(kept))
    path = tmp_path / "checkpoints" / "00000005" / "progress.json"
    progress = json.loads(path.read_text())
    del progress["figure"]
    path.write_text(json.dumps(progress))
    for change in ({"data": {"weights": [0.5]}}, {"training": {"ema_decay": 0.5}}):
        with pytest.raises(RunError, match=r"(data.weights|training.ema_decay): .* -> "):
            run(altered(config, **change), unvalidated_store)
    longer = run(altered(config, training={"max_steps": 7}), unvalidated_store)
    assert longer.began_at == 5
    assert folders(tmp_path)[-1].name == "00000007"


def test_other_data_is_another_run(
    tmp_path: Path, unvalidated_store: Store, reversal_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, max_steps=2), unvalidated_store)
    with pytest.raises(RunError, match="other contents"):
        run(small_run(tmp_path, reversal_store, max_steps=2), reversal_store)


def test_a_foreign_folder_is_left_alone(tmp_path: Path, unvalidated_store: Store) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="not a run folder"):
        run(small_run(tmp_path, unvalidated_store), unvalidated_store)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_settings_that_cannot_work_leave_no_folder(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    config = small_run(tmp_path / "run", unvalidated_store)
    for section, change, needed in (
        ("data", {"sampling_candidates": 8}, "a unigram tokenizer"),
        ("training", {"average_best": 2}, "validation text.* --valid-source"),
    ):
        with pytest.raises(ConfigError, match=f"{section}.{next(iter(change))} needs {needed}"):
            run(altered(config, **{section: change}), unvalidated_store)
    assert not (tmp_path / "run").exists()


def test_a_live_run_holds_its_folder(tmp_path: Path, unvalidated_store: Store) -> None:
    code = (
        "import sys; from pathlib import Path; from regard.files import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"in use by another process .*{other.pid}"):
            run(small_run(tmp_path, unvalidated_store), unvalidated_store)
        other.communicate("\n")
    with locked(tmp_path):
        pass


def test_metrics_are_cut_back_to_the_resumed_step(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0, tensorboard=False) as record:
        for step in (1, 2, 3):
            record.add({"step": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')  # a kill in the middle of a line
    with MetricsLog(tmp_path, 2, tensorboard=False) as record:
        record.add({"step": 3, "again": True})
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]


def test_tensorboard_gets_the_same_figures(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0, tensorboard=True) as record:
        record.add({"step": 1, "loss": 2.5})
    [events] = (tmp_path / "tensorboard").iterdir()
    assert b"loss" in events.read_bytes()


@pytest.mark.parametrize("name", [WEIGHTS, AVERAGE, OPTIMIZER, PROGRESS])
def test_a_damaged_checkpoint_says_how_to_go_on(
    name: str, tmp_path: Path, unvalidated_store: Store
) -> None:
    config = small_run(tmp_path, unvalidated_store, ema_decay=0.9)
    run(config, unvalidated_store)
    path = folders(tmp_path)[-1] / name
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(RunError, match=r"00000020.* is damaged .*goes on from the one before"):
        run(altered(config, training={"max_steps": 25}), unvalidated_store)


def test_a_model_whose_checkpoints_are_gone_is_not_begun_anew(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    import shutil

    run(small_run(tmp_path, unvalidated_store), unvalidated_store)
    shutil.rmtree(tmp_path / "checkpoints")
    before = (tmp_path / "config.json").read_bytes()
    for changes in ({}, {"model": {"width": 32}}):
        with pytest.raises(RunError, match="checkpoints are gone"):
            run(altered(small_run(tmp_path, unvalidated_store), **changes), unvalidated_store)
    assert (tmp_path / "config.json").read_bytes() == before


def test_before_its_first_checkpoint_a_run_may_change(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    class StoppedError(Exception):
        pass

    class Stopping(Silent):
        def step(self, step: int) -> None:
            raise StoppedError

    with pytest.raises(StoppedError):
        run(small_run(tmp_path, unvalidated_store), unvalidated_store, watcher=Stopping())
    assert run(small_run(tmp_path, unvalidated_store, seed=7), unvalidated_store).began_at == 0


def test_a_run_that_stopped_early_goes_on_with_more_patience(
    tmp_path: Path, reversal_store: Store
) -> None:
    settings: dict[str, Any] = {"max_steps": 30, "checkpoint_every": 2, "learning_rate": 0.0}
    run(small_run(tmp_path, reversal_store, patience=3, **settings), reversal_store)
    assert read_progress(folders(tmp_path)[-1]).step == 8
    run(small_run(tmp_path, reversal_store, patience=5, **settings), reversal_store)
    assert read_progress(folders(tmp_path)[-1]).step == 12
    run(small_run(tmp_path, reversal_store, **settings), reversal_store)
    assert read_progress(folders(tmp_path)[-1]).step == 30
