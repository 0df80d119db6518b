"""Settings of how documents are read; imports no heavy dependencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from regard.config import Doc, Settings

FileFormat = Literal["txt", "html", "md", "srt", "vtt", "docx", "odt", "po", "xliff"]


@dataclass(frozen=True)
class DocumentConfig(Settings):
    """Settings of how documents are read."""

    file_format: Annotated[
        FileFormat | None, Doc("format of the files; default: by the suffix of each")
    ] = None
    retranslate: Annotated[
        bool, Doc("in po and xliff files, replace translations that exist already")
    ] = False


class DocumentKeywords(TypedDict, total=False):
    """The fields of `DocumentConfig` as keyword arguments; a test checks that they are equal."""

    file_format: FileFormat | None
    retranslate: bool
