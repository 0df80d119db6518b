"""The speed of training, which validation does not slow down."""

from __future__ import annotations

import time

import pytest
import torch

from regard.training.meter import Meter
from regard.training.step import Update


class Clock:
    """A clock that stands still unless it is told to go on."""

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


def test_what_is_not_training_does_not_count_against_the_speed(clock: Clock) -> None:
    meter = Meter((0.0, 0.0, 0), 50.0)
    meter.add(update(1000))
    clock.now += 10
    with meter.paused():
        clock.now += 90
    meter.add(update(1000))
    clock.now += 10
    assert meter.tokens_per_second == pytest.approx(100)
    assert meter.seconds == pytest.approx(50 + 110)  # the run took as long as it took


def test_a_row_begins_anew(clock: Clock) -> None:
    meter = Meter((0.0, 0.0, 0), 0.0)
    with meter.paused():
        clock.now += 90
    meter.reset()
    meter.add(update(300))
    clock.now += 3
    assert meter.tokens_per_second == pytest.approx(100)
