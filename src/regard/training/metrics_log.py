"""The story of a run: `metrics.jsonl`, and the same as TensorBoard curves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from regard.errors import RunError
from regard.files import explained, write_text
from regard.json_text import dumps
from regard.regular import read_regular
from regard.schema import JsonReader

Row = dict[str, Any]
METRICS = "metrics.jsonl"
_READER = JsonReader(
    RunError,
    "Move that file away, and the same command goes on without it.",
    nonfinite_as_null=True,  # earlier versions wrote NaN
)


class MetricsLog:
    """Appends rows; opened at a step, it forgets what an earlier run wrote after that step."""

    def __init__(self, run: Path, step: int, *, tensorboard: bool) -> None:
        self._path = run / METRICS
        kept = [row for row in read_metrics(run) if row["step"] <= step]
        write_text(self._path, "".join(dumps(row) + "\n" for row in kept))
        self._file = self._path.open("a", encoding="utf-8")
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard.writer import SummaryWriter

            self._board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def add(self, row: Row) -> None:
        """One more row."""
        with explained(self._path):
            self._file.write(dumps(row) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in row.items():
                if name not in ("step", "epoch"):
                    self._board.add_scalar(name, value, row["step"])

    def __enter__(self) -> MetricsLog:
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
    lines = read_regular(path).splitlines()
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(_row(line, f"{path}, line {number},"))
        except RunError:
            if number < len(lines):
                raise
    return rows


def _row(line: bytes, where: str) -> Row:
    """A row: numbers by name, and the step among them."""
    row = _READER.parse(line, where)
    if type(row.get("step")) is not int or row["step"] < 0:
        raise _READER.wrong(where, "step must be an integer of at least 0")
    for name, value in row.items():
        if value is not None and not isinstance(value, int | float):
            raise _READER.wrong(where, f"{name} must be a number")
    return row


@dataclass(frozen=True)
class Effort:
    """What a run has taken so far."""

    steps: int
    seconds: float  # validation and all
    tokens_per_second: float  # target tokens, the median over rows


def effort(run: Path) -> Effort | None:
    """From a run's metrics, if they are there."""
    rows = read_metrics(run)
    paces = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second") is not None]
    seconds = rows[-1].get("seconds") if rows else None
    if not paces or seconds is None:
        return None
    return Effort(rows[-1]["step"], seconds, median(paces))
