"""Which weights a run shows: the mean of its best, of its last, or the best alone."""

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
from regard.training.checkpoint import folders
from regard.training.config import TrainingConfig
from regard.training.loop import train
from regard.training.metrics_log import Row, read_metrics
from toys import Silent, run, scored_by, small_run, validated, wayward_bleu

CPU = torch.device("cpu")
OFTEN: dict[str, Any] = {"max_steps": 24, "checkpoint_every": 2, "best_by": "bleu"}


def validations(out: Path) -> list[Row]:
    return [row for row in read_metrics(out) if "valid_loss" in row]


def best_steps(rows: list[Row], count: int) -> list[int]:
    """The steps that validated best, the earlier of equals first."""
    return [row["step"] for row in sorted(rows, key=lambda row: -float(row["bleu"]))[:count]]


def mean_of(out: Path, steps: list[int], file: str) -> dict[str, Tensor]:
    saved = [read_tensors(out / "checkpoints" / f"{step:08d}" / file)[0] for step in steps]
    return {
        name: torch.stack([weights[name].double() for weights in saved]).mean(0)
        for name in saved[0]
    }


def assert_published(out: Path, expected: dict[str, Tensor]) -> None:
    published = read_tensors(out / WEIGHTS)[0]
    assert published.keys() == expected.keys()
    for name, tensor in published.items():
        torch.testing.assert_close(tensor.double(), expected[name], atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize(("ema_decay", "file"), [(0.0, WEIGHTS), (0.9, AVERAGE)])
@pytest.mark.parametrize("count", [2, 4])
def test_the_mean_of_the_best_is_published_if_it_is_the_best_mean(
    tmp_path: Path, reversal_store: Store, count: int, ema_decay: float, file: str
) -> None:
    method = {"average_best": count, "ema_decay": ema_decay, "keep_checkpoints": 99}
    run(small_run(tmp_path, reversal_store, **OFTEN, **method), reversal_store, bleu=wayward_bleu)
    rows = validations(tmp_path)
    assert len(rows) == 12
    for number, row in enumerate(rows, start=1):
        among_the_best = row["step"] in best_steps(rows[:number], count)
        assert ("mean_bleu" in row) == ("mean_valid_loss" in row) == among_the_best
    winner = max(
        (row for row in rows if "mean_bleu" in row), key=lambda row: float(row["mean_bleu"])
    )
    chosen = best_steps(rows[: rows.index(winner) + 1], count)
    assert_published(tmp_path, mean_of(tmp_path, chosen, file))
    notes = read_tensors(tmp_path / WEIGHTS)[1]
    assert (int(notes["step"]), float(notes["bleu"])) == (winner["step"], winner["mean_bleu"])


def test_the_mean_is_validated_as_it_is_published(tmp_path: Path, reversal_store: Store) -> None:
    method = {"average_best": 3, "best_by": "loss"}
    config = small_run(tmp_path, reversal_store, **{**OFTEN, **method})
    run(config, reversal_store)
    best = min(row["mean_valid_loss"] for row in validations(tmp_path) if "mean_valid_loss" in row)
    _, model = load_model(tmp_path, CPU)
    assert validated(model, reversal_store, config).loss == pytest.approx(best)


def test_the_last_and_the_best_stay_on_disk(tmp_path: Path, reversal_store: Store) -> None:
    method = {"average_best": 3, "keep_checkpoints": 2, "max_steps": 23}
    run(
        small_run(tmp_path, reversal_store, **{**OFTEN, **method}),
        reversal_store,
        bleu=wayward_bleu,
    )
    rows = [row for row in validations(tmp_path) if row["step"] != 23]  # that one was not scheduled
    wanted = {20, 22, 23, *best_steps(rows, 3)}
    assert [int(path.name) for path in folders(tmp_path)] == sorted(wanted)


def test_of_equals_the_first_are_the_best(tmp_path: Path, reversal_store: Store) -> None:
    method = {"average_best": 2, "keep_checkpoints": 1, "learning_rate": 0.0, "max_steps": 10}
    run(
        small_run(tmp_path, reversal_store, **{**OFTEN, **method}),
        reversal_store,
        bleu=wayward_bleu,
    )
    assert [int(path.name) for path in folders(tmp_path)] == [2, 4, 10]
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == "2"
    assert ["mean_bleu" in row for row in validations(tmp_path)] == [True, True, *[False] * 3]


def test_patience_is_for_the_checkpoint_and_not_for_the_mean(
    tmp_path: Path, reversal_store: Store
) -> None:
    figures = iter([5.0, 1.0, *[4.0, 2.0], *[3.0, 3.0], 2.0])  # each with its mean's, but the last

    def told(model: object) -> float:
        return next(figures)

    config = small_run(tmp_path, reversal_store, **OFTEN, average_best=3, patience=3)
    task = scored_by(told, TASKS["translation"])
    progress = train(config, reversal_store, task, CPU, watcher=Silent())
    assert (progress.step, progress.waited, progress.best) == (8, 3, -5.0)
    assert progress.stopped_early
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == "6"
    assert_published(tmp_path, mean_of(tmp_path, [2, 4, 6], WEIGHTS))


def test_with_a_moving_average_the_last_averages_are_averaged(
    tmp_path: Path, unvalidated_store: Store
) -> None:
    run(small_run(tmp_path, unvalidated_store, average_last=3, ema_decay=0.9), unvalidated_store)
    assert_published(tmp_path, mean_of(tmp_path, [10, 15, 20], AVERAGE))


def test_two_ways_to_average_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="average_last and average_best are two ways"):
        TrainingConfig(average_last=2, average_best=2)


def test_what_a_killed_run_left_is_not_compared_with(tmp_path: Path, reversal_store: Store) -> None:
    class KilledError(Exception):
        pass

    def kill(*state: object) -> None:
        raise KilledError

    first = small_run(tmp_path, reversal_store, **OFTEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.checkpoint.save", kill)  # the weights are already published
        with pytest.raises(KilledError):
            run(first, reversal_store, bleu=lambda model: 100.0)
    assert read_tensors(tmp_path / WEIGHTS)[1]["figure"] == "-100.0"
    other = small_run(tmp_path, reversal_store, **OFTEN, seed=2)
    run(other, reversal_store, bleu=wayward_bleu)
    best = best_steps(validations(tmp_path), 1)
    assert read_tensors(tmp_path / WEIGHTS)[1]["step"] == str(best[0])
