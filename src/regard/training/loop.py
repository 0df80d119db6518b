"""The training loop: batches in, checkpoints and a model folder out.

Everything that decides the next update is in the weights, the optimizer and `Progress`, and all
three are in every checkpoint; so a run that stopped goes on as if it had not.

Several processes do the same work on the same numbers, each with its share of every batch. What
they may see differently (signals, validation) they agree on, and only the first of them writes.
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
from regard.data.prefetch import prefetched
from regard.data.sampling import Position, RankShard
from regard.data.store import Store
from regard.errors import ConfigError, DivergedError, StoppedError
from regard.models import size_of
from regard.models.base import Model
from regard.models.folder import WEIGHTS, ModelFolder, put_weights, weights_of
from regard.models.size import refuse_untrainable
from regard.models.tensor_files import are_finite
from regard.processes import ALONE, Team
from regard.training import checkpoint
from regard.training.begin import begun
from regard.training.checkpoint import Progress
from regard.training.config import RunConfig
from regard.training.ema import MovingAverage
from regard.training.engine import Engine
from regard.training.meter import Meter, perplexity
from regard.training.metrics_log import MetricsLog, Row
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.publish import Publisher
from regard.training.run import held
from regard.training.step import Updater
from regard.training.task import TrainingTask


class Watcher(Protocol):
    """Whoever wants to see a run: a progress bar, a test, nobody."""

    def begin(self, step: int, max_steps: int, about: str) -> None:
        """The run starts, or goes on, at this step; `about` says how it is computed."""

    def step(self, step: int) -> None:
        """An update is done."""

    def row(self, row: Row) -> None:
        """A row of metrics was written."""


def train(
    config: RunConfig,
    store: Store,
    task: TrainingTask,
    device: torch.device,
    *,
    watcher: Watcher,
    team: Team = ALONE,
) -> Progress:
    """Train until `max_steps`, early stopping or a signal; the same call resumes after any stop."""
    trainer = Trainer(config, store, task, device, watcher, team)  # before anything is written
    with held(config, store) if team.is_first else nullcontext():
        team.wait()  # until the first holds the folder
        return trainer.run()


class Trainer:
    """One process's work on a run."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        task: TrainingTask,
        device: torch.device,
        watcher: Watcher,
        team: Team,
    ) -> None:
        obstacle = config.model.obstacle_to_sharding
        if team.size > 1 and obstacle:
            raise ConfigError(obstacle)
        self._team = team
        self._config = config.training
        self._store = store
        self._out = Path(config.out)
        self._watcher = watcher
        folder = task.new_folder(config.model, store)
        _refuse_too_large(config, folder, device)
        self._folder, model = begun(config, folder)
        self._model = model.to(device)
        self._optimizer = make_optimizer(self._model, self._config)
        self._engine = Engine.chosen(config, device, team)
        self._objective = task.objective(self._model, config, store)
        self._updater = Updater(self._model, self._optimizer, self._objective, team)
        self._batch_tokens = config.data.batch_tokens
        decay = self._config.ema_decay
        self._average = MovingAverage(self._model, decay) if decay else None
        validates = store.has("valid") and team.is_first
        validator = task.validator(store, config) if validates else None
        self._publisher = Publisher(config, store, validator, self._folder)
        self._loader = Loader(
            task.training_data(store, config),
            config.data.batch_tokens,
            seed=self._config.seed,
            shard=RankShard(team.rank, team.size),
        )

    def run(self) -> Progress:
        """From the last checkpoint, or from the start, to the end."""
        if self._team.is_first:
            self._folder.write(self._out)
        progress = self._resumed()
        self._watcher.begin(progress.step, self._config.max_steps, self._about())
        if self._is_finished(progress):
            return progress
        batches = prefetched(self._loader, progress.position, self._engine.workers)
        meter = Meter(progress.unreported, progress.seconds)
        computed = self._updater.as_chosen(self._engine, self._batch_tokens)
        with computed, self._record(progress) as record, noticed_signals() as signals:
            while not self._is_finished(progress):
                progress = self._advanced(progress, batches, meter)
                last = progress.step == self._config.max_steps
                if last or progress.step % self._config.log_every == 0:
                    self._report(progress, record, meter)
                if last or progress.step % self._config.checkpoint_every == 0:
                    with meter.paused():
                        progress = self._validated(progress, record, meter)
                        self._save(progress, meter)
                number = max(self._team.gathered(signals[0] if signals else 0))
                if number and not self._is_finished(progress):
                    self._stop(progress, meter, int(number))
        return progress

    def _record(self, progress: Progress) -> AbstractContextManager[MetricsLog | None]:
        if not self._team.is_first:
            return nullcontext()
        return MetricsLog(self._out, progress.step, tensorboard=self._config.tensorboard)

    def _about(self) -> str:
        weights = list(self._model.parameters())
        size = sum(one.numel() for one in weights)
        learning = sum(one.numel() for one in weights if one.requires_grad)
        together = f", {self._team.size} processes" if self._team.size > 1 else ""
        of_these = f", of which {learning:,} learn" if learning < size else ""
        return f"{self._engine}{together}; {size:,} parameters{of_these}."

    def _resumed(self) -> Progress:
        saved = checkpoint.folders(self._out)
        if not saved:
            return Progress()
        progress = checkpoint.restore(
            saved[-1], self._model, self._optimizer, self._average, self._objective
        )
        return dataclasses.replace(progress, stopped_early=self._is_patient_no_more(progress))

    def _is_finished(self, progress: Progress) -> bool:
        return progress.stopped_early or progress.step >= self._config.max_steps

    def _advanced(
        self, progress: Progress, batches: Iterator[tuple[Position, Batch]], meter: Meter
    ) -> Progress:
        """One update later."""
        taken = list(islice(batches, self._config.accumulate))
        step = progress.step + 1
        self._model.train()
        batches_taken = [batch for _, batch in taken]
        done = self._updater(batches_taken, step=step, rate=self._rate(step))
        if self._average:
            self._average.update(self._model, step)
        meter.add(done)
        self._watcher.step(step)
        return dataclasses.replace(
            progress,
            step=step,
            position=taken[-1][0],
            target_tokens=progress.target_tokens + done.tokens,
            figure=None,
        )

    def _rate(self, step: int) -> float:
        return learning_rate(step, self._config, self._model.config.width)

    def _report(self, progress: Progress, record: MetricsLog | None, meter: Meter) -> None:
        """A row of metrics for the updates since the last one."""
        self._refuse_divergence(progress, meter)
        loss, nll, tokens = meter.unreported
        row: Row = {
            "step": progress.step,
            "epoch": progress.position.epoch,
            "loss": loss / tokens,
            "perplexity": perplexity(nll / tokens),
            "learning_rate": self._rate(progress.step),
            "target_tokens": progress.target_tokens,
            "tokens_per_second": meter.tokens_per_second,
            "seconds": meter.seconds,
        }
        self._tell(row, record)
        meter.reset()

    def _tell(self, row: Row, record: MetricsLog | None) -> None:
        if record is not None:
            record.add(row)
        self._watcher.row(row)

    def _refuse_divergence(self, progress: Progress, meter: Meter) -> None:
        """Nothing is saved or shown of a model whose loss or weights are not finite."""
        if meter.is_finite and are_finite(weights_of(self._model).values()):
            return
        saved = checkpoint.folders(self._out)
        good = f"The last good checkpoint is {saved[-1]}" if saved else "There is no checkpoint yet"
        raise DivergedError(
            f"The loss or a weight is no longer a finite number at step {progress.step}. {good}. "
            "Start a new run with a lower training.learning_rate or more training.warmup_steps."
        )

    def _validated(self, progress: Progress, record: MetricsLog | None, meter: Meter) -> Progress:
        """Let the first process judge the weights, and all of them hear what it says."""
        self._refuse_divergence(progress, meter)
        figure = math.nan
        if self._team.is_first:
            with torch.compiler.set_stance("force_eager"):  # not worth compiling anew for it
                verdict = self._publisher.consider(self._shown().eval(), progress.step)
            if verdict is not None:
                row, figure = verdict
                self._tell({"step": progress.step, **row, "seconds": meter.seconds}, record)
        if not self._store.has("valid"):
            return progress
        figure = self._team.gathered(figure)[0]
        return self._waited(dataclasses.replace(progress, figure=figure), figure)

    def _shown(self) -> Model:
        """The model that counts: this one, or one with the moving average of its weights."""
        if self._average is None:
            return self._model
        shown = self._model.copied()
        put_weights(shown, self._average.weights, self._out)
        return shown

    def _waited(self, progress: Progress, figure: float) -> Progress:
        """Count towards early stopping, but only on schedule: a longer run would not stop here."""
        if progress.step % self._config.checkpoint_every:
            return progress
        if progress.best is None or figure < progress.best:
            return dataclasses.replace(progress, best=figure, waited=0)
        waited = dataclasses.replace(progress, waited=progress.waited + 1)
        return dataclasses.replace(waited, stopped_early=self._is_patient_no_more(waited))

    def _is_patient_no_more(self, progress: Progress) -> bool:
        return 0 < self._config.patience <= progress.waited

    def _save(self, progress: Progress, meter: Meter) -> None:
        self._refuse_divergence(progress, meter)
        if not self._team.is_first:
            return
        progress = dataclasses.replace(
            progress,
            seconds=meter.seconds,
            unreported=meter.unreported,
            regular=progress.step % self._config.checkpoint_every == 0,
        )
        state, notes = self._objective.state(), self._folder.weights_note()
        checkpoint.save(
            self._out, self._model, self._optimizer, self._average, progress, state, notes
        )
        best = self._config.average_best if self._config.average_best > 1 else 0
        checkpoint.prune(self._out, last=self._config.keep_checkpoints, best=best)

    def _stop(self, progress: Progress, meter: Meter, number: int) -> None:
        """Save, unless that just happened, and leave."""
        if progress.step % self._config.checkpoint_every:
            self._save(progress, meter)
            # Weights that were not validated count where none are, or where none ever will be.
            unrivalled = not self._store.has("valid") or not (self._out / WEIGHTS).is_file()
            if self._team.is_first and unrivalled:
                self._publisher.publish(self._shown(), progress.step)
        self._team.wait()  # whoever leaves too soon takes the others along, in the midst of saving
        raise StoppedError(
            f"Stopped at step {progress.step}; everything is saved in {self._out}. "
            "The same command goes on from there.",
            signal_number=number,
        )


def _refuse_too_large(config: RunConfig, folder: ModelFolder, device: torch.device) -> None:
    """Say, before a model is built, that it cannot be trained in the memory of the device."""
    training = config.training
    count = size_of(config.model, folder.vocabulary)
    partly = training.lora.rank or training.freeze or training.freeze_blocks
    learning = 0 if partly else count  # at least
    refuse_untrainable(count, learning, device, averaged=training.ema_decay > 0)


@contextmanager
def noticed_signals() -> Iterator[list[int]]:
    """A list that gets the number of a SIGINT, SIGTERM or SIGHUP; a second one acts as usual.

    Under nohup, SIGHUP is ignored and stays so.
    """
    received: list[int] = []
    usual: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, usual[number])

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue
        usual[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for caught, handler in usual.items():
            signal.signal(caught, handler)
