"""The doctor looks at every pair of lines before anything is trained.

What cannot be used is an error that names file and line; all of them are collected first. What can
be repaired is repaired, what should not be learned from is skipped, and both are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from regard.bounds import COUNT, LENGTH, Ge
from regard.config import Doc, Flag, Settings
from regard.data.corpus import LongLineError, decoded, max_line_length, raw_lines, unequal
from regard.errors import DataError

# Characters that other programs take for a line break, and that would tear a line apart there.
_BREAKS = {ord(mark): " " for mark in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_TOO_LONG = "too many characters: skipped"


@dataclass(frozen=True)
class LengthFilterConfig(Settings):
    """Examples that are too long."""

    max_tokens: Annotated[
        int, Doc("skip a pair with a side of more subwords, or an example"), Ge(1), LENGTH
    ] = 256
    max_characters: Annotated[
        int, Doc("skip a pair with a longer side, or an example"), Ge(1), COUNT
    ] = 4000


@dataclass(frozen=True)
class DoctorConfig(LengthFilterConfig):
    """Pairs that are filtered out."""

    max_ratio: Annotated[
        float,
        Doc("skip a pair with one side so many times longer (in bytes); 0: never"),
        Ge(0),
        COUNT,
    ] = 9.0
    skip_copied: Annotated[
        bool,
        Doc("skip a pair whose target is its source"),
        Flag("--skip-copied/--no-skip-copied"),
    ] = True
    skip_duplicates: Annotated[
        bool, Doc("skip a pair that came before"), Flag("--skip-duplicates/--no-skip-duplicates")
    ] = True

    def for_validation(self) -> DoctorConfig:
        """Only what a model could not take is left out of a validation set."""
        return DoctorConfig(self.max_tokens, self.max_characters, 0.0, False, False)


@dataclass
class Report:
    """What the doctor saw in one pair of files."""

    pairs: int = 0
    kept: int = 0
    errors: list[str] = field(default_factory=list)
    found: dict[str, tuple[int, int]] = field(default_factory=dict)  # what -> count, first line

    def note(self, what: str, line: int) -> None:
        """Count one more of a kind."""
        count, first = self.found.get(what, (0, line))
        self.found[what] = (count + 1, first)

    @property
    def counts(self) -> str:
        """What was found, after a semicolon each."""
        return "".join(f"; {what}: {count}" for what, (count, _) in self.found.items())


def examined(
    source: Path,
    target: Path,
    config: DoctorConfig,
    report: Report,
    seen: set[int],
) -> Iterator[tuple[int, str, str]]:
    """The pairs worth keeping, as (line number, source, target); the rest goes into the report.

    `seen` remembers pairs from one corpus to the next, where there are several.
    """
    counts = [0, 0]
    limit = max(max_line_length(), config.max_characters)
    lines = zip_longest(raw_lines(source, limit), raw_lines(target, limit))
    for number, (left, right) in enumerate(lines, 1):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is None or right is None:
            continue
        try:
            first = _repaired(left, source, number, report, limit)
            second = _repaired(right, target, number, report, limit)
        except LongLineError:
            report.note(_TOO_LONG, number)
            continue
        if first is None or second is None:
            continue
        first, second = first.strip(), second.strip()
        reason = reason_to_skip(first, second, config)
        key = hash((first, second))
        if not reason and config.skip_duplicates and key in seen:
            reason = "duplicate"
        if reason:
            report.note(f"{reason}: skipped", number)
        else:
            seen.add(key)
            yield number, first, second
    report.pairs = min(counts)
    if counts[0] != counts[1]:
        report.errors.insert(0, unequal(source, counts[0], target, counts[1]))


def repaired_lines(
    path: Path, report: Report, *, skip_long: bool = False, strip: bool = True
) -> Iterator[tuple[int, str]]:
    """The lines of a file as clean text, with their numbers, but for those that cannot be read.

    Lines beyond the limit are skipped and counted, or errors. Whitespace around a line is removed,
    tabs included, unless `strip` is False.
    """
    for number, line in enumerate(raw_lines(path), 1):
        try:
            text = _repaired(line, path, number, report)
        except LongLineError as error:
            if skip_long:
                report.note(_TOO_LONG, number)
            else:
                report.errors.append(str(error))
            continue
        if text is not None:
            yield number, text.strip() if strip else text


def _repaired(
    line: bytes, path: Path, number: int, report: Report, max_length: int | None = None
) -> str | None:
    """The line as clean text; None, with an entry among the errors, if that cannot be."""
    try:
        text = decoded(line, path, number, max_length)
    except LongLineError:
        raise
    except DataError as error:
        report.errors.append(str(error))
        return None
    if number == 1 and line.startswith(b"\xef\xbb\xbf"):
        report.note("byte-order mark removed", number)
    if line.endswith(b"\r"):
        report.note("carriage return removed", number)
    if text.translate(_BREAKS) != text:
        report.note("line-break character replaced by a space", number)
    return text.translate(_BREAKS)


def reason_to_skip(source: str, target: str, config: DoctorConfig) -> str | None:
    """The first rule that speaks against a pair, whatever came before it."""
    if not source or not target:
        return "empty"
    if max(len(source), len(target)) > config.max_characters:
        return "too many characters"
    # In bytes, since a Chinese character says about as much as a short English word.
    short, long = sorted((len(source.encode()), len(target.encode())))
    if config.max_ratio and long / short > config.max_ratio:
        return "odd length ratio"
    if config.skip_copied and source == target:
        return "target is a copy of the source"
    return None
