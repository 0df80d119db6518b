"""The training callback that copies the rows of the metrics log to experiment trackers.

A tracker never stops training: after its first error, a notice says so, and the run goes on without
it. `tracking.json` in the run folder holds the ids of the tracked runs, so that a resumed run
continues them. Rows that a tracker has are not sent again; rows that it lacks, because it was
enabled later or failed, are sent when the run is resumed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from regard.config import Settings
from regard.errors import RunError, StoppedError
from regard.exchange.requirements import require_packages
from regard.files import write_json
from regard.models.folder import read_weights_metadata
from regard.notices import Notice, NoticeWarning
from regard.schema import JsonReader
from regard.settings_tree import to_tree
from regard.tracking.mlflow_tracker import MlflowTracker
from regard.tracking.tracker import Status, TrackedRun, Tracker
from regard.tracking.wandb_tracker import WandbTracker
from regard.training.config import RunConfig
from regard.training.metrics_log import Row, read_metrics
from regard.training.tracking_config import TrackerName

FILE = "tracking.json"
FORMAT = 1
TITLES: dict[TrackerName, str] = {"wandb": "Weights & Biases", "mlflow": "MLflow"}
_TRACKERS: dict[TrackerName, Callable[[TrackedRun, str | None], Tracker]] = {
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}
_READER = JsonReader(RunError, "Delete that file to start new runs of the trackers.")
_MAX_REASON = 300  # characters of another library's message


def warn(text: str) -> None:
    """A notice of code whose caller takes none."""
    warnings.warn(text, NoticeWarning, stacklevel=2)


@dataclass(frozen=True)
class _State(Settings):
    """The fields of `tracking.json`, each by the name of a tracker."""

    format: int
    run_ids: dict[str, str] = field(default_factory=dict)
    failed_at: dict[str, int] = field(default_factory=dict)  # steps of the first rows not sent


class TrackerCallback:
    """A training callback and context manager: tracks a run in the services of its settings."""

    def __init__(self, config: RunConfig, notice: Notice = warn) -> None:
        self._config, self._notice = config, notice
        self._out = Path(config.out)
        self._feeds: list[_Feed] = []
        self._metrics: set[str] = set()  # names of validation metrics
        for name in config.tracking.log_to:
            require_packages(name, extra=name)

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        """Read the rows of the metrics log; trackers are started with the next row."""
        rows = read_metrics(self._out)
        self._feeds = [
            _Feed(name, self._config, rows, step, self._notice)
            for name in self._config.tracking.log_to
        ]

    def on_step_end(self, step: int) -> None:
        """Nothing is tracked by step."""

    def on_log(self, row: Row) -> None:
        """Send a row."""
        if "valid_loss" in row:
            self._metrics |= row.keys() - {"step", "seconds"}
        for feed in self._feeds:
            feed.add(row)

    def __enter__(self) -> TrackerCallback:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_stopped = isinstance(error, StoppedError | KeyboardInterrupt | SystemExit)
        status: Status = "finished" if error is None else "stopped" if is_stopped else "failed"
        for feed in self._feeds:
            feed.close(status, self._best_metrics())

    def _best_metrics(self) -> dict[str, float]:
        """The validation metrics of the exported model, and its step."""
        metadata = read_weights_metadata(self._out) if self._metrics else {}
        names = [name for name in metadata if name in self._metrics | {"step"}]
        return {f"best_{name}": float(metadata[name]) for name in names}


class _Feed:
    """Sends rows to one tracker, until it fails."""

    def __init__(
        self, name: TrackerName, config: RunConfig, rows: list[Row], step: int, notice: Notice
    ) -> None:
        self._name, self._config, self._notice = name, config, notice
        self._out = Path(config.out)
        self._tracker: Tracker | None = None
        self._has_failed = False
        state = _read_state(self._out)
        self._run_id = state.run_ids.get(name)
        limit = self._unsent = state.failed_at.get(name)  # step of the first row not sent
        sent = [row for row in rows if limit is None or row["step"] < limit]
        self._sent = sent if self._run_id is not None else []
        # Later rows are of a killed run, and training will log them again.
        self._earlier = [row for row in rows if row["step"] <= step]

    def add(self, row: Row) -> None:
        """Send a row; the first one starts the tracker."""
        if self._has_failed:
            return
        self._unsent = row["step"] if self._unsent is None else self._unsent
        try:
            if self._tracker is None:
                self._tracker = self._start()
                self._send(self._tracker, self._earlier)
            self._send(self._tracker, [row])
        except Exception as error:  # of any library that a tracker uses
            self._fail(error)

    def _start(self) -> Tracker:
        settings = self._config.tracking
        run = TrackedRun(
            settings.project, settings.name or str(self._out), self._out, to_tree(self._config)
        )
        tracker = _TRACKERS[self._name](run, self._run_id)
        state = _read_state(self._out)
        failed_at = {name: at for name, at in state.failed_at.items() if name != self._name}
        _write_state(self._out, {**state.run_ids, self._name: tracker.run_id}, failed_at)
        self._notice(f"{TITLES[self._name]}: {tracker.location}")
        return tracker

    def _send(self, tracker: Tracker, rows: Iterable[Row]) -> None:
        """Send the rows that the tracker lacks."""
        last = max((row["step"] for row in self._sent), default=-1)
        known = {(row["step"], *row) for row in self._sent if row["step"] == last}
        for row in rows:
            if row["step"] > last or (row["step"] == last and (row["step"], *row) not in known):
                self._unsent = row["step"]
                tracker.log(row["step"], _metrics(row))

    def close(self, status: Status, best: Mapping[str, float]) -> None:
        """End the tracked run."""
        if self._tracker is None or self._has_failed:
            return
        try:
            self._tracker.finish(status, best)
        except Exception as error:
            self._explain(error)

    def _fail(self, error: Exception) -> None:
        """Continue without the tracker."""
        self._has_failed = True
        state = _read_state(self._out)
        _write_state(self._out, state.run_ids, {**state.failed_at, self._name: self._unsent})
        self._explain(error)

    def _explain(self, error: Exception) -> None:
        reason = " ".join(str(error).split())[:_MAX_REASON].rstrip(". ") or type(error).__name__
        self._notice(
            f"{TITLES[self._name]} does not work: {reason}. Training continues without it; "
            "metrics.jsonl has all metrics, and a resumed run sends the missing ones."
        )


def _metrics(row: Row) -> dict[str, float]:
    """The metrics of a row; the time of a validation is that of the training row of its step."""
    without = {"step", "seconds"} if "valid_loss" in row else {"step"}
    return {name: value for name, value in row.items() if name not in without and value is not None}


def _read_state(out: Path) -> _State:
    path = out / FILE
    return _READER.read_versioned(_State, path, FORMAT)[0] if path.is_file() else _State(FORMAT)


def _write_state(
    out: Path, run_ids: Mapping[str, str], failed_at: Mapping[str, int | None]
) -> None:
    write_json(out / FILE, {"format": FORMAT, "run_ids": run_ids, "failed_at": failed_at})
