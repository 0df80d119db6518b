"""R-Drop and REINFORCE terms against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from regard.models.protocol import Predictions
from regard.models.transformer import Transformer
from regard.training.config import TrainingConfig
from regard.training.loss_chunks import divergence
from regard.training.losses import (
    add_reinforce,
    sentence_rewards,
    token_loss,
)
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import pairs, small_transformer

scores = st.lists(st.floats(-30, 30, width=32), min_size=12, max_size=12)


def rows(numbers: list[float]) -> Tensor:
    """Numbers as log-probabilities of four tokens at three positions."""
    return torch.tensor(numbers).reshape(3, 4).log_softmax(-1)


def symmetric_kl(log_p: Tensor, log_q: Tensor) -> float:
    """`KL(p || q) + KL(q || p)` by definition."""
    p, q = (np.exp(log.double().numpy()) for log in (log_p, log_q))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)

    def kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
        return float((p * np.log(p / q)).sum())

    return kl(p, q) + kl(q, p)


@given(scores, scores)
def test_divergence_is_the_symmetric_kl(a: list[float], b: list[float]) -> None:
    result = float(divergence(rows(a), rows(b)).sum())
    assert result >= 0
    assert result == pytest.approx(symmetric_kl(rows(a), rows(b)), rel=1e-4, abs=1e-4)
    assert result == float(divergence(rows(b), rows(a)).sum())


@given(scores)
def test_divergence_of_equal_distributions_is_zero(numbers: list[float]) -> None:
    assert not divergence(rows(numbers), rows(numbers)).any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_r_drop_loss_is_the_mean_of_two_passes_and_their_divergence(smoothing: float) -> None:
    model, batch = small_transformer(dropout=0.3).train().requires_grad_(False), pairs(6)
    passes = [model(batch), model(batch)]
    concatenated = Predictions(
        torch.cat([p.hidden for p in passes]),
        torch.cat([p.targets for p in passes]),
        model.projection,
    )
    loss = token_loss(concatenated, smoothing, r_drop_weight=3.0)
    single = [token_loss(p, smoothing) for p in passes]
    kl = symmetric_kl(*(model.projection(p.hidden).log_softmax(-1) for p in passes))
    assert kl > 1
    expected = float(single[0].total + single[1].total) / 2 + 3.0 / 4 * kl
    assert float(loss.total) == pytest.approx(expected, rel=1e-5)
    assert float(loss.nll) == pytest.approx(float(single[0].nll + single[1].nll) / 2, rel=1e-5)


def test_duplicates_have_different_dropout() -> None:
    batch = pairs(6)
    for dropout, equal in ((0.3, False), (0.0, True)):
        first, second = (
            small_transformer(dropout=dropout).train()(batch.duplicate()).hidden.chunk(2)
        )
        assert torch.allclose(first, second, atol=1e-5) == equal


def run_update(model: Transformer, weight: float) -> tuple[list[float], list[Tensor]]:
    """The sums of losses, tokens and gradients of an update of two batches."""
    config = TrainingConfig(r_drop=weight, max_grad_norm=0.0, precision="float32")
    optimizer = make_optimizer(model, config)
    update = Updater(model.train(), optimizer, Objective(config))(
        [pairs(6), pairs(3)], step=1, rate=0.0
    )
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    return [*update.sums.tolist(), update.tokens], gradients


def test_r_drop_without_dropout_changes_nothing() -> None:
    expected, expected_gradients = run_update(small_transformer(), 0.0)
    actual, actual_gradients = run_update(small_transformer(), 5.0)
    assert actual == pytest.approx(expected, rel=1e-5)
    for gradient, reference in zip(actual_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, reference, atol=1e-6, rtol=1e-4)


def test_r_drop_loss_is_linear_in_its_weight() -> None:
    # Equal seeds give equal dropout.
    none, some, more = (
        run_update(small_transformer(dropout=0.3), weight)[0] for weight in (1e-9, 2.0, 4.0)
    )
    assert none[1] == some[1] == more[1]
    assert some[0] > none[0] + 1
    assert more[0] - some[0] == pytest.approx(some[0] - none[0], rel=1e-3)


def test_reinforce_term_matches_its_definition() -> None:
    model = small_transformer(0, attention={"select": "sampled", "estimator": "reinforce"}).train()
    torch.manual_seed(3)
    predictions = model(pairs(5))
    assert predictions.selection_log_probs is not None
    assert predictions.selection_log_probs.shape == (5,)
    assert (predictions.selection_log_probs < 0).all()
    rewards = sentence_rewards(predictions)
    plain = token_loss(predictions, 0.1)
    loss = add_reinforce(plain, predictions)
    expected = -sum(
        float(
            predictions.selection_log_probs[b].detach()
            * (rewards[b] - (rewards.sum() - rewards[b]) / 4)
        )
        for b in range(5)
    )
    assert float((loss.total - plain.total).detach()) == pytest.approx(expected, rel=1e-4)
    assert float(rewards.sum()) == pytest.approx(-float(plain.nll), rel=1e-5)
    assert model.eval()(pairs(5)).selection_log_probs is None


def test_soft_attention_has_no_reinforce_term() -> None:
    predictions = small_transformer(0).train()(pairs(3))
    loss = token_loss(predictions, 0.1)
    assert add_reinforce(loss, predictions) is loss
