"""The training loop: batches in, checkpoints and a model folder out.

Everything that decides the next update is in the weights, the optimizer and `Progress`, and all
three are in every checkpoint; so a run that stopped goes on as if it had not.
"""

from __future__ import annotations

import copy
import dataclasses
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from regard.data.loader import Loader
from regard.data.ragged import Batch
from regard.data.sampling import Position
from regard.data.store import Store
from regard.errors import DivergedError, StoppedError
from regard.models.folder import (
    WEIGHTS,
    ModelFolder,
    published_notes,
    put_weights,
    weights_of,
    write_tensors,
)
from regard.models.transformer import Transformer
from regard.training import checkpoint
from regard.training.checkpoint import Progress
from regard.training.config import RunConfig
from regard.training.meter import Meter, perplexity
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.record import Record, Row
from regard.training.run import held
from regard.training.step import update
from regard.training.validation import Bleu, Validation, validation_loss


class Watcher(Protocol):
    """Whoever wants to see a run: a progress bar, a test, nobody."""

    def begin(self, step: int, max_steps: int) -> None:
        """The run starts, or goes on, at this step."""

    def step(self, step: int) -> None:
        """An update is done."""

    def row(self, row: Row) -> None:
        """A row of metrics was written."""


def train(
    config: RunConfig,
    store: Store,
    device: torch.device,
    *,
    watcher: Watcher,
    bleu: Bleu | None = None,
) -> Progress:
    """Train until `max_steps`, early stopping or a signal; the same call goes on after any stop."""
    trainer = Trainer(config, store, device, watcher, bleu)  # before anything is written
    with held(config, store):
        return trainer.run()


