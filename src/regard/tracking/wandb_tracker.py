"""Weights & Biases: one run of its service, or of an offline folder."""

from __future__ import annotations

import os
from collections.abc import Mapping

from regard.tracking.tracker import Status, TrackedRun

_INIT_SECONDS, _FINISH_SECONDS = 30, 60  # limits; what is not uploaded can be synced later


class WandbTracker:
    """A run of Weights & Biases. Nothing is uploaded but settings, metrics and machine data."""

    def __init__(self, run: TrackedRun, run_id: str | None) -> None:
        import wandb

        settings = wandb.Settings(
            silent=True,
            console="off",  # it would capture the progress bar
            disable_code=True,
            disable_git=True,  # it would upload uncommitted changes of the working directory
            init_timeout=_INIT_SECONDS,
            finish_timeout=_FINISH_SECONDS,
        )
        mode = os.environ.get("WANDB_MODE") or wandb.setup().settings.mode
        if mode == "online" and not _has_key():
            raise PermissionError("there is no API key; run `wandb login`, or set WANDB_API_KEY")
        self._run = wandb.init(
            project=run.project,
            name=run.name,
            id=run_id,
            resume="allow" if run_id is not None and mode == "online" else None,
            dir=run.folder,
            config=run.settings,
            allow_val_change=True,
            settings=settings,
        )
        self.run_id: str = self._run.id
        self.location = f"{self._run.dir} (offline)" if self._run.offline else str(self._run.url)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Store metrics of a step."""
        self._run.log(dict(metrics), step=step)

    def finish(self, status: Status, best: Mapping[str, float]) -> None:
        """End the run, after its metrics are uploaded."""
        self._run.summary.update(dict(best))
        self._run.finish(exit_code=0 if status == "finished" else 1)


def _has_key() -> bool:
    """Whether there is an API key; does not ask for one."""
    import wandb

    return bool(os.environ.get("WANDB_API_KEY")) or wandb.login(prompt=False)
