"""Non-autoregressive translation: pairs of sentences, all target tokens at once.

    L = - sum_t log p(y_t | f, x) - w sum_s log p(f_s | x)      with fertilities f
    L = - log sum_paths p(path | x)                             with CTC

Glancing shows the decoder some target tokens; a teacher may add the risk of what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from regard.data.batch import Batch
from regard.data.fertilities import read_fertilities
from regard.data.loader import Dataset
from regard.data.pairs import PairDataset
from regard.data.store import Part, Store
from regard.errors import ConfigError
from regard.models.base import AutoregressiveModel, Model
from regard.models.folder import ModelFolder, load_model
from regard.models.nonautoregressive import (
    CtcPredictions,
    FertilityPredictions,
    NonAutoregressive,
    NonAutoregressiveConfig,
)
from regard.models.protocol import Predictions
from regard.tasks.glancing import glanced, glancing_ratio, unseen
from regard.tasks.teacher_risk import teacher_risk
from regard.tasks.translation import Translation
from regard.text.tokenizer import Tokenizers
from regard.training.config import RunConfig, TrainingConfig
from regard.training.losses import Loss, ctc_loss, with_fertilities
from regard.training.objective import Objective


class NonAutoregressiveTranslation(Translation):
    """Source to target, all tokens at once."""

    name = "nonautoregressive_translation"

    def problems(self, config: RunConfig) -> Iterator[str]:
        """Fertilities and CTC differ in what they can use."""
        allowed = replace(config, training=replace(config.training, glancing=0.0, teacher=None))
        yield from super().problems(allowed)
        training, model = config.training, cast(NonAutoregressiveConfig, config.model)
        if training.teacher is not None and not model.needs_fertilities:
            yield "training.teacher requires model.lengths=fertility; leave it out"
        if training.word_distillation and not model.needs_fertilities:
            yield (
                "training.word_distillation has a distribution for each target position, and "
                "model.lengths=ctc has other positions; set it to 0"
            )

    def training_part(self, store: Store, config: RunConfig) -> Part:
        """The training pairs, with fertilities if the model learns them."""
        part = super().training_part(store, config)
        if not cast(NonAutoregressiveConfig, config.model).needs_fertilities:
            return part
        if config.data.sampling_candidates > 1:
            raise ConfigError(
                "data.sampling_candidates segments words anew each time, and the fertilities of "
                "the store are those of the best segmentations. Set data.sampling_candidates=1, or "
                "train with model.lengths=ctc, which needs no fertilities."
            )
        return replace(part, fertilities=read_fertilities(store.folder, "train"))

    def validation_data(self, store: Store, config: RunConfig) -> Dataset:
        """Pairs, with fertilities if the model learns them."""
        part = store.part("valid")
        if cast(NonAutoregressiveConfig, config.model).needs_fertilities:
            part = replace(part, fertilities=read_fertilities(store.folder, "valid"))
        return PairDataset(part)

    def objective(self, model: Model, config: RunConfig, store: Store) -> Objective:
        """With a teacher, if one is named."""
        teacher = None
        if config.training.teacher is not None:
            teacher = load_teacher(Path(config.training.teacher), store.tokenizers, model.device)
        return NonAutoregressiveObjective(model, config.training, teacher)

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """Without a teacher."""
        return NonAutoregressiveObjective(model, config.training)


class NonAutoregressiveObjective(Objective):
    """CTC, or cross-entropy and fertilities; with glancing, after a first pass."""

    def __init__(
        self, model: Model, config: TrainingConfig, teacher: AutoregressiveModel | None = None
    ) -> None:
        super().__init__(config)
        self._model, self._teacher = cast(NonAutoregressive, model), teacher
        self._glancing = torch.zeros((), device=model.device)  # a captured update reads it

    def start_update(self, step: int) -> None:
        """The glancing ratio depends on the step."""
        self._glancing.fill_(glancing_ratio(step, self.config))

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of a batch, and the teacher's risk; R-Drop's passes get the same hints."""
        hints = None
        if self.config.glancing:
            with torch.no_grad():
                hints = glanced(model(batch), self._glancing)
        if self.config.r_drop:
            batch, hints = batch.twice(), hints.twice() if hints else None
        if hints:
            predictions = unseen(model(batch, hints=hints), hints)
        else:
            predictions = self.predict(model, batch)
        loss = self.loss(predictions, batch)
        if self._teacher is None:
            return loss
        assert isinstance(predictions, FertilityPredictions)
        risk = teacher_risk(self._model, self._teacher, batch.source, predictions) / self.passes
        share = self.config.teacher_weight
        return Loss((1 - share) * loss.total + share * risk, loss.nll)

    def loss(self, predictions: Predictions, batch: Batch) -> Loss:
        """The loss of predictions."""
        if isinstance(predictions, CtcPredictions):
            return ctc_loss(predictions, self.config.label_smoothing, self.r_drop_weight)
        assert isinstance(predictions, FertilityPredictions)
        loss, weight = super().loss(predictions, batch), self.config.fertility_weight
        return with_fertilities(loss, predictions.fertilities, weight, self.passes)


def load_teacher(path: Path, tokenizers: Tokenizers, device: torch.device) -> AutoregressiveModel:
    """The model of a folder, as a teacher of a model with these tokenizers."""
    folder = ModelFolder.read(path)
    if folder.tokenizers != tokenizers:
        raise ConfigError(
            f"{path} and the data use different tokenizers. Name a training.teacher that was "
            "trained on data prepared with the same tokenizer."
        )
    if not folder.config.autoregressive:
        raise ConfigError(
            f"{path} writes all words at once. A training.teacher must be autoregressive."
        )
    _, model = load_model(path, device, folder)
    return cast(AutoregressiveModel, model.requires_grad_(False))
