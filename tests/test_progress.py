"""Progress on a terminal and in log files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from regard.progress import (
    TrainingProgressBar,
    TuningProgressBar,
    heartbeat,
    progress_counter,
    progress_with_rate,
)
from regard.tuning.result import TrialResult


def test_heartbeat_prints_progress_to_log_files(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(heartbeat, "seconds", 0.05)
    with heartbeat:
        time.sleep(0.2)
        assert "working  (0:00:00 elapsed)" in capfd.readouterr().err
        with progress_counter() as progress:
            progress("lines translated", 2000)
            time.sleep(0.2)
        assert "lines translated 2,000  (0:00:00 elapsed)" in capfd.readouterr().err
        with TrainingProgressBar() as bar:
            bar.on_train_begin(0, 10, "A model.")
            bar.on_step_end(1)
            bar.on_log({"loss": 1.5, "perplexity": 4.48, "tokens_per_second": 1000.0, "step": 1})
            time.sleep(0.2)
        assert "step 1 of 10  loss 1.500  perplexity 4.48" in capfd.readouterr().err
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_remaining_time_is_estimated_from_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.0, 110.0, 110.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with progress_with_rate("sentence", 40, 100, "sentences") as progress:
        progress(60)  # 20 in ten seconds
        status = heartbeat.status
    assert status == "sentence 60 of 100  2 sentences/s  left 0:00:20"


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({}, "perplexity 7.39"),
        ({"bleu": 31.26}, "BLEU 31.3"),
        ({"accuracy": 0.5}, "accuracy 50.00 %"),
        ({"within_half": 0.25}, "within half 0.250"),
        ({"valid_loss": 1e4}, "perplexity inf"),
    ],
)
def test_validation_metrics_are_printed(
    metrics: dict[str, float], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with TrainingProgressBar() as bar:
        bar.on_log({"step": 3, "valid_loss": 2.0, **metrics, "seconds": 1.0})
    assert capsys.readouterr().err.rstrip().endswith(expected)


def test_trials_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"model.dropout": 0.1, "training.optimizer": "adam"}
    with TuningProgressBar("BLEU") as bar:
        trial = TrialResult(7, "complete", 31.2567, 1500, 60.0, settings, Path("7"), None)
        bar.on_trial_end(trial, True)
        bar.on_trial_end(TrialResult(8, "failed", None, None, None, {}, Path("8"), "NaN."), False)
        bar.on_progress(2, 10, {9: "starting"})
        assert heartbeat.status.startswith("trial 2 of 10  trial 9: starting")
    complete, failed, reason = capsys.readouterr().err.splitlines()[:3]
    assert complete == (
        "trial    7  complete  BLEU 31.26 at step 1,500  (best so far)  model.dropout=0.1  "
        "training.optimizer=adam"
    )
    assert (failed.rstrip(), reason.strip()) == ("trial    8  failed", "NaN.")
