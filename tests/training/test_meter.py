"""The training speed, which excludes validation."""

from __future__ import annotations

import time

import pytest
import torch

from regard.training.meter import Meter
from regard.training.step import Update


class Clock:
    """A clock that advances only when the test sets it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def update(tokens: int) -> Update:
    return Update(torch.zeros(2, dtype=torch.float64), tokens)


def test_paused_time_is_excluded_from_the_speed(clock: Clock) -> None:
    meter = Meter((0.0, 0.0, 0), 50.0)
    meter.add(update(1000))
    clock.now += 10
    with meter.paused():
        clock.now += 90
    meter.add(update(1000))
    clock.now += 10
    assert meter.tokens_per_second == pytest.approx(100)
    assert meter.seconds == pytest.approx(50 + 110)  # includes the pause


def test_reset_starts_a_new_row(clock: Clock) -> None:
    meter = Meter((0.0, 0.0, 0), 0.0)
    with meter.paused():
        clock.now += 90
    meter.reset()
    meter.add(update(300))
    clock.now += 3
    assert meter.tokens_per_second == pytest.approx(100)
