"""The tasks, one module each, and their registry."""

from __future__ import annotations

from regard.data.content import CONTENTS, Side, StoreContent
from regard.data.file_options import FILE_OPTIONS, FileOptions
from regard.data.filters import Report, read_text_lines
from regard.data.loader import FixedDataset
from regard.data.prepare import CorpusReader
from regard.errors import ConfigError
from regard.evaluation.options import EVALUATION_OPTIONS, EvaluationOptions
from regard.models.base import ModelConfig
from regard.models.folder import DataStatistics
from regard.pipelines.texts import checked_texts
from regard.tasks.base import Task
from regard.tasks.classification import Classification
from regard.tasks.language_modeling import LanguageModeling
from regard.tasks.masked_language_modeling import MaskedLanguageModeling
from regard.tasks.nonautoregressive_translation import NonAutoregressiveTranslation
from regard.tasks.permutation_language_modeling import PermutationLanguageModeling
from regard.tasks.pipelines import Pipeline
from regard.tasks.prefix_language_modeling import PrefixLanguageModeling
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Translation
from regard.training.losses import Loss
from regard.training.objective import Objective

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Translation(),
        NonAutoregressiveTranslation(),
        PrefixLanguageModeling(),
        LanguageModeling(),
        MaskedLanguageModeling(),
        PermutationLanguageModeling(),
        Tagging(),
        Classification(),
    )
}


def register_task(task: Task) -> None:
    """Register a task under its name."""
    known = TASKS.get(task.name)
    if known is not None and type(known).__qualname__ != type(task).__qualname__:
        raise ConfigError(f"Task {task.name!r} is already registered. Choose another name.")
    TASKS[task.name] = task
    CONTENTS[task.content.name] = task.content
    if task.files is not None and task.files not in FILE_OPTIONS:
        FILE_OPTIONS.append(task.files)
    if task.evaluation is not None and task.evaluation not in EVALUATION_OPTIONS:
        EVALUATION_OPTIONS.append(task.evaluation)


def task_of(config: ModelConfig) -> Task:
    """The task of a model kind."""
    if config.task not in TASKS:
        raise ConfigError(
            f"Model kind {config.kind!r} is for the task {config.task!r}, which is not registered. "
            f"Known: {', '.join(TASKS)}. Load its plugin with `regard --plugin FILE`."
        )
    return TASKS[config.task]


__all__ = [
    "TASKS",
    "CorpusReader",
    "DataStatistics",
    "EvaluationOptions",
    "FileOptions",
    "FixedDataset",
    "Loss",
    "Objective",
    "Pipeline",
    "Report",
    "Side",
    "StoreContent",
    "Task",
    "checked_texts",
    "read_text_lines",
    "register_task",
    "task_of",
]
