"""The doctor: what is an error, what is repaired, what is skipped, and that it is counted."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from regard.data.doctor import DoctorConfig, Report, examined
from regard.data.pair_files import Files, PairReader
from regard.errors import DataError

# All rules that can be switched off are.
NO_RULES = DoctorConfig(
    max_characters=10**9, max_ratio=0.0, skip_copied=False, skip_duplicates=False
)
Pairs = list[tuple[str, str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "text.en"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "text.de"


def examine(source: Path, target: Path, rules: DoctorConfig = NO_RULES) -> tuple[Pairs, Report]:
    report = Report()
    kept = [(left, right) for _, left, right in examined(source, target, rules, report, set())]
    report.kept = len(kept)
    return kept, report


def examine_pairs(tmp_path: Path, pairs: Pairs, rules: DoctorConfig) -> tuple[Pairs, Report]:
    source, target = tmp_path / "text.en", tmp_path / "text.de"
    source.write_text("".join(f"{left}\n" for left, _ in pairs), encoding="utf-8", newline="")
    target.write_text("".join(f"{right}\n" for _, right in pairs), encoding="utf-8", newline="")
    return examine(source, target, rules)


def refusal(source: Path, target: Path) -> str:
    problem = problem_of(source, target, examine(source, target)[1])
    assert problem is not None
    return problem


def problem_of(source: Path, target: Path, report: Report) -> str | None:
    files = Files(source, target)
    return PairReader({"train": [files]}, NO_RULES).problem(files, report)


# What is fine.


def test_good_pairs_are_kept_with_their_line_numbers(source: Path, target: Path) -> None:
    source.write_text("a dog\n\na cat\n")
    target.write_text("ein Hund\n\neine Katze\n")
    pairs = list(examined(source, target, DoctorConfig(), Report(), set()))
    assert pairs == [(1, "a dog", "ein Hund"), (3, "a cat", "eine Katze")]


def test_nothing_is_found_in_good_files(tmp_path: Path) -> None:
    pairs = [("a dog", "ein Hund"), ("我爱你", "I love you")]
    kept, report = examine_pairs(tmp_path, pairs, DoctorConfig())
    assert kept == pairs
    assert (report.pairs, report.errors, report.found) == (2, [], {})
    assert problem_of(tmp_path / "text.en", tmp_path / "text.de", report) is None


def test_gzip_files_are_read_as_plain_ones(tmp_path: Path) -> None:
    contents = b"\xef\xbb\xbfa dog\r\na cat\r\n", b"ein Hund\neine Katze\n"
    plain = tmp_path / "plain.en", tmp_path / "plain.de"
    compressed = tmp_path / "packed.en", tmp_path / "packed.de"
    for content, path, packed in zip(contents, plain, compressed, strict=True):
        path.write_bytes(content)
        packed.write_bytes(gzip.compress(content))
    assert examine(*compressed) == examine(*plain)
    assert examine(*compressed)[0] == [("a dog", "ein Hund"), ("a cat", "eine Katze")]


# Errors.


@pytest.mark.parametrize(("sources", "targets"), [(2, 3), (3, 2), (0, 1)])
def test_unequal_files_are_an_error_with_both_counts(
    source: Path, target: Path, sources: int, targets: int
) -> None:
    source.write_text("a\n" * sources)
    target.write_text("b\n" * targets)
    message = refusal(source, target)
    assert f"{source} has {sources} lines" in message
    assert f"{target} has {targets}" in message


def test_invalid_utf8_is_an_error_with_file_and_line(source: Path, target: Path) -> None:
    source.write_bytes(b"a\nb\n")
    target.write_bytes(b"c\n\xe9t\xe9\n")
    assert f"{target}, line 2: not valid UTF-8" in refusal(source, target)


def test_a_nul_is_an_error_with_file_and_line(source: Path, target: Path) -> None:
    source.write_bytes(b"a\nb\nc\0\n")
    target.write_bytes(b"c\nd\ne\n")
    assert f"{source}, line 3: contains a NUL" in refusal(source, target)


def test_utf16_is_an_error(source: Path, target: Path) -> None:
    source.write_text("a dog\n", encoding="utf-16-le")
    target.write_text("ein Hund\n")
    assert "UTF-16" in refusal(source, target)


def test_all_errors_come_in_one_message(source: Path, target: Path) -> None:
    source.write_bytes(b"a\n\xff\nc\0\nd\n")
    target.write_bytes(b"a\n\xff\nc\n")
    message = refusal(source, target)
    assert f"{source}, line 2" in message
    assert f"{target}, line 2" in message
    assert f"{source}, line 3" in message
    assert f"{source} has 4 lines and {target} has 3" in message
    assert "4 problems" in message


def test_very_many_errors_are_counted_and_not_all_listed(source: Path, target: Path) -> None:
    source.write_bytes(b"\xff\n" * 1000)
    target.write_bytes(b"a\n" * 1000)
    message = refusal(source, target)
    assert "line 20:" in message
    assert "line 21:" not in message
    assert "and 980 more" in message


def test_errors_do_not_hide_that_counts_are_unequal(source: Path, target: Path) -> None:
    source.write_bytes(b"\xff\n" * 1000)
    target.write_bytes(b"a\n" * 999)
    assert f"{source} has 1000 lines and {target} has 999" in refusal(source, target)


@pytest.mark.parametrize(
    ("content", "told"), [("", "they are empty"), ("\n\n\n", "none of the 3 pairs is left")]
)
def test_nothing_left_is_an_error(source: Path, target: Path, content: str, told: str) -> None:
    source.write_text(content)
    target.write_text(content)
    message = refusal(source, target)
    assert told in message
    assert str(source) in message


def test_nothing_left_says_what_became_of_the_pairs(tmp_path: Path) -> None:
    pairs = [("a", "a"), ("b", "b"), ("", "c")]
    _, report = examine_pairs(tmp_path, pairs, DoctorConfig())
    problem = problem_of(tmp_path / "x", tmp_path / "y", report)
    assert problem is not None
    assert re.search(r"none of the 3 .*empty: skipped: 1", problem)
    assert "target is a copy of the source: skipped: 2" in problem


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_truncated_gzip_file_is_an_error(source: Path, target: Path, side: str) -> None:
    for path, name in ((source, "source"), (target, "target")):
        content = gzip.compress(b"".join(b"line %d\n" % number for number in range(2000)))
        path.write_bytes(content[:-20] if name == side else content)
    with pytest.raises(DataError, match="damaged gzip file"):
        examine(source, target)


# Repairs.


def test_a_byte_order_mark_is_removed_and_counted(source: Path, target: Path) -> None:
    source.write_bytes(b"\xef\xbb\xbfa\nb\n")
    target.write_bytes(b"\xef\xbb\xbfc\nd\n")
    kept, report = examine(source, target)
    assert kept == [("a", "c"), ("b", "d")]
    assert report.found == {"byte-order mark removed": (2, 1)}


def test_carriage_returns_are_removed_and_counted(source: Path, target: Path) -> None:
    source.write_bytes(b"a\nb\r\nc\r\n")
    target.write_bytes(b"d\ne\nf\n")
    kept, report = examine(source, target)
    assert kept == [("a", "d"), ("b", "e"), ("c", "f")]
    assert report.found == {"carriage return removed": (2, 2)}


@pytest.mark.parametrize("mark", "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
def test_other_line_breaks_become_spaces_and_are_counted(
    source: Path, target: Path, mark: str
) -> None:
    source.write_bytes(f"a\none{mark}line\n".encode())
    target.write_bytes(b"b\nc\n")
    kept, report = examine(source, target)
    assert kept == [("a", "b"), ("one line", "c")]
    assert report.found == {"line-break character replaced by a space": (1, 2)}


def test_no_line_falls_apart_in_other_programs(source: Path, target: Path) -> None:
    every = "".join(map(chr, range(1, 0x3000))).replace("\n", "")
    source.write_bytes(f"x{every}x\n".encode())
    target.write_bytes(b"y\n")
    [(text, _)] = examine(source, target)[0]
    assert text.splitlines() == [text]


def test_spaces_around_a_line_are_removed(source: Path, target: Path) -> None:
    source.write_text("  a  dog \n")
    target.write_text("\tein Hund\u3000\n", encoding="utf-8")
    assert examine(source, target)[0] == [("a  dog", "ein Hund")]


# Rules.

COPIED = "target is a copy of the source: skipped"


@pytest.mark.parametrize(
    ("pair", "rules", "reason"),
    [
        (("", "b"), NO_RULES, "empty: skipped"),
        (("a", " \t"), NO_RULES, "empty: skipped"),
        (("a", "\u2028"), NO_RULES, "empty: skipped"),
        (("abcd", "b"), DoctorConfig(max_characters=3), "too many characters: skipped"),
        (("a", "bcde"), DoctorConfig(max_characters=3), "too many characters: skipped"),
        (("a" * 7, "bc"), DoctorConfig(max_ratio=3), "odd length ratio: skipped"),
        (("ab", "c" * 7), DoctorConfig(max_ratio=3), "odd length ratio: skipped"),
        (("same", "same"), DoctorConfig(), COPIED),
        (("first", "erster"), DoctorConfig(), "duplicate: skipped"),
    ],
)
def test_each_rule_skips_and_counts(
    tmp_path: Path, pair: tuple[str, str], rules: DoctorConfig, reason: str
) -> None:
    good = [("first", "erster"), ("next", "nächster")]
    if rules.max_characters < 10:
        good = [("a", "b"), ("c", "d")]
    kept, report = examine_pairs(tmp_path, [*good, pair, pair], rules)
    assert kept == good
    counted = {what: place for what, place in report.found.items() if "line-break" not in what}
    assert counted == {reason: (2, 3)}
    assert report.pairs == 4


@pytest.mark.parametrize(
    ("pair", "rules"),
    [
        (("abc", "def"), DoctorConfig(max_characters=3)),
        (("我爱你", "我爱她"), DoctorConfig(max_characters=3)),
        (("a" * 6, "bc"), DoctorConfig(max_ratio=3)),
        (("a" * 1000, "b"), DoctorConfig(max_ratio=0)),
        (("我爱你", "I love you"), DoctorConfig(max_ratio=1.2)),  # 9 and 10 bytes
        (("same", "same"), DoctorConfig(skip_copied=False)),
        (("first", "erster"), DoctorConfig(skip_duplicates=False)),
        (("first", "der erste"), DoctorConfig()),
        (("the first", "erster"), DoctorConfig()),
    ],
)
def test_what_no_rule_forbids_is_kept(
    tmp_path: Path, pair: tuple[str, str], rules: DoctorConfig
) -> None:
    good = [] if rules.max_characters == 3 else [("first", "erster")]
    kept, report = examine_pairs(tmp_path, [*good, pair], rules)
    assert kept == [*good, pair]
    assert report.found == {}


def test_a_line_of_a_megabyte_is_skipped(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("x" * 2**20, "y"), ("c", "d")]
    kept, report = examine_pairs(tmp_path, pairs, DoctorConfig())
    assert kept == [("a", "b"), ("c", "d")]
    assert report.found == {"too many characters: skipped": (1, 2)}


def test_a_validation_set_keeps_what_a_model_can_take(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "b"), ("same", "same"), ("a", "b" * 50)]
    rules = DoctorConfig(max_characters=60, max_tokens=7).for_validation()
    kept, report = examine_pairs(tmp_path, [*pairs, ("", "c"), ("x" * 61, "y")], rules)
    assert kept == pairs
    assert report.found == {
        "empty: skipped": (1, 5),
        "too many characters: skipped": (1, 6),
    }
    assert rules.max_tokens == 7
