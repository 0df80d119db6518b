"""The training loop: outputs, refused settings and errors of a run."""

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
from regard.files import locked_folder
from regard.models.folder import AVERAGE, WEIGHTS, load_model, read_tensors
from regard.models.protocol import Predictions
from regard.tasks import TASKS
from regard.training.checkpoint import (
    OPTIMIZER,
    PROGRESS,
    average_weights,
    checkpoint_folders,
    read_progress,
)
from regard.training.loop import train
from regard.training.losses import Loss, token_loss
from regard.training.metrics_log import MetricsLog, read_metrics
from toys import CollectingCallback, altered, run, small_run

CPU = torch.device("cpu")


def test_metrics_log_has_rows_of_training_and_validation(
    tmp_path: Path, reversal_store: Store
) -> None:
    run(small_run(tmp_path, reversal_store), reversal_store)
    rows = read_metrics(tmp_path)
    training = [row for row in rows if "loss" in row]
    assert [row["step"] for row in training] == [4, 8, 12, 16, 20]
    expected = {"step", "loss", "learning_rate", "target_tokens", "tokens_per_second", "seconds"}
    assert all(expected <= row.keys() for row in training)
    for name in ("target_tokens", "seconds"):
        values = [row[name] for row in training]
        assert values == sorted(values)
    assert [row["step"] for row in rows if "valid_loss" in row] == [5, 10, 15, 20]


def test_best_weights_by_validation_are_exported(tmp_path: Path, reversal_store: Store) -> None:
    run(small_run(tmp_path, reversal_store, learning_rate=0.2), reversal_store)
    rows = [row for row in read_metrics(tmp_path) if "valid_loss" in row]
    best = min(rows, key=lambda row: float(row["valid_loss"]))
    tensors, metadata = read_tensors(tmp_path / WEIGHTS)
    assert int(metadata["step"]) == best["step"]
    saved = read_tensors(tmp_path / "checkpoints" / f"{best['step']:08d}" / WEIGHTS)[0]
    assert all(torch.equal(tensors[name], saved[name]) for name in saved)


def test_last_weights_are_exported_without_validation(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, max_steps=7), unvalidated_store)
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == "7"
    assert not any("valid_loss" in row for row in read_metrics(tmp_path))
    load_model(tmp_path, CPU)


def test_average_last_exports_the_mean_of_the_last_checkpoints(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, average_last=3), unvalidated_store)
    exported = read_tensors(tmp_path / WEIGHTS)[0]
    last = [read_tensors(path / WEIGHTS)[0] for path in checkpoint_folders(tmp_path)[-3:]]
    for name, tensor in exported.items():
        mean = torch.stack([weights[name] for weights in last]).double().mean(0)
        torch.testing.assert_close(tensor.double(), mean, atol=1e-7, rtol=1e-6)


def test_average_computes_the_mean() -> None:
    result = average_weights([{"w": torch.tensor([1.0, 5.0])}, {"w": torch.tensor([2.0, 6.0])}])
    assert result["w"].tolist() == [1.5, 5.5]


def test_old_checkpoints_are_removed(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path, unvalidated_store, keep_checkpoints=2), unvalidated_store)
    assert [path.name for path in checkpoint_folders(tmp_path)] == ["00000015", "00000020"]


def test_early_stopping_after_patience_validations(tmp_path: Path, reversal_store: Store) -> None:
    config = small_run(
        tmp_path, reversal_store, max_steps=100, checkpoint_every=2, patience=3, learning_rate=0.0
    )
    callback = CollectingCallback()
    progress = train(config, reversal_store, TASKS["translation"], CPU, callback=callback)
    assert (progress.step, progress.waited, progress.stopped_early) == (8, 3, True)
    assert train(config, reversal_store, TASKS["translation"], CPU, callback=callback).step == 8


def test_finished_run_is_not_changed(tmp_path: Path, unvalidated_store: Store) -> None:
    config = small_run(tmp_path, unvalidated_store)
    run(config, unvalidated_store)
    before = (tmp_path / WEIGHTS).stat().st_mtime_ns
    assert run(config, unvalidated_store).rows == []
    assert (tmp_path / WEIGHTS).stat().st_mtime_ns == before


def test_nan_loss_names_the_last_good_checkpoint(
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
    weights = read_tensors(checkpoint_folders(tmp_path)[-1] / WEIGHTS)[0]
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": {"seed": 2}}, r"training.seed: 1 -> 2"),
        ({"model": {"d_model": 32}}, r"model.d_model: 16 -> 32"),
        ({"data": {"batch_tokens": 200}}, r"data.batch_tokens: 300 -> 200"),
        ({"data": {"corpus_weights": [0.5]}}, r"data.corpus_weights: \[\] -> \[0.5\]"),
        ({"training": {"ema_decay": 0.5}}, r"training.ema_decay: 0.0 -> 0.5"),
    ],
)
def test_other_run_in_the_folder_is_refused_with_the_difference(
    tmp_path: Path, unvalidated_store: Store, change: dict[str, Any], message: str
) -> None:
    config = small_run(tmp_path, unvalidated_store, max_steps=2)
    run(config, unvalidated_store)
    with pytest.raises(RunError, match=message):
        run(altered(config, **change), unvalidated_store)


