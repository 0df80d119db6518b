"""Wraps the text of a subtitle in lines of similar length."""

from __future__ import annotations

import re
from typing import NamedTuple

# Chinese and Japanese characters, between which a line may end, except before punctuation.
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_AFTER = r"\u3001\u3002\u300d\u300f\u3011\uff01\uff09\uff0c\uff1a\uff1b\uff1f…"
TAG = r"<[^<>]*>|\{\\[^{}]*\}"
_UNIT = re.compile(
    rf"(?P<space>[ \t\r\n]*)"
    rf"(?P<text>(?:{TAG})*(?:[{_CJK}]|(?:{TAG}|[^ \t\r\n{_CJK}])+)(?:{TAG}|[{_AFTER}])*)"
)


class _Unit(NamedTuple):
    """A word or a character that is not divided, and whether a space precedes it."""

    text: str
    has_space: bool

    @property
    def width(self) -> int:
        """The number of characters that are displayed."""
        return visible_width(self.text) + self.has_space


def visible_width(text: str) -> int:
    """The number of characters that are displayed, without tags."""
    return len(re.sub(TAG, "", text))


def wrap(text: str, count: int) -> list[str]:
    """A text in up to `count` lines of similar width."""
    units = _units(text)
    return _joined(units, [1.0] * min(count, len(units)))


def split_by_weight(text: str, weights: list[int]) -> list[str]:
    """A text in as many parts as there are weights, to which their widths are proportional.

    Parts at the end are empty if the text has too few words.
    """
    units = _units(text)
    lines = _joined(units, [*map(float, weights[: len(units)])])
    return lines + [""] * (len(weights) - len(lines))


def _units(text: str) -> list[_Unit]:
    return [_Unit(match["text"], match["space"] != "") for match in _UNIT.finditer(text)]


def _joined(units: list[_Unit], weights: list[float]) -> list[str]:
    """The units in one line per weight, each with at least one unit."""
    total, scale = sum(unit.width for unit in units), sum(weights)
    lines: list[str] = []
    start, width, target = 0, 0, 0.0
    for number, weight in enumerate(weights, 1):
        target += total * weight / scale
        last = len(units) - (len(weights) - number)  # the others need a unit each
        end = start + 1
        width += units[start].width
        while end < last and abs(width + units[end].width - target) < abs(width - target):
            width += units[end].width
            end += 1
        if number == len(weights):
            end = len(units)
        lines.append(_text(units[start:end]))
        start = end
    return lines


def _text(units: list[_Unit]) -> str:
    return "".join(" " * unit.has_space + unit.text for unit in units).strip()
