"""Glossaries that clients store: one file each, so that all server processes see them."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.data.glossary import Glossary
from regard.errors import DataError, RegardError
from regard.files import write_text
from regard.schema import MEBIBYTE, JsonReader
from regard.serving.api_errors import ApiError

Pair = tuple[str, str]  # codes of source and target, lower case
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_READER = JsonReader(DataError, "Remove it.", limit=256 * MEBIBYTE)
_MAX_CACHED = 64
_MAX_TERM = 1024  # characters


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary with a dictionary for each pair of languages."""

    id: str
    name: str
    owner: str  # the name of the API key; empty without keys
    created: str
    dictionaries: dict[Pair, dict[str, str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The content of its file."""
        listed = [
            {"source_lang": pair[0], "target_lang": pair[1], "entries": entries}
            for pair, entries in self.dictionaries.items()
        ]
        values = {"id": self.id, "name": self.name, "owner": self.owner, "created": self.created}
        return json.dumps({**values, "dictionaries": listed}, ensure_ascii=False)

    @staticmethod
    def of(tree: dict[str, Any]) -> StoredGlossary:
        """From the content of its file."""
        dictionaries = {
            (each["source_lang"], each["target_lang"]): each["entries"]
            for each in tree["dictionaries"]
        }
        names = tree["id"], tree["name"], tree["owner"], tree["created"]
        return StoredGlossary(*names, dictionaries=dictionaries)


class GlossaryStore:
    """The glossaries in a folder."""

    def __init__(self, folder: Path, limit: int, max_characters: int) -> None:
        self._folder, self._limit, self._max_characters = folder, limit, max_characters
        folder.mkdir(parents=True, exist_ok=True)
        self._compiled: OrderedDict[tuple[Any, ...], Glossary] = OrderedDict()

    def create(
        self, name: str, owner: str, dictionaries: dict[Pair, dict[str, str]]
    ) -> StoredGlossary:
        """Store a new glossary."""
        if len([*self._folder.glob("*.json")]) >= self._limit:
            raise ApiError(456, f"Too many glossaries: at most {self._limit} are kept.")
        created = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return self.write(StoredGlossary(str(uuid.uuid4()), name, owner, created, dictionaries))

    def write(self, glossary: StoredGlossary) -> StoredGlossary:
        """Store a glossary, in place of one with the same id."""
        for entries in glossary.dictionaries.values():
            compile_terms([entries])  # raises an error for terms that cannot be used
        content = glossary.to_json()
        if len(content) > self._max_characters:
            raise ApiError(413, f"The glossary has more than {self._max_characters:,} characters.")
        write_text(self._path(glossary.id), content)
        return glossary

    def get(self, glossary_id: str, owner: str) -> StoredGlossary:
        """A glossary of an owner; raises an ApiError if there is none."""
        path = self._path(glossary_id)
        if not path.is_file():
            raise _not_found(glossary_id)
        glossary = StoredGlossary.of(_READER.read_object(path))
        if glossary.owner != owner:
            raise _not_found(glossary_id)
        return glossary

    def listed(self, owner: str) -> list[StoredGlossary]:
        """All glossaries of an owner."""
        glossaries = []
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
            try:
                glossaries.append(self.get(path.stem, owner))
            except (ApiError, RegardError, OSError):  # of another owner, or deleted meanwhile
                continue
        return glossaries

    def delete(self, glossary_id: str, owner: str) -> None:
        """Delete a glossary."""
        self.get(glossary_id, owner)
        self._path(glossary_id).unlink(missing_ok=True)

    def delete_dictionary(self, glossary_id: str, owner: str, pair: Pair) -> None:
        """Delete the dictionary of a pair of languages."""
        glossary = self.get(glossary_id, owner)
        rest = {each: entries for each, entries in glossary.dictionaries.items() if each != pair}
        self.write(replace(glossary, dictionaries=rest))

    def compiled(self, ids: Sequence[str], owner: str, pair: Pair) -> Glossary:
        """The terms of glossaries for a pair; the first glossary has priority."""
        key = (owner, pair, *((each, self._version(each)) for each in ids))
        glossary = self._compiled.get(key)
        if glossary is None:
            dictionaries = [self.get(each, owner).dictionaries.get(pair) for each in ids]
            given = [entries for entries in dictionaries if entries is not None]
            if not given:
                source, target = (code.upper() for code in pair)
                raise ApiError(400, f"The glossary has no entries for {source} to {target}.")
            glossary = self._compiled[key] = compile_terms(given)
            if len(self._compiled) > _MAX_CACHED:
                self._compiled.popitem(last=False)
        return glossary

    def _version(self, glossary_id: str) -> int:
        try:
            return self._path(glossary_id).stat().st_mtime_ns
        except FileNotFoundError:
            raise _not_found(glossary_id) from None

    def _path(self, glossary_id: str) -> Path:
        """The file of a glossary; only ids of our form are looked up."""
        if not _ID.match(glossary_id):
            raise _not_found(glossary_id)
        return self._folder / f"{glossary_id}.json"


def _not_found(glossary_id: str) -> ApiError:
    return ApiError(404, "Glossary not found", f"There is no glossary {glossary_id[:64]!r}.")


def compile_terms(dictionaries: Sequence[dict[str, str]]) -> Glossary:
    """The terms of dictionaries; of a term in several, the first."""
    terms: dict[str, tuple[str, str]] = {}
    for entries in dictionaries:
        for source, target in entries.items():
            escaped = source.replace("|", r"\|"), target.replace("|", r"\|")
            terms.setdefault(" ".join(source.lower().split()), escaped)
    return Glossary.of([*terms.values()])


def parse_entries(text: str, entries_format: str) -> dict[str, str]:
    """The entries of a dictionary in TSV or CSV, as DeepL defines them."""
    if entries_format not in ("tsv", "csv"):
        raise ApiError(400, "entries_format must be tsv or csv", "entries_format")
    entries: dict[str, str] = {}
    for number, row in enumerate(_rows(text, entries_format), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) < 2 or not all(cells[:2]):
            raise ApiError(400, f"Invalid entries: line {number} needs a source and a target term")
        if any(len(cell) > _MAX_TERM for cell in cells):
            raise ApiError(400, f"Invalid entries: line {number} has a term that is too long")
        if cells[0] in entries:
            raise ApiError(400, f"Invalid entries: {cells[0]!r} in line {number} is a duplicate")
        entries[cells[0]] = cells[1]
    if not entries:
        raise ApiError(400, "Invalid entries: there are none", "entries")
    try:
        compile_terms([entries])
    except DataError as error:
        raise ApiError(400, f"Invalid entries: {error}") from None
    return entries


def _rows(text: str, entries_format: str) -> Iterator[list[str]]:
    if entries_format == "tsv":
        yield from (line.split("\t") for line in re.split(r"\r\n|\n|\r", text))
        return
    try:
        yield from csv.reader(io.StringIO(text, newline=""))
    except csv.Error as error:
        raise ApiError(400, f"Invalid entries: {error}") from None


def format_entries(entries: dict[str, str]) -> str:
    """The entries of a dictionary as TSV."""
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())
