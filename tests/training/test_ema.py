"""The moving average of the weights, against a plain loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.store import Store
from regard.models.folder import AVERAGE, WEIGHTS, load_model, read_tensors, weights_of
from regard.training.checkpoint import folders
from regard.training.ema import MovingAverage, memory
from regard.training.metrics_log import read_metrics
from toys import begun_on, run, small_model, small_run, validated

CPU = torch.device("cpu")


def test_the_memory_grows_up_to_the_decay() -> None:
    found = [memory(step, 0.9) for step in (1, 2, 10, 79, 80, 81, 10**6)]
    assert found == pytest.approx([2 / 11, 3 / 12, 11 / 20, 80 / 89, 0.9, 0.9, 0.9])


def test_it_begins_as_the_weights_and_is_no_part_of_them() -> None:
    model = small_model()
    average = MovingAverage(model, 0.9)
    with torch.no_grad():
        model.projection.weight.add_(1.0)
    for name, tensor in weights_of(small_model()).items():
        assert torch.equal(average.weights[name], tensor)


def test_weights_that_stay_are_their_own_average() -> None:
    model = small_model()
    average = MovingAverage(model, 0.9)
    for step in range(1, 20):
        average.update(model, step)
    for name, tensor in weights_of(model).items():
        assert torch.equal(average.weights[name], tensor)


@pytest.mark.parametrize("decay", [0.3, 0.99])  # one is reached at step 3, the other never
def test_a_run_keeps_the_average_of_all_its_weights(
    tmp_path: Path, unvalidated_store: Store, decay: float
) -> None:
    often = {"max_steps": 8, "checkpoint_every": 1, "keep_checkpoints": 8}
    config = small_run(tmp_path, unvalidated_store, ema_decay=decay, **often)
    run(config, unvalidated_store)
    _, start = begun_on(config, unvalidated_store)
    expected = {name: tensor.double().numpy() for name, tensor in weights_of(start).items()}
    for step, path in enumerate(folders(tmp_path), start=1):
        kept = min(decay, (1 + step) / (10 + step))
        for name, tensor in read_tensors(path / WEIGHTS)[0].items():
            expected[name] = kept * expected[name] + (1 - kept) * tensor.double().numpy()
        for name, tensor in read_tensors(path / AVERAGE)[0].items():
            np.testing.assert_allclose(tensor.numpy(), expected[name], atol=1e-6, rtol=1e-5)
    assert step == 8
    published = read_tensors(tmp_path / WEIGHTS)[0]
    for name, tensor in read_tensors(path / AVERAGE)[0].items():
        assert torch.equal(published[name], tensor)


def test_the_average_is_what_is_validated_and_published(
    tmp_path: Path, reversal_store: Store
) -> None:
    config = small_run(tmp_path, reversal_store, ema_decay=0.9)
    run(config, reversal_store)
    best = min(row["valid_loss"] for row in read_metrics(tmp_path) if "valid_loss" in row)
    notes = read_tensors(tmp_path / WEIGHTS)[1]
    assert float(notes["valid_loss"]) == best
    _, model = load_model(tmp_path, CPU)
    assert validated(model, reversal_store, config).loss == pytest.approx(best)
    saved = tmp_path / "checkpoints" / f"{int(notes['step']):08d}"
    for name, tensor in weights_of(model).items():
        assert torch.equal(tensor, read_tensors(saved / AVERAGE)[0][name])


def test_without_a_decay_there_is_no_average(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path, unvalidated_store, max_steps=1), unvalidated_store)
    assert sorted(path.name for path in folders(tmp_path)[-1].iterdir()) == [
        *["model.safetensors", "optimizer.safetensors", "progress.json"]
    ]
