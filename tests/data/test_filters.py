"""Corpus filters: errors, cleaning, filtering, and the counts in the report."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from regard.data.filters import CorpusFilterConfig, Report, filter_pairs
from regard.data.pair_files import Files, PairReader
from regard.errors import DataError

# All optional filters are disabled.
NO_FILTERS = CorpusFilterConfig(
    max_characters=10**9, max_ratio=0.0, skip_copied=False, skip_duplicates=False
)
Pairs = list[tuple[str, str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "text.en"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "text.de"


def apply_filters(
    source: Path, target: Path, filters: CorpusFilterConfig = NO_FILTERS
) -> tuple[Pairs, Report]:
    report = Report()
    kept = [
        (left, right) for _, left, right in filter_pairs(source, target, filters, report, set())
    ]
    report.kept = len(kept)
    return kept, report


def filter_text(tmp_path: Path, pairs: Pairs, filters: CorpusFilterConfig) -> tuple[Pairs, Report]:
    source, target = tmp_path / "text.en", tmp_path / "text.de"
    source.write_text("".join(f"{left}\n" for left, _ in pairs), encoding="utf-8", newline="")
    target.write_text("".join(f"{right}\n" for _, right in pairs), encoding="utf-8", newline="")
    return apply_filters(source, target, filters)


def error_message(source: Path, target: Path) -> str:
    problem = problem_of(source, target, apply_filters(source, target)[1])
    assert problem is not None
    return problem


def problem_of(source: Path, target: Path, report: Report) -> str | None:
    files = Files(source, target)
    return PairReader({"train": [files]}, NO_FILTERS).problem(files, report)


# Valid files.


def test_valid_pairs_are_kept_with_line_numbers(source: Path, target: Path) -> None:
    source.write_text("a dog\n\na cat\n")
    target.write_text("ein Hund\n\neine Katze\n")
    pairs = list(filter_pairs(source, target, CorpusFilterConfig(), Report(), set()))
    assert pairs == [(1, "a dog", "ein Hund"), (3, "a cat", "eine Katze")]


def test_valid_files_have_no_issues(tmp_path: Path) -> None:
    pairs = [("a dog", "ein Hund"), ("我爱你", "I love you")]
    kept, report = filter_text(tmp_path, pairs, CorpusFilterConfig())
    assert kept == pairs
    assert (report.pairs, report.errors, report.issues) == (2, [], {})
    assert problem_of(tmp_path / "text.en", tmp_path / "text.de", report) is None


def test_gzip_files_equal_plain_files(tmp_path: Path) -> None:
    contents = b"\xef\xbb\xbfa dog\r\na cat\r\n", b"ein Hund\neine Katze\n"
    plain = tmp_path / "plain.en", tmp_path / "plain.de"
    compressed = tmp_path / "gzip.en", tmp_path / "gzip.de"
    for content, path, gzip_path in zip(contents, plain, compressed, strict=True):
        path.write_bytes(content)
        gzip_path.write_bytes(gzip.compress(content))
    assert apply_filters(*compressed) == apply_filters(*plain)
    assert apply_filters(*compressed)[0] == [("a dog", "ein Hund"), ("a cat", "eine Katze")]


# Errors.


@pytest.mark.parametrize(("sources", "targets"), [(2, 3), (3, 2), (0, 1)])
def test_line_count_mismatch_is_reported_with_both_counts(
    source: Path, target: Path, sources: int, targets: int
) -> None:
    source.write_text("a\n" * sources)
    target.write_text("b\n" * targets)
    message = error_message(source, target)
    assert f"{source} has {sources} lines" in message
    assert f"{target} has {targets}" in message


def test_invalid_utf8_is_reported_with_file_and_line(source: Path, target: Path) -> None:
    source.write_bytes(b"a\nb\n")
    target.write_bytes(b"c\n\xe9t\xe9\n")
    assert f"{target}, line 2: not valid UTF-8" in error_message(source, target)


def test_nul_is_reported_with_file_and_line(source: Path, target: Path) -> None:
    source.write_bytes(b"a\nb\nc\0\n")
    target.write_bytes(b"c\nd\ne\n")
    assert f"{source}, line 3: contains a NUL" in error_message(source, target)


def test_utf16_is_rejected(source: Path, target: Path) -> None:
    source.write_text("a dog\n", encoding="utf-16-le")
    target.write_text("ein Hund\n")
    assert "UTF-16" in error_message(source, target)


def test_all_errors_are_in_one_message(source: Path, target: Path) -> None:
    source.write_bytes(b"a\n\xff\nc\0\nd\n")
    target.write_bytes(b"a\n\xff\nc\n")
    message = error_message(source, target)
    assert f"{source}, line 2" in message
    assert f"{target}, line 2" in message
    assert f"{source}, line 3" in message
    assert f"{source} has 4 lines and {target} has 3" in message
    assert "4 problems" in message


def test_long_lists_of_errors_are_truncated(source: Path, target: Path) -> None:
    source.write_bytes(b"\xff\n" * 1000)
    target.write_bytes(b"a\n" * 1000)
    message = error_message(source, target)
    assert "line 20:" in message
    assert "line 21:" not in message
    assert "and 980 more" in message


def test_line_count_mismatch_is_reported_before_other_errors(source: Path, target: Path) -> None:
    source.write_bytes(b"\xff\n" * 1000)
    target.write_bytes(b"a\n" * 999)
    assert f"{source} has 1000 lines and {target} has 999" in error_message(source, target)


@pytest.mark.parametrize(
    ("content", "expected"),
    [("", "the files are empty"), ("\n\n\n", "none of the 3 pairs is left")],
)
def test_corpus_without_remaining_pairs_is_rejected(
    source: Path, target: Path, content: str, expected: str
) -> None:
    source.write_text(content)
    target.write_text(content)
    message = error_message(source, target)
    assert expected in message
    assert str(source) in message


def test_error_for_empty_result_lists_the_reasons(tmp_path: Path) -> None:
    pairs = [("a", "a"), ("b", "b"), ("", "c")]
    _, report = filter_text(tmp_path, pairs, CorpusFilterConfig())
    problem = problem_of(tmp_path / "x", tmp_path / "y", report)
    assert problem is not None
    assert re.search(r"none of the 3 .*empty: skipped: 1", problem)
    assert "target is a copy of the source: skipped: 2" in problem


@pytest.mark.parametrize("side", ["source", "target"])
def test_truncated_gzip_file_is_rejected(source: Path, target: Path, side: str) -> None:
    for path, name in ((source, "source"), (target, "target")):
        content = gzip.compress(b"".join(b"line %d\n" % number for number in range(2000)))
        path.write_bytes(content[:-20] if name == side else content)
    with pytest.raises(DataError, match="damaged gzip file"):
        apply_filters(source, target)


# Cleaning.


def test_byte_order_mark_is_removed_and_counted(source: Path, target: Path) -> None:
    source.write_bytes(b"\xef\xbb\xbfa\nb\n")
    target.write_bytes(b"\xef\xbb\xbfc\nd\n")
    kept, report = apply_filters(source, target)
    assert kept == [("a", "c"), ("b", "d")]
    assert report.issues == {"byte-order mark removed": (2, 1)}


def test_carriage_returns_are_removed_and_counted(source: Path, target: Path) -> None:
    source.write_bytes(b"a\nb\r\nc\r\n")
    target.write_bytes(b"d\ne\nf\n")
    kept, report = apply_filters(source, target)
    assert kept == [("a", "d"), ("b", "e"), ("c", "f")]
    assert report.issues == {"carriage return removed": (2, 2)}


@pytest.mark.parametrize("character", "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
def test_other_line_breaks_are_replaced_and_counted(
    source: Path, target: Path, character: str
) -> None:
    source.write_bytes(f"a\none{character}line\n".encode())
    target.write_bytes(b"b\nc\n")
    kept, report = apply_filters(source, target)
    assert kept == [("a", "b"), ("one line", "c")]
    assert report.issues == {"line-break character replaced by a space": (1, 2)}


def test_clean_lines_have_no_line_breaks(source: Path, target: Path) -> None:
    characters = "".join(map(chr, range(1, 0x3000))).replace("\n", "")
    source.write_bytes(f"x{characters}x\n".encode())
    target.write_bytes(b"y\n")
    [(text, _)] = apply_filters(source, target)[0]
    assert text.splitlines() == [text]


def test_surrounding_whitespace_is_removed(source: Path, target: Path) -> None:
    source.write_text("  a  dog \n")
    target.write_text("\tein Hund\u3000\n", encoding="utf-8")
    assert apply_filters(source, target)[0] == [("a  dog", "ein Hund")]


# Filters.

COPIED = "target is a copy of the source: skipped"


@pytest.mark.parametrize(
    ("pair", "filters", "reason"),
    [
        (("", "b"), NO_FILTERS, "empty: skipped"),
        (("a", " \t"), NO_FILTERS, "empty: skipped"),
        (("a", "\u2028"), NO_FILTERS, "empty: skipped"),
        (("abcd", "b"), CorpusFilterConfig(max_characters=3), "too many characters: skipped"),
        (("a", "bcde"), CorpusFilterConfig(max_characters=3), "too many characters: skipped"),
        (("a" * 7, "bc"), CorpusFilterConfig(max_ratio=3), "odd length ratio: skipped"),
        (("ab", "c" * 7), CorpusFilterConfig(max_ratio=3), "odd length ratio: skipped"),
        (("same", "same"), CorpusFilterConfig(), COPIED),
        (("first", "erster"), CorpusFilterConfig(), "duplicate: skipped"),
    ],
)
def test_each_filter_skips_and_counts(
    tmp_path: Path, pair: tuple[str, str], filters: CorpusFilterConfig, reason: str
) -> None:
    valid = [("first", "erster"), ("next", "nächster")]
    if filters.max_characters < 10:
        valid = [("a", "b"), ("c", "d")]
    kept, report = filter_text(tmp_path, [*valid, pair, pair], filters)
    assert kept == valid
    counts = {issue: n for issue, n in report.issues.items() if "line-break" not in issue}
    assert counts == {reason: (2, 3)}
    assert report.pairs == 4


@pytest.mark.parametrize(
    ("pair", "filters"),
    [
        (("abc", "def"), CorpusFilterConfig(max_characters=3)),
        (("我爱你", "我爱她"), CorpusFilterConfig(max_characters=3)),
        (("a" * 6, "bc"), CorpusFilterConfig(max_ratio=3)),
        (("a" * 1000, "b"), CorpusFilterConfig(max_ratio=0)),
        (("我爱你", "I love you"), CorpusFilterConfig(max_ratio=1.2)),  # 9 and 10 bytes
        (("same", "same"), CorpusFilterConfig(skip_copied=False)),
        (("first", "erster"), CorpusFilterConfig(skip_duplicates=False)),
        (("first", "der erste"), CorpusFilterConfig()),
        (("the first", "erster"), CorpusFilterConfig()),
    ],
)
def test_pairs_that_pass_all_filters_are_kept(
    tmp_path: Path, pair: tuple[str, str], filters: CorpusFilterConfig
) -> None:
    valid = [] if filters.max_characters == 3 else [("first", "erster")]
    kept, report = filter_text(tmp_path, [*valid, pair], filters)
    assert kept == [*valid, pair]
    assert report.issues == {}


def test_megabyte_line_is_skipped(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("x" * 2**20, "y"), ("c", "d")]
    kept, report = filter_text(tmp_path, pairs, CorpusFilterConfig())
    assert kept == [("a", "b"), ("c", "d")]
    assert report.issues == {"too many characters: skipped": (1, 2)}


def test_validation_set_is_filtered_by_length_only(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "b"), ("same", "same"), ("a", "b" * 50)]
    filters = CorpusFilterConfig(max_characters=60, max_tokens=7).for_validation()
    kept, report = filter_text(tmp_path, [*pairs, ("", "c"), ("x" * 61, "y")], filters)
    assert kept == pairs
    assert report.issues == {
        "empty: skipped": (1, 5),
        "too many characters: skipped": (1, 6),
    }
    assert filters.max_tokens == 7
