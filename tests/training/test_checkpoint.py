"""Which checkpoints are kept, and which are the best."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from regard.files import atomic_folder
from regard.models.folder import AVERAGE, inference_weights, named_weights
from regard.training.checkpoint import (
    PROGRESS,
    Progress,
    best_checkpoints,
    checkpoint_folders,
    last_checkpoints,
    prune,
    read_progress,
    restore,
    save,
)
from regard.training.config import TrainingConfig
from regard.training.ema import MovingAverage
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import pairs, small_transformer


def steps(paths: list[Path]) -> list[int]:
    return [int(path.name) for path in paths]


def write(run: Path, *progresses: Progress) -> None:
    """Write checkpoints that contain only `progress.json`."""
    for progress in progresses:
        path = run / "checkpoints" / f"{progress.step:08d}"
        path.mkdir(parents=True)
        tree = {**vars(progress), "position": vars(progress.position)}
        (path / PROGRESS).write_text(json.dumps(tree))


def test_best_checkpoints_have_the_lowest_metric_and_ties_go_to_the_earlier(tmp_path: Path) -> None:
    metrics = [3.0, 1.0, 2.0, 1.0, 3.0]
    write(tmp_path, *(Progress(step, figure=m) for step, m in enumerate(metrics, start=1)))
    assert steps(best_checkpoints(tmp_path, 9)) == [2, 4, 3, 1, 5]
    assert steps(best_checkpoints(tmp_path, 1)) == [2]
    assert best_checkpoints(tmp_path, 0) == []


def test_best_checkpoints_are_validated_and_on_schedule(tmp_path: Path) -> None:
    write(
        tmp_path,
        Progress(1, figure=3.0),
        Progress(2),
        Progress(3, figure=1.0, regular=False),
        Progress(4, figure=2.0),
    )
    assert steps(best_checkpoints(tmp_path, 9)) == [4, 1]
    assert steps(last_checkpoints(tmp_path, 2)) == [2, 4]
    assert last_checkpoints(tmp_path, 0) == []


@pytest.mark.parametrize(
    ("last", "best", "kept"),
    [(1, 0, [6, 7]), (2, 0, [5, 6, 7]), (1, 2, [2, 4, 6, 7]), (2, 9, [1, 2, 3, 4, 5, 6, 7])],
)
def test_prune_keeps_the_last_and_the_best(
    tmp_path: Path, last: int, best: int, kept: list[int]
) -> None:
    metrics = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    write(tmp_path, *(Progress(step, figure=m) for step, m in enumerate(metrics, start=1)))
    write(tmp_path, Progress(7, regular=False))  # the latest is always kept
    (tmp_path / "checkpoints" / "notes.partial").mkdir()  # of the user
    with atomic_folder(tmp_path / "checkpoints" / "00000008") as temporary:
        shutil.copytree(temporary.parent, tmp_path / "copy")
    shutil.rmtree(tmp_path / "checkpoints" / "00000008")
    (tmp_path / "copy").rename(temporary.parent)  # like that of a killed process
    prune(tmp_path, last=last, best=best)
    assert steps(checkpoint_folders(tmp_path)) == kept
    assert [path.name for path in tmp_path.rglob("*.partial")] == ["notes.partial"]


def test_checkpoint_without_a_metric_is_read(tmp_path: Path) -> None:
    write(tmp_path, Progress(5, seconds=2.0))
    [path] = checkpoint_folders(tmp_path)
    tree = json.loads((path / PROGRESS).read_text())
    del tree["figure"]
    (path / PROGRESS).write_text(json.dumps(tree))
    assert read_progress(path) == Progress(5, seconds=2.0)
    assert best_checkpoints(tmp_path, 3) == []


def test_moving_average_is_saved_and_used_for_inference(tmp_path: Path) -> None:
    model, config = small_transformer(0), TrainingConfig()
    average = MovingAverage(small_transformer(1), 0.9)
    optimizer = make_optimizer(model, config)
    Updater(model, optimizer, Objective(config))([pairs(2)], step=1, rate=0.0)
    plain = save(tmp_path, model, optimizer, None, Progress(1))
    both = save(tmp_path, model, optimizer, average, Progress(2))
    assert not (plain / AVERAGE).exists()
    for path, expected in ((plain, named_weights(model)), (both, average.weights)):
        actual = inference_weights(path)
        assert actual.keys() == expected.keys()
        assert all(actual[name].equal(tensor) for name, tensor in expected.items())
    other = MovingAverage(small_transformer(2), 0.9)
    restored = small_transformer(2)
    assert restore(both, restored, make_optimizer(restored, config), other) == Progress(2)
    assert all(
        named_weights(restored)[name].equal(tensor) for name, tensor in named_weights(model).items()
    )
    assert all(other.weights[name].equal(tensor) for name, tensor in average.weights.items())
