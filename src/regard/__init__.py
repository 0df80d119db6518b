"""regard: train, run and inspect Transformers for sequence-to-sequence tasks.

>>> import regard
>>> data = regard.prepare(source="train.en", target="train.de", out="data/ende")
>>> run = regard.train(preset="tiny", data=data, out="runs/ende")
>>> model = regard.load("runs/ende")
>>> model.translate(["A dog runs."], beam_size=5)[0].text
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.version import __version__

if TYPE_CHECKING:
    from regard import attention, models, tasks
    from regard.api import Run, load, prepare, register_model, register_task, train, tune
    from regard.tasks.pipelines import (
        Classifier,
        Embedder,
        Generator,
        MaskFiller,
        Tagger,
        Translator,
    )
    from regard.tuning.result import TuningResult

__all__ = [
    "Classifier",
    "Embedder",
    "Generator",
    "MaskFiller",
    "RegardError",
    "Run",
    "Tagger",
    "Translator",
    "TuningResult",
    "__version__",
    "attention",
    "load",
    "models",
    "prepare",
    "register_model",
    "register_task",
    "tasks",
    "train",
    "tune",
]
# Imported on first use: importing PyTorch takes a second.
_MODULES = {
    **dict.fromkeys(
        ("Run", "load", "prepare", "register_model", "register_task", "train", "tune"),
        "regard.api",
    ),
    **dict.fromkeys(
        ("Classifier", "Embedder", "Generator", "MaskFiller", "Tagger", "Translator"),
        "regard.tasks.pipelines",
    ),
    "TuningResult": "regard.tuning.result",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in ("attention", "models", "tasks"):
        return import_module(f"regard.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
