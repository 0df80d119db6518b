"""The base class of tasks: files -> store -> batches -> objective -> metrics -> pipeline."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.content import CONTENTS, StoreContent
from regard.data.file_options import FileOptions
from regard.data.loader import Dataset, validation_batches
from regard.data.store import Store
from regard.devices import autocast, uses_bfloat16
from regard.errors import ConfigError
from regard.evaluation.options import EvaluationOptions
from regard.models.base import Model, ModelConfig
from regard.models.folder import DataStatistics, ModelFolder
from regard.training.config import RunConfig
from regard.training.objective import Objective
from regard.training.task import Validation, Validator

ContextSides = Literal["none", "source", "both"]  # that document context may have
Scorer = Callable[[Model], Mapping[str, float]]


class Task(ABC):
    """A task that models are trained for; `TASKS` has one instance of each class."""

    name: ClassVar[str]
    content: ClassVar[StoreContent]  # of its prepared stores
    files: ClassVar[type[FileOptions] | None] = None  # its options of `regard prepare`
    evaluation: ClassVar[type[EvaluationOptions] | None] = None  # its options of `regard evaluate`
    metrics: ClassVar[
        tuple[str, ...]
    ] = ()  # of validation, in addition to the loss; higher is better
    reads_weights: ClassVar[bool] = False  # data.corpus_weights has an effect
    resegments: ClassVar[bool] = False  # data.subword_nbest_size has an effect
    distills: ClassVar[bool] = False  # training.word_distillation has an effect
    document_context: ClassVar[ContextSides] = "none"  # of examples
    supports_r_drop: ClassVar[bool] = True  # training.r_drop has an effect

    # Data.

    def new_folder(self, config: ModelConfig, store: Store) -> ModelFolder:
        """The description of a model to train; raises an error for an incompatible store."""
        if store.content != self.content.name:
            actual, expected = CONTENTS[store.content], self.content
            raise ConfigError(
                f"{store.folder} contains {actual.title}, but model.kind={config.kind} requires "
                f"{expected.title}. Prepare the data with {expected.options}, or use a model for "
                f"{actual.title}, such as {actual.model}."
            )
        self._refuse_document_context(config, store)
        statistics = self.data_statistics(config, store)
        return ModelFolder(
            store.vocabulary,
            store.tokenizers,
            store.languages,
            statistics,
            config,
            directions=store.directions,
            document_context=store.document_context,
        )

    def _refuse_document_context(self, config: ModelConfig, store: Store) -> None:
        """Raise an error for document context that the task does not support."""
        context, supported = store.document_context, self.document_context
        unsupported = context.size if supported == "none" else context.target
        if unsupported and supported != "both":
            sides = "document context" if supported == "none" else "target context"
            raise ConfigError(
                f"{store.folder} has examples with {sides}, which model.kind={config.kind} does "
                "not support. Prepare the data without it, or use a model such as --preset tiny."
            )

    def data_statistics(self, config: ModelConfig, store: Store) -> DataStatistics:
        """Statistics of the training data that are stored with a model."""
        assert config.context is not None
        return DataStatistics(config.context, 1.0)  # longer text is split into segments

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """The training set of a store."""
        return self.dataset(store, "train", config, config.training.seed)

    def validation_data(self, store: Store, config: RunConfig) -> Dataset:
        """The validation set of a store."""
        return self.dataset(store, "valid", config, seed=0)

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store ("train" or "valid"), for tasks that read both in the same way."""
        raise NotImplementedError

    # Objective and metrics.

    def problems(self, config: RunConfig) -> Iterator[str]:
        """Settings of a run that contradict the task or have no effect, each by its path."""
        training, data = config.training, config.data
        if training.best_metric not in ("loss", *self.metrics):
            yield (
                f"training.best_metric is {training.best_metric}, which is not a metric of "
                f"{self.title}; "
                f"use {' or '.join(('loss', *self.metrics))}"
            )
        if training.word_distillation and not self.distills:
            yield (
                f"training.word_distillation has no effect on {self.title}; "
                "set training.word_distillation=0"
            )
        if training.r_drop and not self.supports_r_drop:
            yield f"training.r_drop has no effect on {self.title}; set training.r_drop=0"
        if training.glancing:
            yield f"training.glancing has no effect on {self.title}; set training.glancing=0"
        if training.teacher is not None:
            yield f"training.teacher has no effect on {self.title}; leave it out"
        if data.corpus_weights and not self.reads_weights:
            yield f"data.corpus_weights has no effect on {self.title}; leave it out"
        if data.subword_nbest_size > 1 and not self.resegments:
            yield f"data.subword_nbest_size has no effect on {self.title}; leave it out"

    @property
    def title(self) -> str:
        """The name for messages: "language modeling"."""
        return self.name.replace("_", " ")

    def objective(self, model: Model, config: RunConfig, store: Store) -> Objective:
        """The training objective; by default the cross-entropy of the targets."""
        return self.new_objective(model, config)

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """The objective without terms that need the store, as used for validation."""
        return Objective(config.training)

    def measured(self, model: Model, predictions: Any, batch: Any) -> Mapping[str, Tensor]:
        """Sums of further metrics over the targets of a batch, which are averaged over targets."""
        return {}

    def scorer(self, store: Store, config: RunConfig) -> Scorer | None:
        """A function for metrics that need more than a forward pass, such as BLEU, or None."""
        return None

    def validator(self, store: Store, config: RunConfig) -> Validator:
        """A function that validates a model on the validation set of a store."""
        data, scorer = self.validation_data(store, config), self.scorer(store, config)

        def validate(model: Model) -> Validation:
            batches = validation_batches(data, config.data.batch_tokens)
            result = self.validate(model, batches, config)
            return replace(result, scores={**result.scores, **scorer(model)}) if scorer else result

        return validate

    @torch.inference_mode()
    def validate(self, model: Model, batches: Iterable[Batch], config: RunConfig) -> Validation:
        """The mean negative log-likelihood of the target tokens, and the metrics of `measured`."""
        unregularized = replace(
            config, training=replace(config.training, label_smoothing=0.0, r_drop=0.0, glancing=0.0)
        )
        objective, device = self.new_objective(model, unregularized), model.device
        bfloat16 = uses_bfloat16(device, config.training.precision, model.config.d_model)
        total, tokens = torch.zeros((), device=device), 0
        sums: dict[str, Tensor] = {}
        for batch in batches:
            batch = batch.to(device)
            with autocast(device, enabled=bfloat16):
                predictions = objective.predict(model, batch)
                total += objective.loss(predictions, batch).nll
                for name, value in self.measured(model, predictions, batch).items():
                    sums[name] = sums.get(name, torch.zeros((), device=device)) + value
            tokens += batch.target_tokens
        means = {name: float(value) / tokens for name, value in sums.items()}
        return Validation(float(total) / tokens, means)

    # Inference.

    pipeline: ClassVar[type[Any]]  # loads a model folder by its `load`
    usage: ClassVar[str] = "regard evaluate {}"  # a command for a trained model

    def load(self, *folders: Path, device: str = "auto", **options: Any) -> Any:
        """The inference pipeline of a model folder; only translation supports ensembles."""
        unused = [name for name, value in options.items() if value not in (None, "auto")]
        if unused or len(folders) > 1:
            problem = f"{', '.join(unused)}: no effect" if unused else "Several folders have no use"
            raise ConfigError(f"{problem} in {self.title}. Leave it out.")
        return self.pipeline.load(*folders, device=device)

    def next_command(self, out: str) -> str:
        """A command to try with a trained model."""
        return self.usage.format(out)
