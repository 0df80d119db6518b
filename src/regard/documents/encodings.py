"""Character encodings of documents: by byte-order mark, as declared in the document, or UTF-8."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from regard.errors import DataError

_MARKS = {  # byte-order marks; those of UTF-32 begin with those of UTF-16
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Encodings that documents may declare, by the names of Python. As in browsers, Latin-1 and ASCII
# are read as their superset Windows-1252, and GB 2312 as GBK.
_DECLARED = {
    **{name: name for name in ("utf-8", "koi8-r", "koi8-u", "gbk", "gb18030", "big5", "euc_kr")},
    **{name: name for name in ("shift_jis", "euc_jp", "cp932", "cp874", "tis-620")},
    **{f"cp{number}": f"cp{number}" for number in range(1250, 1259)},
    **{f"iso8859-{number}": f"iso8859-{number}" for number in range(2, 17) if number != 12},
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gbk",
}


class DecodedText(NamedTuple):
    """The text of a file, and how it was encoded."""

    text: str
    encoding: str
    mark: bytes  # the byte-order mark

    def encode(self, text: str, name: str, errors: str = "strict") -> bytes:
        """Another text in the same encoding."""
        try:
            return self.mark + text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise DataError(
                f"{name} is encoded in {self.encoding}, which does not have the character "
                f"{character!r} of a translation. Convert the file to UTF-8."
            ) from None


def decode(content: bytes, name: str, declared: str | None = None) -> DecodedText:
    """Decode the content of a file; `declared` is the encoding that the document names."""
    mark = next((mark for mark in _MARKS if content.startswith(mark)), b"")
    encoding = _MARKS[mark] if mark else "utf-8" if declared is None else _resolve(declared, name)
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        advice = "Convert the file to UTF-8, for example with iconv"
        if declared is not None:
            advice = "Correct the declaration, or convert the file to UTF-8"
        place = len(mark) + error.start + 1
        raise DataError(
            f"{name} is not valid {encoding.upper()} (byte {place}). {advice}."
        ) from None
    if "\0" in text:
        raise DataError(
            f"{name} contains a NUL character and is not text. Check the file and its suffix."
        )
    return DecodedText(text, encoding, mark)


def _resolve(declared: str, name: str) -> str:
    try:
        return _DECLARED[codecs.lookup(declared).name]
    except (LookupError, ValueError):
        raise DataError(
            f"{name} declares the encoding {declared!r}, which is not supported. Convert it to "
            "UTF-8."
        ) from None
