"""Which checkpoints stay on disk, and which of them count."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from regard.files import whole_folder
from regard.models.folder import AVERAGE, shown_weights, weights_of
from regard.training.checkpoint import (
    PROGRESS,
    Progress,
    best_of,
    folders,
    last_of,
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
from toys import pairs, small_model


def steps(paths: list[Path]) -> list[int]:
    return [int(path.name) for path in paths]


def write(run: Path, *progresses: Progress) -> None:
    """Checkpoints that hold nothing but how far they are."""
    for progress in progresses:
        path = run / "checkpoints" / f"{progress.step:08d}"
        path.mkdir(parents=True)
        tree = {**vars(progress), "position": vars(progress.position)}
        (path / PROGRESS).write_text(json.dumps(tree))


def test_the_best_have_the_lowest_figures_and_the_earlier_wins(tmp_path: Path) -> None:
    figures = [3.0, 1.0, 2.0, 1.0, 3.0]
    write(tmp_path, *(Progress(step, figure=f) for step, f in enumerate(figures, start=1)))
    assert steps(best_of(tmp_path, 9)) == [2, 4, 3, 1, 5]
    assert steps(best_of(tmp_path, 1)) == [2]
    assert best_of(tmp_path, 0) == []


def test_what_was_not_validated_or_not_on_schedule_is_not_among_the_best(tmp_path: Path) -> None:
    write(
        tmp_path,
        Progress(1, figure=3.0),
        Progress(2),
        Progress(3, figure=1.0, regular=False),
        Progress(4, figure=2.0),
    )
    assert steps(best_of(tmp_path, 9)) == [4, 1]
    assert steps(last_of(tmp_path, 2)) == [2, 4]
    assert last_of(tmp_path, 0) == []


@pytest.mark.parametrize(
    ("last", "best", "kept"),
    [(1, 0, [6, 7]), (2, 0, [5, 6, 7]), (1, 2, [2, 4, 6, 7]), (2, 9, [1, 2, 3, 4, 5, 6, 7])],
)
def test_the_last_and_the_best_stay(tmp_path: Path, last: int, best: int, kept: list[int]) -> None:
    figures = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    write(tmp_path, *(Progress(step, figure=f) for step, f in enumerate(figures, start=1)))
    write(tmp_path, Progress(7, regular=False))  # the newest stays, whoever made it
    (tmp_path / "checkpoints" / "notes.partial").mkdir()  # somebody's own
    with whole_folder(tmp_path / "checkpoints" / "00000008") as temporary:
        shutil.copytree(temporary.parent, tmp_path / "copy")
    shutil.rmtree(tmp_path / "checkpoints" / "00000008")
    (tmp_path / "copy").rename(temporary.parent)  # as a kill would have left it
    prune(tmp_path, last=last, best=best)
    assert steps(folders(tmp_path)) == kept
    assert [path.name for path in tmp_path.rglob("*.partial")] == ["notes.partial"]


def test_a_checkpoint_from_before_there_were_figures_is_read(tmp_path: Path) -> None:
    write(tmp_path, Progress(5, seconds=2.0))
    [path] = folders(tmp_path)
    tree = json.loads((path / PROGRESS).read_text())
    del tree["figure"]
    (path / PROGRESS).write_text(json.dumps(tree))
    assert read_progress(path) == Progress(5, seconds=2.0)
    assert best_of(tmp_path, 3) == []


def test_a_moving_average_is_kept_beside_the_weights_and_shown_for_them(tmp_path: Path) -> None:
    model, config = small_model(0), TrainingConfig()
    average = MovingAverage(small_model(1), 0.9)
    optimizer = make_optimizer(model, config)
    Updater(model, optimizer, Objective(config))([pairs(2)], step=1, rate=0.0)
    plain = save(tmp_path, model, optimizer, None, Progress(1))
    both = save(tmp_path, model, optimizer, average, Progress(2))
    assert not (plain / AVERAGE).exists()
    for path, shown in ((plain, weights_of(model)), (both, average.weights)):
        found = shown_weights(path)
        assert found.keys() == shown.keys()
        assert all(found[name].equal(tensor) for name, tensor in shown.items())
    other = MovingAverage(small_model(2), 0.9)
    into = small_model(2)
    assert restore(both, into, make_optimizer(into, config), other) == Progress(2)
    assert all(weights_of(into)[name].equal(tensor) for name, tensor in weights_of(model).items())
    assert all(other.weights[name].equal(tensor) for name, tensor in average.weights.items())
