"""Digests of the files of an export, which the programs that run them do not check themselves.

`digests.json` beside them has the size and the SHA-256 of each. A damaged graph or model, or other
settings in `config.json`, would otherwise give other translations without a word, or end the
process. Exports of earlier versions have none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.config import Settings
from regard.errors import ModelError
from regard.files import write_json
from regard.regular import file_digest, inside
from regard.schema import JsonReader

DIGESTS = "digests.json"
FORMAT = 1
_READER = JsonReader(ModelError, "Export the model again.")


@dataclass(frozen=True)
class _Digests(Settings):
    """The fields of `digests.json`."""

    format: int
    files: dict[str, str]  # SHA-256 by path below the folder
    sizes: dict[str, int] = field(default_factory=dict)  # bytes, compared before a digest is made


def write_digests(folder: Path) -> None:
    """Note the digests of all files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder).as_posix() for path in files}
    digests = {name: file_digest(path) for path, name in names.items()}
    sizes = {name: path.stat().st_size for path, name in names.items()}
    write_json(folder / DIGESTS, {"format": FORMAT, "files": digests, "sizes": sizes})


def verify_digests(folder: Path) -> None:
    """Raise an error if a file of an export is not as it was written."""
    path = folder / DIGESTS
    if not path.is_file():
        return
    found, _ = _READER.versioned(_Digests, path, FORMAT)
    for name, digest in found.files.items():
        place = inside(folder, name, path)
        if not place.exists():
            raise ModelError(f"{folder} is incomplete: {name} is missing. Export the model again.")
        size = place.stat().st_size
        if size != found.sizes.get(name, size) or file_digest(place) != digest:
            raise ModelError(
                f"{place} is damaged: its digest or size differs from that in {DIGESTS}. "
                "Export the model again."
            )
