"""MLflow: one run of its tracking server, or of a local store."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from regard.tracking.tracker import Status, TrackedRun, flatten

_STATUSES: dict[Status, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_MAX_PARAMS, _MAX_VALUE = 100, 500  # of a request; characters
# MLflow retries for several minutes, in which training would wait.
_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}


class MlflowTracker:
    """A run of MLflow, in the experiment that has the name of the project."""

    def __init__(self, run: TrackedRun, run_id: str | None) -> None:
        for name, value in _LIMITS.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient()
        if run_id is None:
            created = self._client.create_run(self._experiment(run.project), run_name=run.name)
            self.run_id = created.info.run_id
            self._log_settings([*flatten(run.settings)])
        else:
            self.run_id = run_id
            self._client.update_run(run_id, status="RUNNING")
        self.location = f"run {run.name} of experiment {run.project} in {_tracking_uri()}"

    def _experiment(self, name: str) -> str:
        """The id of an experiment, which is created if it does not exist."""
        from mlflow.exceptions import MlflowException

        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return experiment.experiment_id
        try:
            return self._client.create_experiment(name)
        except MlflowException:
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return experiment.experiment_id  # another process has created it meanwhile

    def _log_settings(self, settings: Sequence[tuple[str, Any]]) -> None:
        from mlflow.entities import Param

        params = [Param(path, str(value)[:_MAX_VALUE]) for path, value in settings]
        for start in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self.run_id, params=params[start : start + _MAX_PARAMS])

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Store metrics of a step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        entries = [Metric(name, value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self.run_id, metrics=entries)

    def finish(self, status: Status, best: Mapping[str, float]) -> None:
        """Store the metrics of the best model, and end the run."""
        if best:
            self.log(int(best["best_step"]), best)
        self._client.set_terminated(self.run_id, _STATUSES[status])


def _tracking_uri() -> str:
    import mlflow

    return mlflow.get_tracking_uri()
