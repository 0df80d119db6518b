"""Streaming readers of lines from plain or gzip text; only line feeds end a line."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Generator
from contextlib import closing
from io import BufferedReader
from pathlib import Path

from regard.errors import DataError
from regard.files import explain_os_errors

MAX_LINE_LENGTH = 100_000  # default in characters
_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_ENCODINGS = {  # by byte-order mark, longer ones first
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_max_line_length = MAX_LINE_LENGTH


class LongLineError(DataError):
    """A line has more characters than the limit."""


def set_max_line_length(characters: int) -> None:
    """Set the maximum line length of this process, in characters.

    Without a limit, a file without line breaks would be read into memory as one line.
    """
    global _max_line_length
    _max_line_length = characters


def max_line_length() -> int:
    """The maximum line length, in characters."""
    return _max_line_length


def raw_lines(path: Path, max_length: int | None = None) -> Generator[bytes]:
    """Lines without their line feed; gzip is detected by its first bytes, not by the file name.

    A line longer than `max_length` characters is truncated to a length that `decode_line` rejects.
    """
    if not path.exists():
        raise DataError(f"There is no file {path}. Check the path.")
    if path.is_dir():
        raise DataError(f"{path} is a folder. Give the path of a text file.")
    if not path.is_file():
        raise DataError(f"{path} can be read only once. Write its text to a file first.")
    with explain_os_errors(path), path.open("rb") as file:
        yield from raw_lines_from(file, path, max_length)


def raw_lines_from(
    file: BufferedReader, where: Path | str, max_length: int | None = None
) -> Generator[bytes]:
    """Lines of an open file or pipe, as in `raw_lines`."""
    limit = (
        _max_bytes(max_length or _max_line_length) + 1
    )  # longer lines are truncated to one byte too many
    compressed = file.peek(2).startswith(_GZIP_MAGIC)
    text = gzip.GzipFile(fileobj=file) if compressed else file
    try:
        beginning = text.peek(4)
        for bom, encoding in _OTHER_ENCODINGS.items():
            if beginning.startswith(bom):
                raise DataError(
                    f"{where} is encoded in {encoding}, but must be UTF-8. Convert it: "
                    f"iconv -f {encoding} -t UTF-8 FILE > FILE.utf8"
                )
        while line := text.readline(limit):
            yield line.removesuffix(b"\n")
            while len(line) == limit and not line.endswith(b"\n"):
                line = text.readline(limit)  # the rest of a long line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{where} is a damaged gzip file: {error}. Download or compress it again."
        ) from None


def read_lines(path: Path) -> list[str]:
    """All lines of a file, decoded and otherwise unchanged."""
    with closing(raw_lines(path)) as lines:  # an error must not leave the file open
        return [decode_line(line, path, number) for number, line in enumerate(lines, 1)]


def decode_line(line: bytes, where: Path | str, number: int, max_length: int | None = None) -> str:
    """Decode a line, without byte-order mark and trailing carriage return."""
    limit = max_length or _max_line_length
    if len(line) > _max_bytes(limit):  # possibly truncated within a character
        raise _too_long(where, number, limit)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}, line {number}: not valid UTF-8 (byte {error.start + 1}). "
            "Convert the file to UTF-8, for example with iconv."
        ) from None
    if "\0" in text:
        raise DataError(
            f"{where}, line {number}: contains a NUL character. The file is not plain text, or is "
            "UTF-16; convert it to UTF-8."
        )
    if number == 1:
        text = text.removeprefix("\ufeff")
    text = text.removesuffix("\r")
    if len(text) > limit:
        raise _too_long(where, number, limit)
    return text


def _max_bytes(characters: int) -> int:
    """The maximum size of a line in bytes, with byte-order mark and carriage return."""
    return 4 * characters + 4


def _too_long(where: Path | str, number: int, limit: int) -> LongLineError:
    return LongLineError(
        f"{where}, line {number}: has more than {limit:,} characters. Split it into several "
        f"lines, or raise the limit: regard --max-line-length {10 * limit} COMMAND ..."
    )


def read_parallel(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two parallel files, which must have the same number of lines."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise DataError(line_count_mismatch(source, len(sources), target, len(targets)))
    return sources, targets


def line_count_mismatch(source: Path, sources: int, target: Path, targets: int) -> str:
    """The error message for parallel files with different numbers of lines."""
    longer = source if sources > targets else target
    return (
        f"{source} has {sources} lines and {target} has {targets}: from line "
        f"{min(sources, targets) + 1} on, {longer} has no counterpart. "
        "Lines must correspond one to one; find where the files diverge."
    )
