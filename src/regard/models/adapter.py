"""What the folder of an adapter says: how it adapts which model, and where that one is.

Its weights are those that learned; all others stay with the origin, so the folder is small. The
origin is looked for by its path from the folder, so that both can move together, and then where it
was when the adapter was trained; its fingerprint says whether it is still the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.config import Settings, Tree, as_tree
from regard.errors import ModelError
from regard.layers.adapters import LoraConfig


@dataclass(frozen=True)
class AdapterDescription(Settings):
    """What `config.json` says of an adapter."""

    lora: LoraConfig
    origin: str  # from the folder
    origin_once: str  # when it was trained
    fingerprint: str

    def problems(self) -> Iterator[str]:
        """Paths that no system has."""
        for name in ("origin", "origin_once"):
            if "\0" in getattr(self, name):
                yield f"{name} is no path"
        if self.lora.rank < 1:
            yield f"lora.rank is {self.lora.rank}, and must be at least 1"


@dataclass(frozen=True)
class Adapter:
    """An adapter's origin, and its settings."""

    lora: LoraConfig
    origin: Path
    fingerprint: str  # of the origin's weights

    def described(self, folder: Path) -> Tree:
        """For the description of a folder."""
        return {
            "lora": as_tree(self.lora),
            "origin": os.path.relpath(self.origin.resolve(), folder.resolve()),
            "origin_once": str(self.origin),
            "fingerprint": self.fingerprint,
        }

    @staticmethod
    def of(description: AdapterDescription, folder: Path) -> Adapter:
        """As a folder describes it."""
        beside = Path(os.path.normpath(folder.resolve() / description.origin))
        once = Path(description.origin_once)
        origin = once if os.path.isdir(once) and not os.path.isdir(beside) else beside
        return Adapter(description.lora, origin, description.fingerprint)

    def checked(self, folder: Path, fingerprint: Callable[[Path], str]) -> Path:
        """The origin of an adapter in a folder; it must be there, and unchanged."""
        if not os.path.isdir(self.origin):  # also of a path that is too long
            raise ModelError(
                f"{folder} is an adapter of {self.origin}, which is not there. Put that model "
                f"folder back; or correct `origin` in {folder / 'config.json'}, if it has moved."
            )
        if fingerprint(self.origin) != self.fingerprint:
            raise ModelError(
                f"{folder} is an adapter of {self.origin}, whose weights are others now. Restore "
                "them, or train the adapter anew; `regard merge` makes models that need no origin."
            )
        return self.origin
