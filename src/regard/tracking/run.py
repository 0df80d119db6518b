"""Train a run, and track it if its settings say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.store import Store
from regard.devices import resolve_device
from regard.distributed import SINGLE_PROCESS, DistributedContext
from regard.machine import keep_freed_memory
from regard.notices import Notice
from regard.tasks import task_of
from regard.tracking.callback import TrackerCallback, warn
from regard.training.checkpoint import Progress
from regard.training.config import RunConfig
from regard.training.loop import TrainingCallback
from regard.training.loop import train as train_model
from regard.training.metrics_log import Row


@dataclass(frozen=True)
class CallbackList:
    """Several callbacks as one."""

    callbacks: Sequence[TrainingCallback]

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        """The run starts, or is resumed, at this step."""
        for callback in self.callbacks:
            callback.on_train_begin(step, max_steps, description)

    def on_step_end(self, step: int) -> None:
        """An optimizer step is finished."""
        for callback in self.callbacks:
            callback.on_step_end(step)

    def on_log(self, row: Row) -> None:
        """A row of metrics was written."""
        for callback in self.callbacks:
            callback.on_log(row)


def run_training(
    config: RunConfig,
    device: str,
    callback: TrainingCallback,
    distributed: DistributedContext = SINGLE_PROCESS,
    *,
    notice: Notice = warn,
) -> Progress:
    """Train a model with the settings of a run, and track it; `notice` is for failing trackers."""
    local_device = distributed.local_device(resolve_device(device))
    if local_device.type == "cpu":
        keep_freed_memory()
    store = Store(Path(config.data.folder))
    task = task_of(config.model)
    if not config.tracking.log_to or not distributed.is_main_process:
        return train_model(
            config, store, task, local_device, callback=callback, distributed=distributed
        )
    with TrackerCallback(config, notice) as tracker:
        both = CallbackList([callback, tracker])
        return train_model(
            config, store, task, local_device, callback=both, distributed=distributed
        )
