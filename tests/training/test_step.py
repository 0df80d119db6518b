"""One update, in float32 and in bfloat16."""

from __future__ import annotations

import pytest
import torch

from regard.data.batch import Batch
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from regard.training.step import Updater, dropout_seed
from toys import AUTOREGRESSIVE_VARIANTS, autoregressive_model, pairs, small_transformer

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def test_bfloat16_on_cpu_gives_nearly_the_same_loss() -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        model = small_transformer()
        config = TrainingConfig(precision=precision)
        optimizer = make_optimizer(model, config)
        for step in range(1, 21):
            update = Updater(model, optimizer, Objective(config))([pairs(8)], step=step, rate=1e-3)
        losses[precision] = float(update.sums[0]) / update.tokens
        assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.05)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_every_variant_trains_in_bfloat16(variant: str, device: str) -> None:
    model, config = (
        autoregressive_model(**AUTOREGRESSIVE_VARIANTS[variant]).to(device),
        TrainingConfig(precision="bfloat16"),
    )
    updater = Updater(model.train(), make_optimizer(model, config), Objective(config))
    for step in (1, 2):
        update = updater([pairs(8)], step=step, rate=1e-3)
        assert torch.isfinite(update.sums).all()
    assert all(weights.isfinite().all() for weights in model.parameters())


def test_gradients_are_clipped_to_the_maximum_norm() -> None:
    model = small_transformer()
    config = TrainingConfig(max_grad_norm=0.01)
    Updater(model, make_optimizer(model, config), Objective(config))([pairs(8)], step=1, rate=1e-3)
    squares = [float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None]
    assert sum(squares) ** 0.5 == pytest.approx(0.01, rel=1e-3)


def test_learning_rate_zero_changes_nothing() -> None:
    model, before = small_transformer(), small_transformer()
    config = TrainingConfig()
    Updater(model, make_optimizer(model, config), Objective(config))([pairs(8)], step=1, rate=0.0)
    for weights, old in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(weights, old)


def test_optimizer_state_is_restored_from_tensors() -> None:
    model, config = small_transformer(), TrainingConfig()
    optimizer = make_optimizer(model, config)
    Updater(model, optimizer, Objective(config))([pairs(8)], step=1, rate=1e-3)
    other = make_optimizer(model, config)
    restore_optimizer(other, model, optimizer_tensors(optimizer, model))
    for parameter in model.parameters():
        for entry, value in optimizer.state[parameter].items():
            assert torch.equal(other.state[parameter][entry], value)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
@pytest.mark.parametrize("variant", sorted(AUTOREGRESSIVE_VARIANTS.keys() - {"batch norm"}))
def test_empty_shard_adds_nothing(variant: str, r_drop: float) -> None:
    config = TrainingConfig(max_grad_norm=0.0, r_drop=r_drop)
    results = []
    for batches in ([pairs(4)], [pairs(4), Batch.empty()]):
        model = autoregressive_model(**AUTOREGRESSIVE_VARIANTS[variant]).train()
        update = Updater(model, make_optimizer(model, config), Objective(config))(
            batches, step=1, rate=0.0
        )
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        results.append((update.tokens, update.sums.tolist(), gradients))
    (*expected, expected_gradients), (*actual, actual_gradients) = results
    assert actual == expected
    assert all(map(torch.equal, actual_gradients, expected_gradients))


def test_dropout_seeds_of_steps_and_batches_differ() -> None:
    seeds = {dropout_seed(s, t, n) for s in range(3) for t in range(1, 200) for n in range(4)}
    assert len(seeds) == 3 * 199 * 4


def test_dropout_seeds_of_processes_differ() -> None:
    seeds = {
        dropout_seed(1, t, n, rank) for t in range(1, 100) for n in range(4) for rank in (0, 7)
    }
    assert len(seeds) == 99 * 4 * 2
    assert dropout_seed(1, 2, 3, rank=0) == dropout_seed(1, 2, 3)  # of a single process
