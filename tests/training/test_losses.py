"""R-Drop against its definition, and against single passes."""

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
    sentence_rewards,
    token_loss,
    with_choices,
)
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import pairs, small_model

scores = st.lists(st.floats(-30, 30, width=32), min_size=12, max_size=12)


def rows(numbers: list[float]) -> Tensor:
    """Numbers as log-probabilities of four words at three places."""
    return torch.tensor(numbers).reshape(3, 4).log_softmax(-1)


def both_divergences(log_p: Tensor, log_q: Tensor) -> float:
    """`KL(p || q) + KL(q || p)` by the definition, each on its own."""
    p, q = (np.exp(log.double().numpy()) for log in (log_p, log_q))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)

    def kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
        return float((p * np.log(p / q)).sum())

    return kl(p, q) + kl(q, p)


@given(scores, scores)
def test_the_divergence_is_both_of_kullback_and_leibler(a: list[float], b: list[float]) -> None:
    found = float(divergence(rows(a), rows(b)).sum())
    assert found >= 0
    assert found == pytest.approx(both_divergences(rows(a), rows(b)), rel=1e-4, abs=1e-4)
    assert found == float(divergence(rows(b), rows(a)).sum())


@given(scores)
def test_what_agrees_does_not_diverge(numbers: list[float]) -> None:
    assert not divergence(rows(numbers), rows(numbers)).any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_of_two_passes_and_their_divergence(smoothing: float) -> None:
    model, batch = small_model(dropout=0.3).train().requires_grad_(False), pairs(6)
    passes = [model(batch), model(batch)]
    joined = Predictions(
        torch.cat([one.hidden for one in passes]),
        torch.cat([one.targets for one in passes]),
        model.projection,
    )
    found = token_loss(joined, smoothing, r_drop_weight=3.0)
    alone = [token_loss(one, smoothing) for one in passes]
    apart = both_divergences(*(model.projection(one.hidden).log_softmax(-1) for one in passes))
    assert apart > 1
    expected = float(alone[0].total + alone[1].total) / 2 + 3.0 / 4 * apart
    assert float(found.total) == pytest.approx(expected, rel=1e-5)
    assert float(found.nll) == pytest.approx(float(alone[0].nll + alone[1].nll) / 2, rel=1e-5)


def test_two_copies_are_dropped_differently_and_without_dropout_are_one() -> None:
    batch = pairs(6)
    for dropout, equal in ((0.3, False), (0.0, True)):
        first, second = small_model(dropout=dropout).train()(batch.twice()).hidden.chunk(2)
        assert torch.allclose(first, second, atol=1e-5) == equal


def updated(model: Transformer, weight: float) -> tuple[list[float], list[Tensor]]:
    """Loss, likelihood and gradients of an update of two batches."""
    config = TrainingConfig(r_drop=weight, clip_norm=0.0, precision="float32")
    optimizer = make_optimizer(model, config)
    done = Updater(model.train(), optimizer, Objective(config))(
        [pairs(6), pairs(3)], step=1, rate=0.0
    )
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    return [*done.sums.tolist(), done.tokens], gradients


def test_without_dropout_the_update_is_the_plain_one() -> None:
    plain, gradients = updated(small_model(), 0.0)
    doubled, also = updated(small_model(), 5.0)
    assert doubled == pytest.approx(plain, rel=1e-5)
    for one, other in zip(gradients, also, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_disagreement_is_punished_by_its_weight() -> None:
    # Equal seeds drop equally, so the losses are a line over the weight.
    none, some, more = (updated(small_model(dropout=0.3), weight)[0] for weight in (1e-9, 2.0, 4.0))
    assert none[1] == some[1] == more[1]
    assert some[0] > none[0] + 1
    assert more[0] - some[0] == pytest.approx(some[0] - none[0], rel=1e-3)


def test_drawn_choices_are_judged_by_their_sentences() -> None:
    model = small_model(0, attention={"select": "sampled", "estimator": "reinforce"}).train()
    torch.manual_seed(3)
    predictions = model(pairs(5))
    assert predictions.choices is not None
    assert predictions.choices.shape == (5,)
    assert (predictions.choices < 0).all()
    rewards = sentence_rewards(predictions)
    plain = token_loss(predictions, 0.1)
    found = with_choices(plain, predictions)
    expected = -sum(
        float(predictions.choices[b].detach() * (rewards[b] - (rewards.sum() - rewards[b]) / 4))
        for b in range(5)
    )
    assert float((found.total - plain.total).detach()) == pytest.approx(expected, rel=1e-4)
    assert float(rewards.sum()) == pytest.approx(-float(plain.nll), rel=1e-5)
    assert model.eval()(pairs(5)).choices is None


def test_soft_attention_draws_nothing() -> None:
    predictions = small_model(0).train()(pairs(3))
    loss = token_loss(predictions, 0.1)
    assert with_choices(loss, predictions) is loss
