"""Reading lines of plain and gzip files."""

from __future__ import annotations

import codecs
import gzip
import os
import sys
import tracemalloc
from collections.abc import Callable
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.data.line_reader import (
    MAX_LINE_LENGTH,
    LongLineError,
    decode_line,
    raw_lines,
    raw_lines_from,
    read_lines,
    read_parallel,
)
from regard.errors import DataError


def write_file(folder: Path, content: bytes, name: str = "text") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), min_size=1))
def test_lines_round_trip_plain_or_compressed(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    content = b"".join(line + b"\n" for line in lines)
    assume(not content.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")))
    folder = tmp_path_factory.mktemp("lines")
    compressed = write_file(folder, gzip.compress(content), "compressed")
    assert list(raw_lines(compressed)) == lines
    if not content.startswith(b"\x1f\x8b"):
        assert list(raw_lines(write_file(folder, content, "plain"))) == lines


def test_gzip_is_detected_by_content(tmp_path: Path) -> None:
    assert read_lines(write_file(tmp_path, gzip.compress(b"a\nb\n"), "x.en")) == ["a", "b"]
    assert read_lines(write_file(tmp_path, b"a\nb\n", "x.gz")) == ["a", "b"]


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    assert read_lines(write_file(tmp_path, f"{text}\nnext\n".encode())) == [text, "next"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\na", ["", "", "a"]),
        (b"a \n b\n", ["a ", " b"]),
    ],
)
def test_empty_lines_and_last_line(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert read_lines(write_file(tmp_path, content)) == lines


def test_one_trailing_carriage_return_is_removed(tmp_path: Path) -> None:
    assert read_lines(write_file(tmp_path, b"a\r\nb\rc\r\nd\r\r\n")) == ["a", "b\rc", "d\r"]


def test_byte_order_mark_is_removed_from_the_first_line_only(tmp_path: Path) -> None:
    content = "\ufeffa\n\ufeffb\n".encode()
    assert read_lines(write_file(tmp_path, content)) == ["a", "\ufeffb"]


def test_invalid_utf8_is_reported_with_file_line_and_byte(tmp_path: Path) -> None:
    path = write_file(tmp_path, b"fine\nabc\xffd\n")
    with pytest.raises(DataError, match=r"line 2: not valid UTF-8 \(byte 4\)") as caught:
        read_lines(path)
    assert str(path) in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_file_is_closed_when_a_line_is_invalid(tmp_path: Path) -> None:
    path = write_file(tmp_path, b"fine\nabc\xffd\n")
    with pytest.raises(DataError) as caught:
        read_lines(path)
    assert caught.value.__traceback__  # keeps the frames of the reader alive
    open_files = [
        os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
    ]
    assert str(path.resolve()) not in open_files


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_other_encodings_are_named(
    tmp_path: Path, encoding: str, order: str, compress: Callable[[bytes], bytes]
) -> None:
    path = write_file(tmp_path, compress("\ufeffa\nb\n".encode(f"{encoding}-{order}")))
    with pytest.raises(
        DataError, match=f"is encoded in {encoding.upper()}, .* iconv -f {encoding.upper()}"
    ):
        read_lines(path)


def test_nul_is_reported_with_file_and_line(tmp_path: Path) -> None:
    path = write_file(tmp_path, b"fine\nabc\0d\n")
    with pytest.raises(DataError, match="line 2: contains a NUL character") as caught:
        read_lines(path)
    assert str(path) in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file .*missing"):
        read_lines(tmp_path / "missing")


def test_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        read_lines(tmp_path)


@pytest.mark.parametrize("size", [2, 5, 0.5, -4])
def test_truncated_gzip_file_is_named(tmp_path: Path, size: float) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % number for number in range(5000)))
    end = int(size * len(whole)) if isinstance(size, float) else size
    path = write_file(tmp_path, whole[:end])
    with pytest.raises(DataError, match="damaged gzip file") as caught:
        read_lines(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("index", [100, -6])
def test_corrupt_gzip_file_is_named(tmp_path: Path, index: int) -> None:
    damaged = bytearray(gzip.compress(b"".join(b"line %d\n" % number for number in range(5000))))
    damaged[index] ^= 0xFF
    with pytest.raises(DataError, match="damaged gzip file"):
        read_lines(write_file(tmp_path, bytes(damaged)))


def test_parallel_files_are_read(tmp_path: Path) -> None:
    source, target = write_file(tmp_path, b"a\nb\n", "s"), write_file(tmp_path, b"c\nd", "t")
    assert read_parallel(source, target) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize(("sources", "targets", "unmatched"), [(5, 3, "s"), (3, 5, "t")])
def test_line_count_mismatch_names_both_counts_and_the_first_unmatched_line(
    tmp_path: Path, sources: int, targets: int, unmatched: str
) -> None:
    source = write_file(tmp_path, b"x\n" * sources, "s")
    target = write_file(tmp_path, b"y\n" * targets, "t")
    with pytest.raises(DataError) as caught:
        read_parallel(source, target)
    message = str(caught.value)
    assert f"{source} has {sources} lines and {target} has {targets}" in message
    assert f"from line 4 on, {tmp_path / unmatched} has no counterpart" in message


@given(
    lengths=st.lists(st.integers(0, 30), max_size=6),
    limit=st.integers(1, 20),
    letter=st.sampled_from("aé我😀"),
    ends=st.sampled_from([b"\n", b"\r\n"]),
    is_marked=st.booleans(),
    is_compressed=st.booleans(),
)
def test_lines_over_the_limit_are_truncated_and_rejected(
    lengths: list[int], limit: int, letter: str, ends: bytes, is_marked: bool, is_compressed: bool
) -> None:
    lines = [letter * length for length in lengths]
    content = codecs.BOM_UTF8 * is_marked + b"".join(line.encode() + ends for line in lines)
    stored = gzip.compress(content) if is_compressed else content
    file: Any = BytesIO(stored)
    raw = [*raw_lines_from(BufferedReader(file), "input", limit)]
    assert len(raw) == len(lines) or is_marked
    for number, (raw_line, line) in enumerate(zip(raw, lines, strict=False), 1):
        assert len(raw_line) <= 4 * limit + 5
        if len(line) > limit:
            with pytest.raises(LongLineError, match=f"line {number}: has more than {limit} char"):
                decode_line(raw_line, "input", number, limit)
        else:
            assert decode_line(raw_line, "input", number, limit) == line


def test_huge_line_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"a" * 1_000_000)
        file.write(b"\nb\n")
    tracemalloc.start()
    lines = raw_lines(path)
    assert len(next(lines)) > MAX_LINE_LENGTH
    assert next(lines) == b"b"
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