def test_settings_missing_in_an_older_run_have_their_defaults(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    config = small_run(tmp_path, unvalidated_store, max_steps=5)
    run(config, unvalidated_store)
    identity = json.loads((tmp_path / "run.json").read_text())
    del identity["settings"]["init_from"], identity["settings"]["data"]["corpus_weights"]
    for section, name in (
        ("model", "key_dim"),
        ("training", "r_drop"),
        ("training", "ema_decay"),
    ):
        del identity["settings"][section][name]
    shape = identity["settings"]["model"]
    shape["architecture"] = shape.pop("kind")
    (tmp_path / "run.json").write_text(json.dumps(identity))
    path = tmp_path / "checkpoints" / "00000005" / "progress.json"
    progress = json.loads(path.read_text())
    del progress["figure"]
    path.write_text(json.dumps(progress))
    for change in ({"data": {"corpus_weights": [0.5]}}, {"training": {"ema_decay": 0.5}}):
        with pytest.raises(RunError, match=r"(data.corpus_weights|training.ema_decay): .* -> "):
            run(altered(config, **change), unvalidated_store)
    longer = run(altered(config, training={"max_steps": 7}), unvalidated_store)
    assert longer.first_step == 5
    assert checkpoint_folders(tmp_path)[-1].name == "00000007"


def test_run_with_other_data_is_refused(
    tmp_path: Path, unvalidated_store: Store, reversal_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, max_steps=2), unvalidated_store)
    with pytest.raises(RunError, match="data has changed"):
        run(small_run(tmp_path, reversal_store, max_steps=2), reversal_store)


def test_foreign_folder_is_not_changed(tmp_path: Path, unvalidated_store: Store) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="not a run folder"):
        run(small_run(tmp_path, unvalidated_store), unvalidated_store)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_refused_settings_create_no_folder(tmp_path: Path, unvalidated_store: Store) -> None:
    config = small_run(tmp_path / "run", unvalidated_store)
    for section, change, requirement in (
        ("data", {"subword_nbest_size": 8}, "a unigram tokenizer"),
        ("training", {"average_best": 2}, "validation data.* --valid-source"),
    ):
        with pytest.raises(
            ConfigError, match=f"{section}.{next(iter(change))} (needs|requires) {requirement}"
        ):
            run(altered(config, **{section: change}), unvalidated_store)
    assert not (tmp_path / "run").exists()


def test_active_run_locks_its_folder(tmp_path: Path, unvalidated_store: Store) -> None:
    code = (
        "import sys; from pathlib import Path; from regard.files import locked_folder\n"
        "with locked_folder(Path(sys.argv[1])): print('held', flush=True); input()"
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
    with locked_folder(tmp_path):
        pass


def test_metrics_log_is_truncated_to_the_resumed_step(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0, tensorboard=False) as log:
        for step in (1, 2, 3):
            log.add({"step": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')  # killed in the middle of a line
    with MetricsLog(tmp_path, 2, tensorboard=False) as log:
        log.add({"step": 3, "again": True})
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]


def test_tensorboard_gets_the_same_metrics(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0, tensorboard=True) as log:
        log.add({"step": 1, "loss": 2.5})
    [events] = (tmp_path / "tensorboard").iterdir()
    assert b"loss" in events.read_bytes()


@pytest.mark.parametrize("name", [WEIGHTS, AVERAGE, OPTIMIZER, PROGRESS])
def test_damaged_checkpoint_is_refused_with_advice(
    name: str, tmp_path: Path, unvalidated_store: Store
) -> None:
    config = small_run(tmp_path, unvalidated_store, ema_decay=0.9)
    run(config, unvalidated_store)
    path = checkpoint_folders(tmp_path)[-1] / name
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(RunError, match=r"00000020.* is damaged .*resume from the previous one"):
        run(altered(config, training={"max_steps": 25}), unvalidated_store)


def test_model_without_checkpoints_is_not_overwritten(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    import shutil

    run(small_run(tmp_path, unvalidated_store), unvalidated_store)
    shutil.rmtree(tmp_path / "checkpoints")
    before = (tmp_path / "config.json").read_bytes()
    for changes in ({}, {"model": {"d_model": 32}}):
        with pytest.raises(RunError, match="but no checkpoints"):
            run(altered(small_run(tmp_path, unvalidated_store), **changes), unvalidated_store)
    assert (tmp_path / "config.json").read_bytes() == before


def test_settings_may_change_before_the_first_checkpoint(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    class StoppedError(Exception):
        pass

    class Stopping(CollectingCallback):
        def on_step_end(self, step: int) -> None:
            raise StoppedError

    with pytest.raises(StoppedError):
        run(small_run(tmp_path, unvalidated_store), unvalidated_store, callback=Stopping())
    assert run(small_run(tmp_path, unvalidated_store, seed=7), unvalidated_store).first_step == 0


def test_run_that_stopped_early_is_resumed_with_more_patience(
    tmp_path: Path, reversal_store: Store
) -> None:
    settings: dict[str, Any] = {"max_steps": 30, "checkpoint_every": 2, "learning_rate": 0.0}
    run(small_run(tmp_path, reversal_store, patience=3, **settings), reversal_store)
    assert read_progress(checkpoint_folders(tmp_path)[-1]).step == 8
    run(small_run(tmp_path, reversal_store, patience=5, **settings), reversal_store)
    assert read_progress(checkpoint_folders(tmp_path)[-1]).step == 12
    run(small_run(tmp_path, reversal_store, **settings), reversal_store)
    assert read_progress(checkpoint_folders(tmp_path)[-1]).step == 30
