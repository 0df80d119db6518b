"""The formats of documents, by name: `read_document` selects one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import NamedTuple

from regard.documents.config import DocumentConfig, FileFormat
from regard.documents.document import Document, ReadOptions
from regard.documents.docx import read_docx
from regard.documents.html import read_html
from regard.documents.markdown import read_markdown
from regard.documents.odt import read_odt
from regard.documents.plain import read_plain
from regard.documents.po import read_po
from regard.documents.subtitles import read_srt, read_vtt
from regard.documents.xliff import read_xliff
from regard.errors import ConfigError, DataError

_MAX_TEXT, _MAX_PACKAGE = 32 << 20, 512 << 20  # bytes


class Format(NamedTuple):
    """A format of documents."""

    read: Callable[[bytes, ReadOptions], Document]
    suffixes: tuple[str, ...]
    max_size: int = _MAX_TEXT
    has_html: bool = False  # whether `ignored` elements can occur
    has_translations: bool = False  # whether texts can have translations already


FORMATS: dict[FileFormat, Format] = {
    "txt": Format(read_plain, (".txt", ".text")),
    "html": Format(read_html, (".html", ".htm", ".xhtml"), has_html=True),
    "md": Format(read_markdown, (".md", ".markdown"), has_html=True),
    "srt": Format(read_srt, (".srt",)),
    "vtt": Format(read_vtt, (".vtt",)),
    "docx": Format(read_docx, (".docx",), _MAX_PACKAGE),
    "odt": Format(read_odt, (".odt",), _MAX_PACKAGE),
    "po": Format(read_po, (".po", ".pot"), has_translations=True),
    "xliff": Format(read_xliff, (".xlf", ".xliff"), has_translations=True),
}


def format_of(name: str) -> FileFormat | None:
    """The format of a file by its suffix; None if that is unknown."""
    suffix = PurePath(name).suffix.lower()
    return next((key for key, format in FORMATS.items() if suffix in format.suffixes), None)


def select_format(name: str, config: DocumentConfig, *, has_ignored: bool) -> FileFormat:
    """The format of a file; raises an error if it is unknown, or an option has no effect on it."""
    selected = config.file_format or format_of(name)
    if selected is None:
        suffixes = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
        raise ConfigError(
            f"{name} has a suffix of no supported format; supported are {suffixes}. Set the format "
            "(--file-format), or convert the file."
        )
    format = FORMATS[selected]
    if config.retranslate and not format.has_translations:
        raise ConfigError(
            f"retranslate (--retranslate) has no effect on {name}: only po and xliff files contain "
            "translations. Leave it out."
        )
    if has_ignored and not format.has_html:
        raise ConfigError(
            f"ignore_tags (--ignore-tags) has no effect on {name}: only html and md files contain "
            "HTML elements. Leave it out."
        )
    return selected


def read_document(content: bytes, format: FileFormat, options: ReadOptions) -> Document:
    """The texts of a document; raises an error that names the file if it cannot be read."""
    limit = FORMATS[format].max_size
    if len(content) > limit:
        raise DataError(
            f"{options.name} has {len(content):,} bytes, but must have at most {limit:,} as a "
            f"document. Divide it{', or translate it from standard input' * (format == 'txt')}."
        )
    try:
        return FORMATS[format].read(content, options)
    except RecursionError:
        raise DataError(f"{options.name} is nested too deeply. Check the file.") from None
