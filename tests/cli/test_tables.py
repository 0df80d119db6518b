"""Formatting of notices."""

from __future__ import annotations

import pytest

from regard.cli.tables import format_throughput


@pytest.mark.parametrize(
    ("lines", "seconds", "expected"),
    [
        (1, 8.74, "1 line in 8.74 s (0.11 lines/s)."),
        (5, 2.0, "5 lines in 2.00 s (2.5 lines/s)."),
        (2000, 1.5, "2,000 lines in 1.50 s (1,333 lines/s)."),
    ],
)
def test_throughput_has_significant_digits(lines: int, seconds: float, expected: str) -> None:
    assert format_throughput(lines, seconds) == expected