class Trainer:
    """One process's work on a run."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        device: torch.device,
        watcher: Watcher,
        bleu: Bleu | None,
    ) -> None:
        self._config = config.training
        self._store = store
        self._out = Path(config.out)
        self._watcher = watcher
        self._bleu = bleu if self._config.validate_bleu else None
        self._budget = config.data.batch_tokens
        torch.manual_seed(self._config.seed)
        self._folder = ModelFolder.for_store(config.model, store)
        self._model: Transformer = self._folder.model().to(device)
        self._optimizer = make_optimizer(self._model, self._config)
        self._loader = Loader(store, config.data, seed=self._config.seed)

    def run(self) -> Progress:
        """From the last checkpoint, or from the start, to the end."""
        self._folder.write(self._out)
        progress = self._resumed()
        self._watcher.begin(progress.step, self._config.max_steps)
        if self._is_finished(progress):
            return progress
        batches = self._loader.batches(progress.position)
        meter = Meter(progress.unreported, progress.seconds)
        with (
            Record(self._out, progress.step, tensorboard=self._config.tensorboard) as record,
            noticed_signals() as signals,
        ):
            while not self._is_finished(progress):
                progress = self._advanced(progress, batches, meter)
                last = progress.step == self._config.max_steps
                if last or progress.step % self._config.log_every == 0:
                    self._report(progress, record, meter)
                if last or progress.step % self._config.checkpoint_every == 0:
                    progress = self._validated(progress, record, meter)
                    self._save(progress, meter)
                if signals and not self._is_finished(progress):
                    self._stop(progress, meter, signals[0])
        return progress

    def _resumed(self) -> Progress:
        saved = checkpoint.folders(self._out)
        if not saved:
            return Progress()
        return checkpoint.restore(saved[-1], self._model, self._optimizer)

    def _is_finished(self, progress: Progress) -> bool:
        return progress.stopped_early or progress.step >= self._config.max_steps

    def _advanced(
        self, progress: Progress, batches: Iterator[tuple[Position, Batch]], meter: Meter
    ) -> Progress:
        """One update later."""
        taken = list(islice(batches, self._config.accumulate))
        step = progress.step + 1
        done = update(
            self._model.train(),
            self._optimizer,
            [batch for _, batch in taken],
            self._config,
            step=step,
            rate=self._rate(step),
        )
        meter.add(done)
        self._watcher.step(step)
        return dataclasses.replace(
            progress,
            step=step,
            position=taken[-1][0],
            target_tokens=progress.target_tokens + done.tokens,
        )

    def _rate(self, step: int) -> float:
        return learning_rate(step, self._config, self._model.config.width)

    def _report(self, progress: Progress, record: Record, meter: Meter) -> None:
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
        record.add(row)
        self._watcher.row(row)
        meter.reset()

    def _refuse_divergence(self, progress: Progress, meter: Meter) -> None:
        if meter.is_finite:
            return
        saved = checkpoint.folders(self._out)
        good = f"The last good checkpoint is {saved[-1]}" if saved else "There is no checkpoint yet"
        raise DivergedError(
            f"The loss is no longer a finite number at step {progress.step}. {good}. "
            "Start a new run with a lower training.learning_rate or more training.warmup_steps."
        )

    def _validated(self, progress: Progress, record: Record, meter: Meter) -> Progress:
        """Publish the weights if they are the best so far; without validation they always are."""
        self._refuse_divergence(progress, meter)
        candidate = self._candidate().eval()
        if not self._store.has("valid"):
            self._publish(candidate, progress, {})
            return progress
        result = self._validation(candidate)
        row: Row = {"step": progress.step, "valid_loss": result.loss, "seconds": meter.seconds}
        if result.bleu is not None:
            row["bleu"] = result.bleu
        record.add(row)
        self._watcher.row(row)
        figure = result.figure(self._config.best_by)
        published = self._published_figure()
        if published is None or figure < published:
            self._publish(candidate, progress, {"figure": repr(figure), **_texts(row)})
        return self._waited(progress, figure)

    def _candidate(self) -> Transformer:
        """The model that is validated: this one, or its mean with the checkpoints before it."""
        if self._config.average_last == 1:
            return self._model
        earlier = checkpoint.recent_weights(self._out, self._config.average_last - 1)
        own = {name: tensor.cpu() for name, tensor in weights_of(self._model).items()}
        mean = copy.deepcopy(self._model)
        put_weights(mean, checkpoint.average([*earlier, own]), self._out)
        return mean

    def _validation(self, model: Transformer) -> Validation:
        loss = validation_loss(
            model,
            self._store.part("valid"),
            budget=self._budget,
            precision=self._config.precision,
        )
        return Validation(loss, self._bleu(model) if self._bleu else None)

    def _waited(self, progress: Progress, figure: float) -> Progress:
        """Count towards early stopping, but only on schedule: a longer run would not stop here."""
        if progress.step % self._config.checkpoint_every:
            return progress
        if progress.best is None or figure < progress.best:
            return dataclasses.replace(progress, best=figure, waited=0)
        waited = progress.waited + 1
        patience = self._config.patience
        return dataclasses.replace(
            progress, waited=waited, stopped_early=bool(patience) and waited >= patience
        )

    def _publish(self, model: Transformer, progress: Progress, notes: dict[str, str]) -> None:
        """Make these weights the ones that the folder is loaded with."""
        notes = {"step": str(progress.step), **notes}
        write_tensors(self._out / WEIGHTS, weights_of(model), notes)

    def _published_figure(self) -> float | None:
        notes = published_notes(self._out)
        return float(notes["figure"]) if "figure" in notes else None

    def _save(self, progress: Progress, meter: Meter) -> None:
        self._refuse_divergence(progress, meter)
        progress = dataclasses.replace(
            progress,
            seconds=meter.seconds,
            unreported=meter.unreported,
            regular=progress.step % self._config.checkpoint_every == 0,
        )
        checkpoint.save(self._out, self._model, self._optimizer, progress)
        checkpoint.prune(self._out, self._config.keep_checkpoints)

    def _stop(self, progress: Progress, meter: Meter, number: int) -> None:
        """Save, unless that just happened, and leave."""
        if progress.step % self._config.checkpoint_every:
            self._save(progress, meter)
            if not self._store.has("valid") or not (self._out / WEIGHTS).is_file():
                self._publish(self._model, progress, {})
        raise StoppedError(
            f"Stopped at step {progress.step}; everything is saved in {self._out}. "
            "The same command goes on from there.",
            signal_number=number,
        )


def _texts(row: Row) -> dict[str, str]:
    return {name: str(value) for name, value in row.items() if name != "step"}


@contextmanager
def noticed_signals() -> Iterator[list[int]]:
    """A list that gets the number of a SIGINT or SIGTERM; a second one acts as usual."""
    received: list[int] = []
    usual: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, usual[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        usual[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for caught, handler in usual.items():
            signal.signal(caught, handler)
