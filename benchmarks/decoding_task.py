"""The task of a decoding comparison: the same weights, sentences and search for all systems.

Toolkits read it in their own Python environments, so it imports only the standard library.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DecodingTask:
    """Sentences to translate with one model and search; ids are without special tokens."""

    device: str
    beam_size: int  # 1: greedy
    sentences: list[list[int]]
    config: dict[str, Any]  # regard's model settings
    vocabulary: int
    work: str  # folder of converted models and of files that systems write
    lines: list[str] | None = None  # the sentences as text; None: synthetic sentences
    folder: str | None = None  # the model folder; None: random weights
    one_by_one: bool = False
    batch_size: int | None = None  # sentences; None: the best size for each system
    forced_length: int | None = None  # tokens of each translation, with or without EOS
    patience: float = 0.0  # stop after patience * beam_size finished hypotheses; 0: the default
    use_bfloat16: bool = False
    seed: int = 1  # of random weights

    def write(self, path: Path) -> None:
        """Write the task for another process to read."""
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> DecodingTask:
        """Read what `write` wrote."""
        return DecodingTask(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def weights(self) -> Path:
        """Path of the weights as arrays under regard's names."""
        return Path(self.work) / "weights.npz"

    def choose_batch_size(self, greedy: int, beams: int) -> int:
        """Sentences per batch, given a system's best size for greedy and for beam search."""
        return self.batch_size or (greedy if self.beam_size == 1 else beams)

    def make_folder(self, name: str) -> Path:
        """Create and return a folder for the files of one system."""
        folder = Path(self.work) / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
