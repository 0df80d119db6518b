"""Validate the weights of a run, averaged if configured, and export the best ones.

The weights are those of the model or their exponential moving average. `average_last` validates the
average of this and the last checkpoints. `average_best` validates this checkpoint alone, and then
the average of the best ones, if this is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.store import Store
from regard.errors import ConfigError
from regard.layers.adapters import is_adapted, merge_adapters
from regard.models.base import Model
from regard.models.folder import (
    WEIGHTS,
    ModelFolder,
    inference_weights,
    load_weights,
    named_weights,
    read_weights_metadata,
    write_tensors,
)
from regard.training import checkpoint
from regard.training.config import RunConfig
from regard.training.metrics_log import Row
from regard.training.task import Validation, Validator

ValidationResult = tuple[Row, float]  # metrics, and the one to minimize


class BestModelExporter:
    """Keeps the best weights of a run in its model folder."""

    def __init__(
        self, config: RunConfig, store: Store, validator: Validator | None, folder: ModelFolder
    ) -> None:
        self._out = Path(config.out)
        self._metadata = folder.weights_metadata()
        self._config = config.training
        self._validator = validator
        if not store.has("valid") and self._config.average_best > 1:
            raise ConfigError(
                "training.average_best requires validation data. Prepare the "
                "data with --valid-source and --valid-target, --valid-text, --valid-tagged or "
                "--valid-labelled; or set training.average_last instead."
            )

    def validate(self, model: Model, step: int) -> ValidationResult | None:
        """Validate a model and export it if it is the best so far; None without validation data.

        Without validation data, the latest weights are exported.
        """
        if self._validator is None:
            self.export(self._average(model, self._last_checkpoints()), step)
            return None
        if self._config.average_best > 1:
            return self._validate_with_best_average(model, step)
        candidate = self._average(model, self._last_checkpoints())
        result = self._run_validation(candidate)
        self._export_if_best(candidate, result, step)
        return result.row(), self._metric(result)

    def export(self, model: Model, step: int, result: Validation | None = None) -> None:
        """Write the weights with which the model folder is loaded."""
        metadata = {**self._metadata, "step": str(step)}
        if result:
            metadata |= {"figure": repr(self._metric(result))}
            metadata |= {name: str(value) for name, value in result.row().items()}
        write_tensors(self._out / WEIGHTS, named_weights(model), metadata)

    def _validate_with_best_average(self, model: Model, step: int) -> ValidationResult:
        result = self._run_validation(model)
        row, metric = result.row(), self._metric(result)
        best = checkpoint.best_checkpoints(self._out, self._config.average_best)
        if len(best) == self._config.average_best:
            worst = checkpoint.read_progress(best.pop()).figure
            if worst is not None and metric >= worst:
                return row, metric
        candidate = self._average(model, best)
        averaged = self._run_validation(candidate)
        self._export_if_best(candidate, averaged, step)
        return row | {f"mean_{name}": value for name, value in averaged.row().items()}, metric

    def _export_if_best(self, model: Model, result: Validation, step: int) -> None:
        first = not checkpoint.checkpoint_folders(
            self._out
        )  # existing weights are from a killed run
        best = read_weights_metadata(self._out).get("figure")
        if first or best is None or self._metric(result) < float(best):
            self.export(model, step, result)

    def _last_checkpoints(self) -> list[Path]:
        return checkpoint.last_checkpoints(self._out, self._config.average_last - 1)

    def _average(self, model: Model, others: Sequence[Path]) -> Model:
        """A model with the average of this model's weights and those of other checkpoints."""
        if not others:
            return model
        weights = {name: tensor.cpu() for name, tensor in named_weights(model).items()}
        averaged = model.copied()
        all_weights = [*map(inference_weights, others), weights]
        load_weights(averaged, checkpoint.average_weights(all_weights), self._out)
        return averaged

    def _run_validation(self, model: Model) -> Validation:
        assert self._validator is not None
        if is_adapted(model):  # adapters are merged when the model is loaded
            model = model.copied()
            merge_adapters(model)
        return self._validator(model)

    def _metric(self, result: Validation) -> float:
        return result.metric_to_minimize(self._config.best_metric)
