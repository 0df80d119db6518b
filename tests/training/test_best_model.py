"""The exported weights of a run: the average of the best, of the last, or the best alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.store import Store
from regard.errors import ConfigError
from regard.models.folder import AVERAGE, WEIGHTS, load_model, read_tensors
from regard.tasks import TASKS
from regard.training.checkpoint import checkpoint_folders
from regard.training.config import TrainingConfig
from regard.training.loop import train
from regard.training.metrics_log import Row, read_metrics
from toys import CollectingCallback, pseudorandom_bleu, run, small_run, validated, with_bleu

CPU = torch.device("cpu")
SETTINGS: dict[str, Any] = {"max_steps": 24, "checkpoint_every": 2, "best_metric": "bleu"}


def validations(out: Path) -> list[Row]:
    return [row for row in read_metrics(out) if "valid_loss" in row]


def best_steps(rows: list[Row], count: int) -> list[int]:
    """The steps with the best validation metric; ties go to the earlier."""
    return [row["step"] for row in sorted(rows, key=lambda row: -float(row["bleu"]))[:count]]


def mean_of(out: Path, steps: list[int], file: str) -> dict[str, Tensor]:
    saved = [read_tensors(out / "checkpoints" / f"{step:08d}" / file)[0] for step in steps]
    return {
        name: torch.stack([weights[name].double() for weights in saved]).mean(0)
        for name in saved[0]
    }


def assert_exported(out: Path, expected: dict[str, Tensor]) -> None:
    exported = read_tensors(out / WEIGHTS)[0]
    assert exported.keys() == expected.keys()
    for name, tensor in exported.items():
        torch.testing.assert_close(tensor.double(), expected[name], atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize(("ema_decay", "file"), [(0.0, WEIGHTS), (0.9, AVERAGE)])
@pytest.mark.parametrize("count", [2, 4])
def test_best_average_of_the_best_checkpoints_is_exported(
    tmp_path: Path, reversal_store: Store, count: int, ema_decay: float, file: str
) -> None:
    method = {"average_best": count, "ema_decay": ema_decay, "keep_checkpoints": 99}
    run(
        small_run(tmp_path, reversal_store, **SETTINGS, **method),
        reversal_store,
        bleu=pseudorandom_bleu,
    )
    rows = validations(tmp_path)
    assert len(rows) == 12
    for number, row in enumerate(rows, start=1):
        among_the_best = row["step"] in best_steps(rows[:number], count)
        assert ("mean_bleu" in row) == ("mean_valid_loss" in row) == among_the_best
    winner = max(
        (row for row in rows if "mean_bleu" in row), key=lambda row: float(row["mean_bleu"])
    )
    averaged = best_steps(rows[: rows.index(winner) + 1], count)
    assert_exported(tmp_path, mean_of(tmp_path, averaged, file))
    metadata = read_tensors(tmp_path / WEIGHTS)[1]
    assert (int(metadata["step"]), float(metadata["bleu"])) == (winner["step"], winner["mean_bleu"])


def test_exported_average_has_the_validated_loss(tmp_path: Path, reversal_store: Store) -> None:
    method = {"average_best": 3, "best_metric": "loss"}
    config = small_run(tmp_path, reversal_store, **{**SETTINGS, **method})
    run(config, reversal_store)
    best = min(row["mean_valid_loss"] for row in validations(tmp_path) if "mean_valid_loss" in row)
    _, model = load_model(tmp_path, CPU)
    assert validated(model, reversal_store, config).loss == pytest.approx(best)


def test_last_and_best_checkpoints_are_kept(tmp_path: Path, reversal_store: Store) -> None:
    method = {"average_best": 3, "keep_checkpoints": 2, "max_steps": 23}
    run(
        small_run(tmp_path, reversal_store, **{**SETTINGS, **method}),
        reversal_store,
        bleu=pseudorandom_bleu,
    )
    rows = [row for row in validations(tmp_path) if row["step"] != 23]  # off schedule
    expected = {20, 22, 23, *best_steps(rows, 3)}
    assert [int(path.name) for path in checkpoint_folders(tmp_path)] == sorted(expected)


def test_ties_go_to_the_earlier_checkpoints(tmp_path: Path, reversal_store: Store) -> None:
    method = {"average_best": 2, "keep_checkpoints": 1, "learning_rate": 0.0, "max_steps": 10}
    run(
        small_run(tmp_path, reversal_store, **{**SETTINGS, **method}),
        reversal_store,
        bleu=pseudorandom_bleu,
    )
    assert [int(path.name) for path in checkpoint_folders(tmp_path)] == [2, 4, 10]
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == "2"
    assert ["mean_bleu" in row for row in validations(tmp_path)] == [True, True, *[False] * 3]


def test_patience_counts_single_checkpoints_and_not_averages(
    tmp_path: Path, reversal_store: Store
) -> None:
    scores = iter(
        [5.0, 1.0, *[4.0, 2.0], *[3.0, 3.0], 2.0]
    )  # each with its average's, except the last

    def next_score(model: object) -> float:
        return next(scores)

    config = small_run(tmp_path, reversal_store, **SETTINGS, average_best=3, patience=3)
    task = with_bleu(next_score, TASKS["translation"])
    progress = train(config, reversal_store, task, CPU, callback=CollectingCallback())
    assert (progress.step, progress.waited, progress.best) == (8, 3, -5.0)
    assert progress.stopped_early
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == "6"
    assert_exported(tmp_path, mean_of(tmp_path, [2, 4, 6], WEIGHTS))


def test_average_last_averages_moving_averages(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path, unvalidated_store, average_last=3, ema_decay=0.9), unvalidated_store)
    assert_exported(tmp_path, mean_of(tmp_path, [10, 15, 20], AVERAGE))


def test_average_last_and_average_best_are_mutually_exclusive() -> None:
    with pytest.raises(ConfigError, match="average_last and average_best are mutually exclusive"):
        TrainingConfig(average_last=2, average_best=2)


def test_weights_of_a_killed_run_are_not_compared_with(
    tmp_path: Path, reversal_store: Store
) -> None:
    class KilledError(Exception):
        pass

    def kill(*state: object) -> None:
        raise KilledError

    first = small_run(tmp_path, reversal_store, **SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.checkpoint.save", kill)  # the weights are already exported
        with pytest.raises(KilledError):
            run(first, reversal_store, bleu=lambda model: 100.0)
    assert read_tensors(tmp_path / WEIGHTS)[1]["figure"] == "-100.0"
    other = small_run(tmp_path, reversal_store, **SETTINGS, seed=2)
    run(other, reversal_store, bleu=pseudorandom_bleu)
    best = best_steps(validations(tmp_path), 1)
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == str(best[0])
