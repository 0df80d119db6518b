"""What people read."""

from __future__ import annotations

import pytest

from regard.cli.screen import rate


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
