"""Non-autoregressive translation: pairs of sentences, all target tokens at once.

    L = - sum_t log p(y_t | f, x) - w sum_s log p(f_s | x)      with fertilities f
    L = - log sum_paths p(path | x)                             with CTC

Glancing reveals some target tokens to the decoder; a teacher may add the risk of its outputs.
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
from regard.tasks.glancing import glancing_hints, glancing_ratio, mask_hinted_targets
from regard.tasks.teacher_risk import teacher_risk
from regard.tasks.translation import Translation
from regard.text.tokenizer import Tokenizers
from regard.training.config import RunConfig, TrainingConfig
from regard.training.losses import Loss, add_fertility_loss, ctc_loss
from regard.training.objective import Objective


class NonAutoregressiveTranslation(Translation):
    """Source to target, all tokens at once."""

    name = "nonautoregressive_translation"
    document_context = "none"  # the positions of the target are made from those of the source

    def problems(self, config: RunConfig) -> Iterator[str]:
        """Fertilities and CTC support different settings."""
        others = replace(config, training=replace(config.training, glancing=0.0, teacher=None))
        yield from super().problems(others)
        training, model = config.training, cast(NonAutoregressiveConfig, config.model)
        if training.teacher is not None and not model.needs_fertilities:
            yield "training.teacher requires model.length_prediction=fertility; leave it out"
        if training.word_distillation and not model.needs_fertilities:
            yield (
                "training.word_distillation requires a distribution for each target position, but "
                "model.length_prediction=ctc has other positions; set training.word_distillation=0"
            )

    def training_part(self, store: Store, config: RunConfig) -> Part:
        """The training pairs, with fertilities if the model learns them."""
        part = super().training_part(store, config)
        if not cast(NonAutoregressiveConfig, config.model).needs_fertilities:
            return part
        if config.data.subword_nbest_size > 1:
            raise ConfigError(
                "data.subword_nbest_size samples segmentations, and the fertilities of the store "
                "are for the best segmentation. Set data.subword_nbest_size=1, or "
                "train with model.length_prediction=ctc, which needs no fertilities."
            )
        return replace(part, fertilities=read_fertilities(store.folder, "train"))

    def validation_data(self, store: Store, config: RunConfig) -> Dataset:
        """Pairs, with fertilities if the model learns them."""
        part = store.part("valid")
        if cast(NonAutoregressiveConfig, config.model).needs_fertilities:
            part = replace(part, fertilities=read_fertilities(store.folder, "valid"))
        return PairDataset(part)

    def objective(self, model: Model, config: RunConfig, store: Store) -> Objective:
        """The objective, with the teacher of `training.teacher` if it is set."""
        teacher = None
        if config.training.teacher is not None:
            teacher = load_teacher(Path(config.training.teacher), store.tokenizers, model.device)
        return NonAutoregressiveObjective(model, config.training, teacher)

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """The objective without a teacher."""
        return NonAutoregressiveObjective(model, config.training)


class NonAutoregressiveObjective(Objective):
    """CTC, or cross-entropy and fertility loss; with glancing, after a first pass."""

    def __init__(
        self, model: Model, config: TrainingConfig, teacher: AutoregressiveModel | None = None
    ) -> None:
        super().__init__(config)
        self._model, self._teacher = cast(NonAutoregressive, model), teacher
        self._glancing = torch.zeros((), device=model.device)  # a captured update reads it

    def start_update(self, step: int) -> None:
        """Set the glancing ratio of the step."""
        self._glancing.fill_(glancing_ratio(step, self.config))

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of a batch, with the teacher's risk; both R-Drop passes get the same hints."""
        hints = None
        if self.config.glancing:
            with torch.no_grad():
                hints = glancing_hints(model(batch), self._glancing)
        if self.config.r_drop:
            batch, hints = batch.duplicate(), hints.duplicate() if hints else None
        if hints:
            predictions = mask_hinted_targets(model(batch, hints=hints), hints)
        else:
            predictions = self.predict(model, batch)
        loss = self.loss(predictions, batch)
        if self._teacher is None:
            return loss
        assert isinstance(predictions, FertilityPredictions)
        risk = teacher_risk(self._model, self._teacher, batch.source, predictions) / self.passes
        weight = self.config.teacher_weight
        return Loss((1 - weight) * loss.total + weight * risk, loss.nll)

    def loss(self, predictions: Predictions, batch: Batch) -> Loss:
        """The loss of the predictions."""
        if isinstance(predictions, CtcPredictions):
            return ctc_loss(predictions, self.config.label_smoothing, self.r_drop_weight)
        assert isinstance(predictions, FertilityPredictions)
        loss, weight = super().loss(predictions, batch), self.config.fertility_weight
        return add_fertility_loss(loss, predictions.fertilities, weight, self.passes)


def load_teacher(path: Path, tokenizers: Tokenizers, device: torch.device) -> AutoregressiveModel:
    """Load a model folder as the teacher of a model with these tokenizers."""
    folder = ModelFolder.read(path)
    if folder.tokenizers != tokenizers:
        raise ConfigError(
            f"{path} and the data use different tokenizers. Name a training.teacher that was "
            "trained on data prepared with the same tokenizer."
        )
    if not folder.config.autoregressive:
        raise ConfigError(
            f"training.teacher is {path}, but must be autoregressive. Choose another model."
        )
    _, model = load_model(path, device, folder)
    return cast(AutoregressiveModel, model.requires_grad_(False))
