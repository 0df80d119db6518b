"""SHA-256 digests of exported files, which inference libraries do not check.

`digests.json` has the size and digest of each file. Without it, a damaged model or config could
silently change translations or crash the process. Exports of earlier versions have none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.config import Settings
from regard.errors import ModelError
from regard.files import write_json
from regard.regular_files import file_digest, path_inside
from regard.schema import JsonReader

DIGESTS = "digests.json"
FORMAT = 1
_READER = JsonReader(ModelError, "Export the model again.")


@dataclass(frozen=True)
class _Digests(Settings):
    """The fields of `digests.json`."""

    format: int
    files: dict[str, str]  # SHA-256 by path below the folder
    sizes: dict[str, int] = field(default_factory=dict)  # bytes, compared first


def write_digests(folder: Path) -> None:
    """Write the digests of all files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder).as_posix() for path in files}
    digests = {name: file_digest(path) for path, name in names.items()}
    sizes = {name: path.stat().st_size for path, name in names.items()}
    write_json(folder / DIGESTS, {"format": FORMAT, "files": digests, "sizes": sizes})


def verify_digests(folder: Path) -> None:
    """Raise an error if a file of an export was changed."""
    path = folder / DIGESTS
    if not path.is_file():
        return
    digests, _ = _READER.read_versioned(_Digests, path, FORMAT)
    for name, digest in digests.files.items():
        file = path_inside(folder, name, path)
        if not file.exists():
            raise ModelError(f"{folder} is incomplete: {name} is missing. Export the model again.")
        size = file.stat().st_size
        if size != digests.sizes.get(name, size) or file_digest(file) != digest:
            raise ModelError(
                f"{file} is damaged: its digest or size differs from that in {DIGESTS}. "
                "Export the model again."
            )
