"""The anatomy of a task: files -> store -> batches -> objective -> metrics -> pipeline."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.content import CONTENTS, StoreContent
from regard.data.file_options import FileOptions
from regard.data.loader import Dataset, validation_batches
from regard.data.store import Store
from regard.devices import autocast, is_half
from regard.errors import ConfigError
from regard.evaluation.options import EvaluationOptions
from regard.models.base import Model, ModelConfig
from regard.models.folder import ModelFolder, Training
from regard.training.config import RunConfig
from regard.training.objective import Objective
from regard.training.task import Validation, Validator

Scorer = Callable[[Model], Mapping[str, float]]


class Task(ABC):
    """What a model is trained for; one object of each class is in the registry."""

    name: ClassVar[str]
    content: ClassVar[StoreContent]  # what a prepared store of it holds
    files: ClassVar[type[FileOptions] | None] = None  # the options of `regard prepare` for it
    evaluation: ClassVar[type[EvaluationOptions] | None] = None  # those of `regard evaluate`
    metrics: ClassVar[tuple[str, ...]] = ()  # of validation, beside the loss; higher is better
    reads_weights: ClassVar[bool] = False  # data.weights has an effect
    resegments: ClassVar[bool] = False  # data.sampling_candidates has an effect
    distills: ClassVar[bool] = False  # training.word_distillation has an effect
    supports_r_drop: ClassVar[bool] = True  # its objective compares two passes

    # The data.

    def new_folder(self, config: ModelConfig, store: Store) -> ModelFolder:
        """The description of a model that will be trained on a store; others are refused."""
        if store.content != self.content.name:
            held, wanted = CONTENTS[store.content], self.content
            raise ConfigError(
                f"{store.folder} holds {held.title}, and model.kind={config.kind} reads "
                f"{wanted.title}. Prepare with {wanted.options}, or take a model that reads "
                f"{held.title}, such as {held.model}."
            )
        seen = self.data_statistics(config, store)
        return ModelFolder(config, store.vocabulary, store.tokenizers, store.languages, seen)

    def data_statistics(self, config: ModelConfig, store: Store) -> Training:
        """Statistics of the training data that are stored with a model."""
        assert config.context is not None
        return Training(config.context, 1.0)  # text is read piece by piece

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """The training part of a store."""
        return self.dataset(store, "train", config, config.training.seed)

    def validation_data(self, store: Store, config: RunConfig) -> Dataset:
        """The validation part of a store."""
        return self.dataset(store, "valid", config, seed=0)

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store, where both parts are read alike."""
        raise NotImplementedError

    # The objective and the metrics.

    def problems(self, config: RunConfig) -> Iterator[str]:
        """Settings of a run that contradict the task or have no effect, each by its path."""
        training, data = config.training, config.data
        if training.best_by not in ("loss", *self.metrics):
            yield (
                f"training.best_by is {training.best_by}, which {self.title} does not measure; use "
                f"{' or '.join(('loss', *self.metrics))}"
            )
        if training.word_distillation and not self.distills:
            yield f"training.word_distillation has no effect on {self.title}; set it to 0"
        if training.r_drop and not self.supports_r_drop:
            yield f"training.r_drop has no effect on {self.title}; set it to 0"
        if training.glancing:
            yield f"training.glancing has no effect on {self.title}; set it to 0"
        if training.teacher is not None:
            yield f"training.teacher has no effect on {self.title}; leave it out"
        if data.weights and not self.reads_weights:
            yield f"data.weights has no effect on {self.title}; leave it out"
        if data.sampling_candidates > 1 and not self.resegments:
            yield f"data.sampling_candidates has no effect on {self.title}; leave it out"

    @property
    def title(self) -> str:
        """The name as it is read: "language modeling"."""
        return self.name.replace("_", " ")

    def objective(self, model: Model, config: RunConfig, store: Store) -> Objective:
        """What is minimised; by default the cross-entropy of the targets."""
        return self.new_objective(model, config)

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """The objective without what needs the store: validation uses it, too."""
        return Objective(config.training)

    def measured(self, model: Model, predictions: Any, batch: Any) -> Mapping[str, Tensor]:
        """Sums of further metrics over the targets of a batch; they become means."""
        return {}

    def scorer(self, store: Store, config: RunConfig) -> Scorer | None:
        """A function for metrics that need more than a forward pass, if there are any."""
        return None

    def validator(self, store: Store, config: RunConfig) -> Validator:
        """A function that measures a model on the validation part of a store."""
        data, scorer = self.validation_data(store, config), self.scorer(store, config)

        def validate(model: Model) -> Validation:
            batches = validation_batches(data, config.data.batch_tokens)
            found = self.validate(model, batches, config)
            return replace(found, scores={**found.scores, **scorer(model)}) if scorer else found

        return validate

    @torch.inference_mode()
    def validate(self, model: Model, batches: Iterable[Batch], config: RunConfig) -> Validation:
        """The mean negative log-likelihood of a target token, and what else is measured."""
        plain = replace(
            config, training=replace(config.training, label_smoothing=0.0, r_drop=0.0, glancing=0.0)
        )
        objective, device = self.new_objective(model, plain), model.device
        half = is_half(device, config.training.precision, model.config.width)
        total, tokens = torch.zeros((), device=device), 0
        sums: dict[str, Tensor] = {}
        for batch in batches:
            batch = batch.to(device)
            with autocast(device, half=half):
                predictions = objective.predict(model, batch)
                total += objective.loss(predictions, batch).nll
                for name, value in self.measured(model, predictions, batch).items():
                    sums[name] = sums.get(name, torch.zeros((), device=device)) + value
            tokens += batch.target_tokens
        means = {name: float(value) / tokens for name, value in sums.items()}
        return Validation(float(total) / tokens, means)

    # The trained model.

    pipeline: ClassVar[type[Any]]  # what a model folder is loaded as, by its `load`
    usage: ClassVar[str] = "regard evaluate {}"  # of a model folder, as a command

    def load(self, *folders: Path, device: str = "auto", **options: Any) -> Any:
        """The inference pipeline of a model folder; only translators load several as one."""
        unused = [name for name, value in options.items() if value not in (None, "auto")]
        if unused or len(folders) > 1:
            what = f"{', '.join(unused)}: no effect" if unused else "Several folders have no use"
            raise ConfigError(f"{what} in {self.title}. Leave it out.")
        return self.pipeline.load(*folders, device=device)

    def next_command(self, out: str) -> str:
        """A command to try with a model that was just trained."""
        return self.usage.format(out)
