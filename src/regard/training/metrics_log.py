"""The metrics log of a run: `metrics.jsonl`, and the same for TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from regard.errors import RunError
from regard.files import explain_os_errors, write_text
from regard.json_text import dumps
from regard.regular_files import read_regular_file
from regard.schema import JsonReader

Row = dict[str, Any]
METRICS = "metrics.jsonl"
_READER = JsonReader(
    RunError,
    "Move that file away, and run the same command again to resume without it.",
    nonfinite_as_null=True,  # earlier versions wrote NaN
)


class MetricsLog:
    """Appends rows; opening it at a step removes the rows after that step."""

    def __init__(self, run: Path, step: int, *, tensorboard: bool) -> None:
        self._path = run / METRICS
        previous = [row for row in read_metrics(run) if row["step"] <= step]
        write_text(self._path, "".join(dumps(row) + "\n" for row in previous))
        self._file = self._path.open("a", encoding="utf-8")
        self._tensorboard: Any = None
        if tensorboard:
            from torch.utils.tensorboard.writer import SummaryWriter

            self._tensorboard = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def add(self, row: Row) -> None:
        """Append a row."""
        with explain_os_errors(self._path):
            self._file.write(dumps(row) + "\n")
            self._file.flush()
        if self._tensorboard is not None:
            for name, value in row.items():
                if name not in ("step", "epoch"):
                    self._tensorboard.add_scalar(name, value, row["step"])

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


def read_metrics(run: Path) -> list[Row]:
    """The rows of a run, without an incomplete last line of a killed process."""
    path = run / METRICS
    if not path.is_file():
        return []
    lines = read_regular_file(path).splitlines()
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(_parse_row(line, f"{path}, line {number},"))
        except RunError:
            if number < len(lines):
                raise
    return rows


def _parse_row(line: bytes, location: str) -> Row:
    """Parse and check a row: numbers by name, including the step."""
    row = _READER.parse(line, location)
    if type(row.get("step")) is not int or row["step"] < 0:
        raise _READER.content_error(location, "step must be an integer of at least 0")
    for name, value in row.items():
        if value is not None and not isinstance(value, int | float):
            raise _READER.content_error(location, f"{name} must be a number")
    return row


@dataclass(frozen=True)
class TrainingCost:
    """Steps, time and speed of a run."""

    steps: int
    seconds: float  # including validation
    tokens_per_second: float  # target tokens, the median over rows


def training_cost(run: Path) -> TrainingCost | None:
    """The cost of a run by its metrics log; None without one."""
    rows = read_metrics(run)
    speeds = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second") is not None]
    seconds = rows[-1].get("seconds") if rows else None
    if not speeds or seconds is None:
        return None
    return TrainingCost(rows[-1]["step"], seconds, median(speeds))
