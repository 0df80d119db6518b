"""Formatting of notices."""

from __future__ import annotations

import pytest

from regard.cli.tables import format_throughput
from regard.notices import limited_notices


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


def test_notices_are_limited_by_kind() -> None:
    printed: list[str] = []
    repeats = "has a translation that is repetitive."
    lacks = 'has a translation that lacks "Hund" for "{}", which does not fit. It has a long one.'
    with limited_notices(printed.append) as notice:
        for number in range(1, 9):
            notice(f"Line {number} {repeats}")
            notice("Confidences are not calibrated.")
        notice(f"Line 9 {lacks.format('dog')}")
        assert printed[-1].startswith("Line 9")
        for number in range(10, 14):
            notice(f"Line {number} {lacks.format(number)}")
    assert printed.count("Confidences are not calibrated.") == 8
    assert [line for line in printed if repeats in line] == [
        f"Line {n} {repeats}" for n in (1, 2, 3)
    ]
    assert [line[:7] for line in printed if "lacks" in line] == ["Line 9 ", "Line 10", "Line 11"]
    assert printed[-2:] == [
        "What applies to line 1 applies to 5 more lines.",
        "What applies to line 9 applies to 2 more lines.",
    ]
