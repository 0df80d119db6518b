"""The metric of a search, by the metrics log of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.store import Store
from regard.models.folder import read_weights_metadata
from regard.training.config import TrainingConfig
from regard.training.metrics_log import Row, read_metrics
from regard.tuning.metric import Metric
from toys import CollectingCallback, pseudorandom_bleu, run, small_run

ROWS: list[Row] = [
    {"step": 4, "loss": 1.0},
    {"step": 5, "valid_loss": 3.0, "bleu": 1.0},
    {"step": 10, "valid_loss": 2.0, "bleu": 7.0},
    {"step": 15, "valid_loss": 2.0, "bleu": None},
    {"step": 20, "valid_loss": 2.5, "bleu": 5.0},
]


def test_best_row() -> None:
    loss, bleu = (Metric.of(TrainingConfig(best_metric=name)) for name in ("loss", "bleu"))
    assert loss.best(ROWS) == (10, 2.0)
    assert bleu.best(ROWS) == (10, 7.0)
    assert bleu.best(ROWS[:1]) is None
    assert (loss.title, bleu.title) == ("validation loss", "BLEU")


@pytest.mark.parametrize(
    ("best_metric", "averaged"),
    [("loss", {}), ("loss", {"average_last": 2}), ("bleu", {"average_best": 2})],
)
def test_best_row_is_the_exported_model(
    best_metric: str, averaged: dict[str, int], tmp_path: Path, reversal_store: Store
) -> None:
    config = small_run(tmp_path, reversal_store, best_metric=best_metric, **averaged)
    run(config, reversal_store, callback=CollectingCallback(), bleu=pseudorandom_bleu)
    metric = Metric.of(config.training)
    best = metric.best(read_metrics(tmp_path))
    assert best is not None
    metadata = read_weights_metadata(tmp_path)
    exported = float(metadata["figure"]) * (-1 if metric.maximized else 1)
    assert best == (int(metadata["step"]), exported)
