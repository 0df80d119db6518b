"""The story of a run: `metrics.jsonl`, and the same as TensorBoard curves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from regard.files import explained, write_text

Row = dict[str, Any]
METRICS = "metrics.jsonl"


class Record:
    """Appends rows; opened at a step, it forgets what an earlier run wrote after that step."""

    def __init__(self, run: Path, step: int, *, tensorboard: bool) -> None:
        self._path = run / METRICS
        kept = [row for row in read_metrics(run) if row["step"] <= step]
        write_text(self._path, "".join(json.dumps(row) + "\n" for row in kept))
        self._file = self._path.open("a", encoding="utf-8")
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard.writer import SummaryWriter

            self._board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def add(self, row: Row) -> None:
        """One more row."""
        with explained(self._path):
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in row.items():
                if name not in ("step", "epoch"):
                    self._board.add_scalar(name, value, row["step"])

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(run: Path) -> list[Row]:
    """The rows of a run; a last line that a kill cut short is left out."""
    path = run / METRICS
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


@dataclass(frozen=True)
class Effort:
    """What a run has taken so far."""

    steps: int
    seconds: float  # validation and all
    tokens_per_second: float  # target tokens, the median over rows


def effort(run: Path) -> Effort | None:
    """From a run's metrics, if they are there."""
    rows = read_metrics(run)
    paces = [row["tokens_per_second"] for row in rows if "tokens_per_second" in row]
    return Effort(rows[-1]["step"], rows[-1]["seconds"], median(paces)) if paces else None
