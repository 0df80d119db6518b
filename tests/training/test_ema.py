"""The exponential moving average of the weights against a plain loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.store import Store
from regard.models.folder import AVERAGE, WEIGHTS, load_model, named_weights, read_tensors
from regard.training.checkpoint import checkpoint_folders
from regard.training.ema import MovingAverage, warmed_up_decay
from regard.training.metrics_log import read_metrics
from toys import initialize_for, run, small_run, small_transformer, validated

CPU = torch.device("cpu")


def test_decay_is_warmed_up() -> None:
    decays = [warmed_up_decay(step, 0.9) for step in (1, 2, 10, 79, 80, 81, 10**6)]
    assert decays == pytest.approx([2 / 11, 3 / 12, 11 / 20, 80 / 89, 0.9, 0.9, 0.9])


def test_average_is_initialized_with_a_copy_of_the_weights() -> None:
    model = small_transformer()
    average = MovingAverage(model, 0.9)
    with torch.no_grad():
        model.projection.weight.add_(1.0)
    for name, tensor in named_weights(small_transformer()).items():
        assert torch.equal(average.weights[name], tensor)


def test_average_of_constant_weights_is_constant() -> None:
    model = small_transformer()
    average = MovingAverage(model, 0.9)
    for step in range(1, 20):
        average.update(model, step)
    for name, tensor in named_weights(model).items():
        assert torch.equal(average.weights[name], tensor)


@pytest.mark.parametrize("decay", [0.3, 0.99])  # reached at step 3, and never
def test_checkpoints_contain_the_average(
    tmp_path: Path, unvalidated_store: Store, decay: float
) -> None:
    settings = {"max_steps": 8, "checkpoint_every": 1, "keep_checkpoints": 8}
    config = small_run(tmp_path, unvalidated_store, ema_decay=decay, **settings)
    run(config, unvalidated_store)
    _, start = initialize_for(config, unvalidated_store)
    expected = {name: tensor.double().numpy() for name, tensor in named_weights(start).items()}
    for step, path in enumerate(checkpoint_folders(tmp_path), start=1):
        effective = min(decay, (1 + step) / (10 + step))
        for name, tensor in read_tensors(path / WEIGHTS)[0].items():
            expected[name] = effective * expected[name] + (1 - effective) * tensor.double().numpy()
        for name, tensor in read_tensors(path / AVERAGE)[0].items():
            np.testing.assert_allclose(tensor.numpy(), expected[name], atol=1e-6, rtol=1e-5)
    assert step == 8
    exported = read_tensors(tmp_path / WEIGHTS)[0]
    for name, tensor in read_tensors(path / AVERAGE)[0].items():
        assert torch.equal(exported[name], tensor)


def test_average_is_validated_and_exported(tmp_path: Path, reversal_store: Store) -> None:
    config = small_run(tmp_path, reversal_store, ema_decay=0.9)
    run(config, reversal_store)
    best = min(row["valid_loss"] for row in read_metrics(tmp_path) if "valid_loss" in row)
    metadata = read_tensors(tmp_path / WEIGHTS)[1]
    assert float(metadata["valid_loss"]) == best
    _, model = load_model(tmp_path, CPU)
    assert validated(model, reversal_store, config).loss == pytest.approx(best)
    saved = tmp_path / "checkpoints" / f"{int(metadata['step']):08d}"
    for name, tensor in named_weights(model).items():
        assert torch.equal(tensor, read_tensors(saved / AVERAGE)[0][name])


def test_no_average_without_a_decay(tmp_path: Path, unvalidated_store: Store) -> None:
    run(small_run(tmp_path, unvalidated_store, max_steps=1), unvalidated_store)
    assert sorted(path.name for path in checkpoint_folders(tmp_path)[-1].iterdir()) == [
        *["model.safetensors", "optimizer.safetensors", "progress.json"]
    ]
