"""Settings of a hyperparameter search."""

from __future__ import annotations

import pytest

from regard.config import build
from regard.errors import ConfigError
from regard.tuning.config import TuneConfig, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90m", 5400), ("1h30m", 5400), ("2d", 172800), ("1d2h3m4s", 93784), ("15s", 15)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds
    assert build(TuneConfig, {"timeout": text}).timeout == text


@pytest.mark.parametrize("text", ["", "2", "h", "1m1h", "1.5h", "-1h", "0s", "1 h", "2H"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"timeout is .* must be a duration such as 90m or 1h30m"):
        build(TuneConfig, {"timeout": text})
