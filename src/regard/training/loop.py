"""The training loop: batches in, checkpoints and a model folder out.

Every update is determined by the weights, the optimizer state and `Progress`, which are in every
checkpoint, so an interrupted run is resumed exactly.

With several processes, each computes the gradients of its shard of every batch, and all make the
same updates. Signals and validation results are synchronized, and only the main process writes.
"""

from __future__ import annotations

import dataclasses
import math
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from regard.data.batch import Batch
from regard.data.loader import Loader
from regard.data.prefetch import prefetch_batches
from regard.data.sampling import Position, RankShard
from regard.data.store import Store
from regard.distributed import SINGLE_PROCESS, DistributedContext
from regard.errors import ConfigError, DivergedError, StoppedError
from regard.models import count_parameters
from regard.models.base import Model
from regard.models.folder import WEIGHTS, ModelFolder, load_weights, named_weights
from regard.models.size import refuse_untrainable
from regard.models.tensor_files import are_finite
from regard.training import checkpoint
from regard.training.best_model import BestModelExporter
from regard.training.checkpoint import Progress
from regard.training.config import RunConfig
from regard.training.ema import MovingAverage
from regard.training.execution_plan import ExecutionPlan
from regard.training.initialization import initialize_model
from regard.training.meter import Meter, perplexity
from regard.training.metrics_log import MetricsLog, Row
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.run_folder import locked_run
from regard.training.step import Updater
from regard.training.task import TrainingTask


class TrainingCallback(Protocol):
    """Receives the events of a training run, such as a progress bar."""

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        """The run starts, or is resumed, at this step; `description` is a line for the user."""

    def on_step_end(self, step: int) -> None:
        """An update is finished."""

    def on_log(self, row: Row) -> None:
        """A row was added to the metrics log."""


def train(
    config: RunConfig,
    store: Store,
    task: TrainingTask,
    device: torch.device,
    *,
    callback: TrainingCallback,
    distributed: DistributedContext = SINGLE_PROCESS,
) -> Progress:
    """Train until `max_steps`, early stopping or a signal; the same call resumes a stopped run."""
    # Errors in the settings are raised before anything is written.
    trainer = Trainer(config, store, task, device, callback, distributed)
    with locked_run(config, store) if distributed.is_main_process else nullcontext():
        distributed.barrier()  # until the main process has locked the folder
        return trainer.run()


