"""What people read."""

from __future__ import annotations

import time

import pytest

from regard.cli.heartbeat import heartbeat
from regard.cli.screen import TrainingBar, counting, pace, rate


@pytest.mark.parametrize(
    ("lines", "seconds", "told"),
    [
        (1, 8.74, "1 line in 8.74 s, 0.11 a second."),
        (5, 2.0, "5 lines in 2.00 s, 2.5 a second."),
        (2000, 1.5, "2,000 lines in 1.50 s, 1,333 a second."),
    ],
)
def test_a_rate_is_never_nothing(lines: int, seconds: float, told: str) -> None:
    assert rate(lines, seconds) == told


def test_long_work_is_not_silent_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(heartbeat, "seconds", 0.05)
    with heartbeat:
        time.sleep(0.2)
        assert "working  (0:00:00 elapsed)" in capfd.readouterr().err
        with counting() as progress:
            progress("lines translated", 2000)
            time.sleep(0.2)
        assert "lines translated 2,000  (0:00:00 elapsed)" in capfd.readouterr().err
        with TrainingBar() as bar:
            bar.begin(0, 10, "A model.")
            bar.step(1)
            bar.row({"loss": 1.5, "perplexity": 4.48, "tokens_per_second": 1000.0, "step": 1})
            time.sleep(0.2)
        assert "step 1 of 10  loss 1.500  perplexity 4.48" in capfd.readouterr().err
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_the_rest_takes_as_long_as_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.0, 110.0, 110.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pace("sentence", 40, 100, "sentences") as progress:
        progress(60)  # 20 in ten seconds
        status = heartbeat.status
    assert status == "sentence 60 of 100  2 sentences/s  left 0:00:20"
