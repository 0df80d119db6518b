"""Corpus validation: reading, cleaning and filtering of text files before training.

Invalid input is an error with file and line; all errors of a file are collected. Lines are cleaned
where that is possible, and unsuitable pairs are filtered out; a report counts both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from regard.bounds import COUNT, LENGTH, Ge, Le
from regard.config import Doc, Flag, Settings
from regard.data.line_reader import (
    LongLineError,
    decode_line,
    line_count_mismatch,
    max_line_length,
    raw_lines,
)
from regard.errors import DataError

# Characters that other programs treat as line breaks.
_LINE_BREAKS = {ord(character): " " for character in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
_TOO_LONG = "too many characters: skipped"
_EXAMPLES = 3  # per issue


@dataclass(frozen=True)
class LengthFilterConfig(Settings):
    """Length filters."""

    max_tokens: Annotated[
        int,
        Doc("maximum number of subwords per side or example; longer ones are filtered out"),
        Ge(1),
        LENGTH,
    ] = 256
    max_characters: Annotated[
        int,
        Doc("maximum number of characters per side or example; longer ones are filtered out"),
        Ge(1),
        COUNT,
    ] = 4000


@dataclass(frozen=True)
class CorpusFilterConfig(LengthFilterConfig):
    """Filters for parallel corpora."""

    max_ratio: Annotated[
        float,
        Doc("maximum length ratio of the sides in bytes; 0 disables this filter"),
        Ge(0),
        COUNT,
    ] = 9.0
    skip_copied: Annotated[
        bool,
        Doc("filter out pairs with identical source and target"),
        Flag("--skip-copied/--no-skip-copied"),
    ] = True
    skip_duplicates: Annotated[
        bool, Doc("filter out duplicate pairs"), Flag("--skip-duplicates/--no-skip-duplicates")
    ] = True
    min_lang_prob: Annotated[
        float,
        Doc(
            "minimum probability that a side is in its language (--source-lang, --target-lang) and "
            "not in the most probable other one, such as 0.1; 0 disables this filter"
        ),
        Ge(0),
        Le(0.5),
    ] = 0.0

    def for_validation(self) -> CorpusFilterConfig:
        """The filters for validation sets: only length limits."""
        return CorpusFilterConfig(self.max_tokens, self.max_characters, 0.0, False, False)


@dataclass
class Report:
    """Counts and errors from reading one corpus."""

    pairs: int = 0
    kept: int = 0
    errors: list[str] = field(default_factory=list)
    issues: dict[str, tuple[int, int]] = field(default_factory=dict)  # count and first line of each
    examples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)  # of pairs

    def note(self, issue: str, line: int, pair: tuple[str, str] | None = None) -> None:
        """Count an issue at a line; the first pairs with each issue are kept as examples."""
        count, first = self.issues.get(issue, (0, line))
        self.issues[issue] = (count + 1, first)
        if pair is not None and count < _EXAMPLES:
            self.examples.setdefault(issue, []).append((line, *pair))

    @property
    def counts(self) -> str:
        """The number of each issue, for a message; each begins with a semicolon."""
        return "".join(f"; {issue}: {count}" for issue, (count, _) in self.issues.items())


def filter_pairs(
    source: Path,
    target: Path,
    config: CorpusFilterConfig,
    report: Report,
    seen: set[int],
    *,
    blank: str = "empty: skipped",
) -> Iterator[tuple[int, str, str]]:
    """Pairs that pass the filters, as (line number, source, target); others are in the report.

    `seen` holds the hashes of pairs, for the detection of duplicates across corpora. `blank` is how
    pairs of two blank lines are reported.
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
            first = _clean_line(left, source, number, report, limit)
            second = _clean_line(right, target, number, report, limit)
        except LongLineError:
            report.note(_TOO_LONG, number)
            continue
        if first is None or second is None:
            continue
        first, second = first.strip(), second.strip()
        reason = skip_reason(first, second, config)
        key = hash((first, second))
        if not reason and config.skip_duplicates and key in seen:
            reason = "duplicate"
        if reason:
            issue = f"{reason}: skipped" if first or second else blank
            report.note(issue, number, (first, second))
        else:
            seen.add(key)
            yield number, first, second
    report.pairs = min(counts)
    if counts[0] != counts[1]:
        report.errors.insert(0, line_count_mismatch(source, counts[0], target, counts[1]))


def read_text_lines(
    path: Path, report: Report, *, skip_long: bool = False, strip: bool = True
) -> Iterator[tuple[int, str]]:
    """Clean lines of a file with their numbers; invalid lines are errors in the report.

    Lines over the length limit are skipped if `skip_long`, else errors. Leading and trailing
    whitespace, tabs included, is removed unless `strip` is False.
    """
    for number, line in enumerate(raw_lines(path), 1):
        try:
            text = _clean_line(line, path, number, report)
        except LongLineError as error:
            if skip_long:
                report.note(_TOO_LONG, number)
            else:
                report.errors.append(str(error))
            continue
        if text is not None:
            yield number, text.strip() if strip else text


def _clean_line(
    line: bytes, path: Path, number: int, report: Report, max_length: int | None = None
) -> str | None:
    """A decoded and cleaned line; None, with an error in the report, if it is invalid."""
    try:
        text = decode_line(line, path, number, max_length)
    except LongLineError:
        raise
    except DataError as error:
        report.errors.append(str(error))
        return None
    if number == 1 and line.startswith(b"\xef\xbb\xbf"):
        report.note("byte-order mark removed", number)
    if line.endswith(b"\r"):
        report.note("carriage return removed", number)
    if text.translate(_LINE_BREAKS) != text:
        report.note("line-break character replaced by a space", number)
    return text.translate(_LINE_BREAKS)


def skip_reason(source: str, target: str, config: CorpusFilterConfig) -> str | None:
    """Why the filters reject a pair, duplicates aside; None if they accept it."""
    if not source or not target:
        return "empty"
    if max(len(source), len(target)) > config.max_characters:
        return "too many characters"
    # In bytes: a Chinese character carries about as much information as a short English word.
    short, long = sorted((len(source.encode()), len(target.encode())))
    if config.max_ratio and long / short > config.max_ratio:
        return "odd length ratio"
    if config.skip_copied and source == target:
        return "target is a copy of the source"
    return None
