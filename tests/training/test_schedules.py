"""Learning rate schedules against their formulas."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.training import optimizer
from regard.training.config import ScheduleName, TrainingConfig
from regard.training.optimizer import learning_rate

steps = st.integers(1, 10**6)


@given(steps, st.integers(1, 10**5), st.integers(1, 2048))
def test_default_is_the_schedule_of_vaswani_et_al(step: int, warmup: int, width: int) -> None:
    config = TrainingConfig(warmup_steps=warmup)
    expected = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert learning_rate(step, config, width) == pytest.approx(expected, rel=1e-9)


@given(steps, st.integers(1, 10**5))
def test_warmup_is_linear(step: int, warmup: int) -> None:
    for factor in (
        optimizer.inverse_sqrt(step, warmup),
        optimizer.constant(step, warmup),
        optimizer.cosine(step, warmup, 2 * 10**6),
        optimizer.linear(step, warmup, 2 * 10**6),
    ):
        if step <= warmup:
            assert factor == pytest.approx(step / warmup)
        assert 0 <= factor <= 1


def test_cosine_decays_to_zero() -> None:
    assert optimizer.cosine(100, 100, 1100) == 1
    assert optimizer.cosine(600, 100, 1100) == pytest.approx(0.5)
    assert optimizer.cosine(350, 100, 1100) == pytest.approx(0.5 + math.cos(math.pi / 4) / 2)
    assert optimizer.cosine(1100, 100, 1100) == optimizer.cosine(5000, 100, 1100) == 0


def test_linear_decays_to_zero() -> None:
    assert optimizer.linear(100, 100, 1100) == 1
    assert optimizer.linear(600, 100, 1100) == 0.5
    assert optimizer.linear(850, 100, 1100) == 0.25
    assert optimizer.linear(1100, 100, 1100) == optimizer.linear(5000, 100, 1100) == 0


@given(steps, st.integers(1, 10**5), st.integers(1, 10**6))
def test_decay_is_monotonic_after_warmup(step: int, warmup: int, end: int) -> None:
    for schedule in (optimizer.cosine, optimizer.linear):
        current, following = schedule(step, warmup, end), schedule(step + 1, warmup, end)
        assert 0 <= current <= 1
        if step >= warmup:
            assert following <= current


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_decay_ends_with_the_run_by_default(schedule: ScheduleName) -> None:
    for decay_steps, end in ((0, 50), (40, 40)):
        config = TrainingConfig(
            max_steps=50,
            schedule=schedule,
            decay_steps=decay_steps,
            warmup_steps=10,
            learning_rate=2.0,
        )
        rates = [learning_rate(step, config, 16) for step in (1, 10, end - 1, end)]
        assert rates[:2] == pytest.approx([0.2, 2.0])
        assert 0 == rates[3] < rates[2] < 0.1
