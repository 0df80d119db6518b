"""The description of a served model: a line of the list, and its card."""

from __future__ import annotations

from typing import Any

from regard.data.calibration import CALIBRATION
from regard.errors import RegardError
from regard.models import count_parameters
from regard.serving.models import ServedModel
from regard.settings_tree import to_tree
from regard.training.metrics_log import read_metrics

_MAX_ROWS = 2000  # of a curve


def model_item(model: ServedModel) -> dict[str, Any]:
    """What the list of models says about a model."""
    return {
        "id": model.name,
        "created": model.created,
        "task": model.task,
        "kind": model.folder.config.kind,
        "directions": [direction._asdict() for direction in model.directions],
    }


def model_card(model: ServedModel) -> dict[str, Any]:
    """All that is known about a model."""
    folder, pipeline = model.folder, model.pipeline
    backend = str(pipeline.backend) if model.translates else f"PyTorch on {pipeline.model.device}"
    device = pipeline.backend.device if model.translates else pipeline.model.device
    vocabulary = to_tree(folder.vocabulary)
    labels = vocabulary.pop("labels", None)
    return {
        **model_item(model),
        "backend": backend,
        "device": str(device or "cpu"),
        "parameters": count_parameters(folder.config, folder.vocabulary),
        "vocabulary": {**vocabulary, "labels": [*labels] if labels else []},
        "tokenizer": folder.tokenizers.config.kind,
        "settings": to_tree(folder.config),
        "data_statistics": to_tree(folder.data_statistics),
        "is_calibrated": (model.path / CALIBRATION).is_file() if model.translates else None,
        "curve": _curve(model),
    }


def _curve(model: ServedModel) -> list[dict[str, Any]]:
    """Rows of the metrics log of a run folder, evenly thinned out."""
    try:
        rows = read_metrics(model.path)
    except RegardError:
        return []
    step = -(-len(rows) // _MAX_ROWS) or 1
    return rows[::step]
