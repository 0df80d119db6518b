"""What is translated in a decoding contest: the same weights, sentences and search for everybody.

Toolkits read this in their own Python, so it asks for nothing but the standard library.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Exercise:
    """One contest; ids have no marks."""

    device: str
    beam_size: int  # 1: greedy
    sentences: list[list[int]]
    config: dict[str, Any]  # regard's settings of the model
    vocabulary: int
    work: str  # a folder with the model in other forms, and for whatever contestants write
    lines: list[str] | None = None  # the sentences as text; None: they are made up
    folder: str | None = None  # the model as regard keeps it; None: random weights
    one_by_one: bool = False
    batch_size: int | None = None  # sentences; None: as many as is best for a contestant
    forced: int | None = (
        None  # tokens that each translation shall have, with or without an end mark
    )
    patience: float = 0.0  # a sentence is done after so many times beam_size ends; 0: as usual
    half: bool = False  # bfloat16
    seed: int = 1  # of random weights

    def write(self, path: Path) -> None:
        """For another process to read."""
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Exercise:
        """What `write` wrote."""
        return Exercise(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def weights(self) -> Path:
        """The weights as arrays, under regard's names."""
        return Path(self.work) / "weights.npz"

    def at_once(self, greedy: int, beams: int) -> int:
        """Sentences in a batch, given what is best for a contestant in either search."""
        return self.batch_size or (greedy if self.beam_size == 1 else beams)

    def place(self, name: str) -> Path:
        """A folder of a contestant's own."""
        folder = Path(self.work) / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
