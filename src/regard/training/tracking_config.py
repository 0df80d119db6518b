"""Settings of experiment trackers; this module imports no heavy dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config import Doc, Settings

TrackerName = Literal["wandb", "mlflow"]


@dataclass(frozen=True)
class TrackingConfig(Settings):
    """Experiment trackers, which receive the settings and metrics of a run."""

    log_to: Annotated[
        tuple[TrackerName, ...], Doc("experiment trackers: Weights & Biases, MLflow")
    ] = ()
    project: Annotated[str, Doc("project of Weights & Biases; experiment of MLflow")] = "regard"
    name: Annotated[str | None, Doc("name of the tracked run; default: the run folder")] = None

    def problems(self) -> Iterator[str]:
        """Contradictions between tracking settings."""
        if len({*self.log_to}) < len(self.log_to):
            yield "log_to names a tracker twice; name it once"
