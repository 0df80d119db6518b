"""Which weights a run shows to the world: averaged, validated, and published if they are the best.

The weights that count are the model's own or their moving average. `average_last` validates the
mean of the last checkpoints and this one. `average_best` validates this one alone, and then the
mean of the best so far, if this is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.store import Store
from regard.errors import ConfigError
from regard.layers.adapters import is_adapted, merge
from regard.models.base import Model
from regard.models.folder import (
    WEIGHTS,
    ModelFolder,
    published_notes,
    put_weights,
    shown_weights,
    weights_of,
    write_tensors,
)
from regard.training import checkpoint
from regard.training.config import RunConfig
from regard.training.metrics_log import Row
from regard.training.task import Validation, Validator

Verdict = tuple[Row, float]  # what validation said, and the watched metric; lower is better


class Publisher:
    """Looks after the weights in a run's model folder."""

    def __init__(
        self, config: RunConfig, store: Store, validator: Validator | None, folder: ModelFolder
    ) -> None:
        self._out = Path(config.out)
        self._notes = folder.weights_note()
        self._config = config.training
        self._validator = validator
        if not store.has("valid") and self._config.average_best > 1:
            raise ConfigError(
                "training.average_best needs validation text, which says what is best. Prepare the "
                "data with --valid-source and --valid-target, --valid-text, --valid-tagged or "
                "--valid-labelled; or set training.average_last instead."
            )

    def consider(self, model: Model, step: int) -> Verdict | None:
        """Publish what this model is part of, if it is the best so far; None: not validated.

        Without validation text the newest always is.
        """
        if self._validator is None:
            self.publish(self._mean(model, self._last()), step)
            return None
        if self._config.average_best > 1:
            return self._considered_with_best(model, step)
        candidate = self._mean(model, self._last())
        result = self._validated(candidate)
        self._publish_if_best(candidate, result, step)
        return result.row(), self._figure(result)

    def publish(self, model: Model, step: int, result: Validation | None = None) -> None:
        """Make these weights the ones that the folder is loaded with."""
        notes = {**self._notes, "step": str(step)}
        if result:
            notes |= {"figure": repr(self._figure(result))}
            notes |= {name: str(value) for name, value in result.row().items()}
        write_tensors(self._out / WEIGHTS, weights_of(model), notes)

    def _considered_with_best(self, model: Model, step: int) -> Verdict:
        own = self._validated(model)
        row, figure = own.row(), self._figure(own)
        best = checkpoint.best_of(self._out, self._config.average_best)
        if len(best) == self._config.average_best:
            worst = checkpoint.read_progress(best.pop()).figure
            if worst is not None and figure >= worst:
                return row, figure
        candidate = self._mean(model, best)
        result = self._validated(candidate)
        self._publish_if_best(candidate, result, step)
        return row | {f"mean_{name}": value for name, value in result.row().items()}, figure

    def _publish_if_best(self, model: Model, result: Validation, step: int) -> None:
        first = not checkpoint.folders(self._out)  # what is there was left by a run that was killed
        published = published_notes(self._out).get("figure")
        if first or published is None or self._figure(result) < float(published):
            self.publish(model, step, result)

    def _last(self) -> list[Path]:
        return checkpoint.last_of(self._out, self._config.average_last - 1)

    def _mean(self, model: Model, others: Sequence[Path]) -> Model:
        """A model with the mean of this one's weights and those of other checkpoints."""
        if not others:
            return model
        own = {name: tensor.cpu() for name, tensor in weights_of(model).items()}
        mean = model.copied()
        weights = [*map(shown_weights, others), own]
        put_weights(mean, checkpoint.average(weights), self._out)
        return mean

    def _validated(self, model: Model) -> Validation:
        assert self._validator is not None
        if is_adapted(model):  # as whoever loads it will have it
            model = model.copied()
            merge(model)
        return self._validator(model)

    def _figure(self, result: Validation) -> float:
        return result.watched(self._config.best_by)