class Trainer:
    """Trains a model in one process of a run."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        task: TrainingTask,
        device: torch.device,
        callback: TrainingCallback,
        distributed: DistributedContext,
    ) -> None:
        reason = config.model.distributed_unsupported_reason
        if distributed.world_size > 1 and reason:
            raise ConfigError(reason)
        self._distributed = distributed
        self._config = config.training
        self._store = store
        self._out = Path(config.out)
        self._callback = callback
        folder = task.new_folder(config.model, store)
        _refuse_too_large(config, folder, device)
        self._folder, model = initialize_model(config, folder)
        self._model = model.to(device)
        self._optimizer = make_optimizer(self._model, self._config)
        self._plan = ExecutionPlan.choose(config, device, distributed)
        self._objective = task.objective(self._model, config, store)
        self._updater = Updater(self._model, self._optimizer, self._objective, distributed)
        self._batch_tokens = config.data.batch_tokens
        decay = self._config.ema_decay
        self._average = MovingAverage(self._model, decay) if decay else None
        has_validator = store.has("valid") and distributed.is_main_process
        validator = task.validator(store, config) if has_validator else None
        self._exporter = BestModelExporter(config, store, validator, self._folder)
        self._loader = Loader(
            task.training_data(store, config),
            config.data.batch_tokens,
            seed=self._config.seed,
            shard=RankShard(distributed.rank, distributed.world_size),
        )

    def run(self) -> Progress:
        """Train from the last checkpoint, or from the start, to the end."""
        if self._distributed.is_main_process:
            self._folder.write(self._out)
        progress = self._resume()
        self._callback.on_train_begin(progress.step, self._config.max_steps, self._description())
        if self._is_finished(progress):
            return progress
        batches = prefetch_batches(self._loader, progress.position, self._plan.workers)
        meter = Meter(progress.unreported, progress.seconds)
        execution = self._updater.use_plan(self._plan, self._batch_tokens)
        with execution, self._open_log(progress) as log, catch_signals() as signals:
            while not self._is_finished(progress):
                progress = self._update(progress, batches, meter)
                last = progress.step == self._config.max_steps
                if last or progress.step % self._config.log_every == 0:
                    self._log_metrics(progress, log, meter)
                if last or progress.step % self._config.checkpoint_every == 0:
                    with meter.paused():
                        progress = self._validate(progress, log, meter)
                        self._save(progress, meter)
                number = max(self._distributed.all_gather(signals[0] if signals else 0))
                if number and not self._is_finished(progress):
                    self._stop(progress, meter, int(number))
        return progress

    def _open_log(self, progress: Progress) -> AbstractContextManager[MetricsLog | None]:
        if not self._distributed.is_main_process:
            return nullcontext()
        return MetricsLog(self._out, progress.step, tensorboard=self._config.tensorboard)

    def _description(self) -> str:
        parameters = list(self._model.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        trainable = sum(p.numel() for p in parameters if p.requires_grad)
        world_size = self._distributed.world_size
        processes = f", {world_size} processes" if world_size > 1 else ""
        partly = f", {trainable:,} of them trainable" if trainable < size else ""
        return f"{self._plan}{processes}; {size:,} parameters{partly}."

    def _resume(self) -> Progress:
        saved = checkpoint.checkpoint_folders(self._out)
        if not saved:
            return Progress()
        progress = checkpoint.restore(
            saved[-1], self._model, self._optimizer, self._average, self._objective
        )
        return dataclasses.replace(progress, stopped_early=self._stops_early(progress))

    def _is_finished(self, progress: Progress) -> bool:
        return progress.stopped_early or progress.step >= self._config.max_steps

    def _update(
        self, progress: Progress, batches: Iterator[tuple[Position, Batch]], meter: Meter
    ) -> Progress:
        """Run one update; returns the progress after it."""
        positions, accumulated = zip(
            *islice(batches, self._config.gradient_accumulation_steps), strict=True
        )
        step = progress.step + 1
        self._model.train()
        update = self._updater(accumulated, step=step, rate=self._learning_rate(step))
        if self._average:
            self._average.update(self._model, step)
        meter.add(update)
        self._callback.on_step_end(step)
        return dataclasses.replace(
            progress,
            step=step,
            position=positions[-1],
            target_tokens=progress.target_tokens + update.tokens,
            figure=None,
        )

    def _learning_rate(self, step: int) -> float:
        return learning_rate(step, self._config, self._model.config.d_model)

    def _log_metrics(self, progress: Progress, log: MetricsLog | None, meter: Meter) -> None:
        """Log the metrics of the updates since the last row."""
        self._refuse_divergence(progress, meter)
        loss, nll, tokens = meter.unreported
        row: Row = {
            "step": progress.step,
            "epoch": progress.position.epoch,
            "loss": loss / tokens,
            "perplexity": perplexity(nll / tokens),
            "learning_rate": self._learning_rate(progress.step),
            "target_tokens": progress.target_tokens,
            "tokens_per_second": meter.tokens_per_second,
            "seconds": meter.seconds,
        }
        self._add_row(row, log)
        meter.reset()

    def _add_row(self, row: Row, log: MetricsLog | None) -> None:
        if log is not None:
            log.add(row)
        self._callback.on_log(row)

    def _refuse_divergence(self, progress: Progress, meter: Meter) -> None:
        """Raise an error if the loss or a weight is not finite, so that it is not saved."""
        if meter.is_finite and are_finite(named_weights(self._model).values()):
            return
        saved = checkpoint.checkpoint_folders(self._out)
        last = f"The last good checkpoint is {saved[-1]}" if saved else "There is no checkpoint yet"
        raise DivergedError(
            f"The loss or a weight is NaN or infinite at step {progress.step}. {last}. "
            "Start a new run with a lower training.learning_rate or more training.warmup_steps."
        )

    def _validate(self, progress: Progress, log: MetricsLog | None, meter: Meter) -> Progress:
        """Validate in the main process, and send the metric to the others."""
        self._refuse_divergence(progress, meter)
        metric = math.nan
        if self._distributed.is_main_process:
            with torch.compiler.set_stance(
                "force_eager"
            ):  # compiling for validation does not pay off
                result = self._exporter.validate(self._averaged_model().eval(), progress.step)
            if result is not None:
                row, metric = result
                self._add_row({"step": progress.step, **row, "seconds": meter.seconds}, log)
        if not self._store.has("valid"):
            return progress
        metric = self._distributed.all_gather(metric)[0]
        return self._update_patience(dataclasses.replace(progress, figure=metric), metric)

    def _averaged_model(self) -> Model:
        """A model with the moving average of the weights; without one, the model itself."""
        if self._average is None:
            return self._model
        averaged = self._model.copied()
        load_weights(averaged, self._average.weights, self._out)
        return averaged

    def _update_patience(self, progress: Progress, metric: float) -> Progress:
        """Update early stopping, but only on schedule: the last step may be off schedule."""
        if progress.step % self._config.checkpoint_every:
            return progress
        if progress.best is None or metric < progress.best:
            return dataclasses.replace(progress, best=metric, waited=0)
        waited = dataclasses.replace(progress, waited=progress.waited + 1)
        return dataclasses.replace(waited, stopped_early=self._stops_early(waited))

    def _stops_early(self, progress: Progress) -> bool:
        return 0 < self._config.patience <= progress.waited

    def _save(self, progress: Progress, meter: Meter) -> None:
        self._refuse_divergence(progress, meter)
        if not self._distributed.is_main_process:
            return
        progress = dataclasses.replace(
            progress,
            seconds=meter.seconds,
            unreported=meter.unreported,
            regular=progress.step % self._config.checkpoint_every == 0,
        )
        state, metadata = self._objective.state(), self._folder.weights_metadata()
        checkpoint.save(
            self._out, self._model, self._optimizer, self._average, progress, state, metadata
        )
        best = self._config.average_best if self._config.average_best > 1 else 0
        checkpoint.prune(self._out, last=self._config.keep_checkpoints, best=best)

    def _stop(self, progress: Progress, meter: Meter, number: int) -> None:
        """Save a checkpoint, unless one was just saved, and raise `StoppedError`."""
        if progress.step % self._config.checkpoint_every:
            self._save(progress, meter)
            # Without validated weights, export the latest ones.
            unvalidated = not self._store.has("valid") or not (self._out / WEIGHTS).is_file()
            if self._distributed.is_main_process and unvalidated:
                self._exporter.export(self._averaged_model(), progress.step)
        self._distributed.barrier()  # a rank that exits early would abort the others mid-save
        raise StoppedError(
            f"Stopped at step {progress.step}; everything is saved in {self._out}. "
            "Run the same command again to resume.",
            signal_number=number,
        )


def _refuse_too_large(config: RunConfig, folder: ModelFolder, device: torch.device) -> None:
    """Raise an error, before a model is built, if it does not fit in the memory of the device."""
    training = config.training
    count = count_parameters(config.model, folder.vocabulary)
    is_partly_frozen = training.lora.rank or training.freeze or training.freeze_layers
    trainable = 0 if is_partly_frozen else count  # a lower bound
    refuse_untrainable(count, trainable, device, averaged=training.ema_decay > 0)


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """Yield a list to which the number of a SIGINT, SIGTERM or SIGHUP is added.

    A second signal has its usual effect. Under nohup, SIGHUP stays ignored.
    """
    received: list[int] = []
    handlers: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, handlers[number])

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue
        handlers[number] = signal.signal(number, handle)
    try:
        yield received
    finally:
        for caught, handler in handlers.items():
            signal.signal(caught, handler)
