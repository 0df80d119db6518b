"""The metric of a hyperparameter search: that by which a run exports its best model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.training.config import TrainingConfig
from regard.training.metrics_log import Row


@dataclass(frozen=True)
class Metric:
    """A validation metric: its field in the metrics log, and whether higher is better."""

    name: str
    field: str
    exported_field: str  # of the weights that are exported, which may be an average
    maximized: bool

    @classmethod
    def of(cls, config: TrainingConfig) -> Metric:
        """The metric of a run."""
        name = config.best_metric
        is_loss = name == "loss"
        field = "valid_loss" if is_loss else name
        exported = f"mean_{field}" if config.average_best > 1 else field
        return cls(name, field, exported, not is_loss)

    @property
    def title(self) -> str:
        """The name for messages."""
        return {"loss": "validation loss", "bleu": "BLEU"}.get(self.name, self.name)

    def is_better(self, value: float, other: float) -> bool:
        """Whether a value is better than another."""
        return value > other if self.maximized else value < other

    def best(self, rows: Iterable[Row]) -> tuple[int, float] | None:
        """The step and value of the exported model, by the rows of a metrics log."""
        best: tuple[int, float] | None = None
        for row in rows:
            value = row.get(self.exported_field)
            if value is not None and (best is None or self.is_better(value, best[1])):
                best = row["step"], value
        return best
