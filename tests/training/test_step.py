"""One update: what it does to the weights, in float32 and in bfloat16."""

from __future__ import annotations

import pytest
import torch

from regard.data.batch import Batch
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from regard.training.step import Updater, dropout_seed
from toys import EVERY_FORM, pairs, small_model, some_model

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def test_bfloat16_on_a_cpu_learns_nearly_the_same() -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        model = small_model()
        config = TrainingConfig(precision=precision)
        optimizer = make_optimizer(model, config)
        for step in range(1, 21):
            done = Updater(model, optimizer, Objective(config))([pairs(8)], step=step, rate=1e-3)
        losses[precision] = float(done.sums[0]) / done.tokens
        assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.05)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", EVERY_FORM)
def test_every_form_learns_in_half_precision(form: str, device: str) -> None:
    model, config = some_model(**EVERY_FORM[form]).to(device), TrainingConfig(precision="bfloat16")
    change = Updater(model.train(), make_optimizer(model, config), Objective(config))
    for step in (1, 2):
        done = change([pairs(8)], step=step, rate=1e-3)
        assert torch.isfinite(done.sums).all()
    assert all(weights.isfinite().all() for weights in model.parameters())


def test_gradients_are_clipped_to_the_norm() -> None:
    model = small_model()
    config = TrainingConfig(clip_norm=0.01)
    Updater(model, make_optimizer(model, config), Objective(config))([pairs(8)], step=1, rate=1e-3)
    squares = [float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None]
    assert sum(squares) ** 0.5 == pytest.approx(0.01, rel=1e-3)


def test_a_rate_of_zero_changes_nothing() -> None:
    model, before = small_model(), small_model()
    config = TrainingConfig()
    Updater(model, make_optimizer(model, config), Objective(config))([pairs(8)], step=1, rate=0.0)
    for one, other in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_optimizers_memory_survives_the_way_through_tensors() -> None:
    model, config = small_model(), TrainingConfig()
    optimizer = make_optimizer(model, config)
    Updater(model, optimizer, Objective(config))([pairs(8)], step=1, rate=1e-3)
    other = make_optimizer(model, config)
    restore_optimizer(other, model, optimizer_tensors(optimizer, model))
    for parameter in model.parameters():
        for entry, value in optimizer.state[parameter].items():
            assert torch.equal(other.state[parameter][entry], value)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
@pytest.mark.parametrize("form", sorted(EVERY_FORM.keys() - {"batch norm"}))
def test_a_share_of_nothing_adds_nothing(form: str, r_drop: float) -> None:
    config = TrainingConfig(clip_norm=0.0, r_drop=r_drop)
    found = []
    for batches in ([pairs(4)], [pairs(4), Batch.empty()]):
        model = some_model(**EVERY_FORM[form]).train()
        done = Updater(model, make_optimizer(model, config), Objective(config))(
            batches, step=1, rate=0.0
        )
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append((done.tokens, done.sums.tolist(), gradients))
    (tokens, sums, whole), (also_tokens, also_sums, parts) = found
    assert (tokens, sums) == (also_tokens, also_sums)
    for one, other in zip(whole, parts, strict=True):
        assert torch.equal(one, other)


def test_every_step_and_part_drops_something_else() -> None:
    seeds = {dropout_seed(s, t, n) for s in range(3) for t in range(1, 200) for n in range(4)}
    assert len(seeds) == 3 * 199 * 4


def test_every_process_drops_something_else() -> None:
    seeds = {
        dropout_seed(1, t, n, rank) for t in range(1, 100) for n in range(4) for rank in (0, 7)
    }
    assert len(seeds) == 99 * 4 * 2
    assert dropout_seed(1, 2, 3, rank=0) == dropout_seed(1, 2, 3)  # of runs by one process
