"""Packages: zip files of XML and other parts, as office programs write them.

Parts that are not translated are copied. Sizes are checked before anything is decompressed, so a
small file cannot fill memory.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO

from regard.documents.xml_tree import Element, parse_tree
from regard.errors import DataError

_MAX_MEMBERS = 10_000
_MAX_UNPACKED = 1 << 30  # bytes of all members
_MAX_XML = 1 << 26  # bytes of a part that is parsed
# From this size on, the members may be this many times as large as the file. An empty image in a
# small document is still accepted.
_RATIO_FROM, _MAX_RATIO = 100 << 20, 100
_ENCRYPTED_FLAG = 1
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # older office files, and encrypted ones


class Package:
    """The members of a zip file; every error names the file."""

    def __init__(self, content: bytes, name: str) -> None:
        self._content, self._name = content, name
        if content.startswith(_OLE):
            raise DataError(
                f"{name} is protected by a password, or in the format of older office programs. "
                "Save it without a password in the current format."
            )
        try:
            self._zip = zipfile.ZipFile(BytesIO(content))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError):
            raise DataError(
                f"{name} is not a zip file, or is damaged. Check the file and its suffix."
            ) from None
        self._members = {member.filename: member for member in self._zip.infolist()}
        self._check()

    def _check(self) -> None:
        members = self._zip.infolist()
        if len(self._members) < len(members):
            raise DataError(f"{self._name} has two parts of the same name. Check the file.")
        if len(members) > _MAX_MEMBERS:
            raise DataError(
                f"{self._name} has {len(members):,} parts, but must have at most "
                f"{_MAX_MEMBERS:,}. Check the file."
            )
        size = sum(member.file_size for member in members)
        limit = min(_MAX_UNPACKED, max(_RATIO_FROM, _MAX_RATIO * len(self._content)))
        if size > limit:
            raise DataError(
                f"{self._name} contains {size:,} bytes, but a file of its size may contain "
                f"{limit:,}. Check the file, or remove large images."
            )
        if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
            raise DataError(f"{self._name} is encrypted. Save it without a password.")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def parse_xml(self, name: str) -> Element:
        """The root element of a part."""
        return parse_tree(self.read_part(name), f"{self._name} ({name})")

    def read_part(self, name: str) -> bytes:
        """The content of a part, which must not be too large to be parsed."""
        if name not in self._members:
            raise DataError(f"{self._name} is damaged: it has no part {name}. Copy it again.")
        member = self._members[name]
        if member.file_size > _MAX_XML:
            raise DataError(
                f"{self._name} has a part {name} of {member.file_size:,} bytes, but it must have "
                f"at most {_MAX_XML:,}. Divide the document."
            )
        return self._read(member)

    def _read(self, member: zipfile.ZipInfo) -> bytes:
        try:
            return self._zip.read(member)
        except (
            *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError),
            *(NotImplementedError, RuntimeError),  # other compressions, encryption
        ):
            raise DataError(
                f"{self._name} is damaged: {member.filename} cannot be decompressed. Copy it again."
            ) from None

    def replaced(self, parts: Mapping[str, bytes]) -> bytes:
        """The content of the file with some parts replaced."""
        if not parts:
            return self._content
        buffer = BytesIO()
        try:
            with zipfile.ZipFile(buffer, "w") as output:
                for member in self._zip.infolist():
                    content = parts.get(member.filename)
                    content = self._read(member) if content is None else content
                    output.writestr(_copied(member), content)
        except (ValueError, zipfile.LargeZipFile, NotImplementedError) as error:
            raise DataError(f"{self._name} cannot be written: {error}. Save it again.") from None
        return buffer.getvalue()


def _copied(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The description of a member, without its place in the file."""
    copy = zipfile.ZipInfo(member.filename, member.date_time)
    copy.compress_type = member.compress_type
    copy.external_attr, copy.create_system = member.external_attr, member.create_system
    copy.comment = member.comment
    return copy
