"""Regard itself: the update that its training loop does, in the precision that it chooses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lesson import Lesson, Pair
from regard.data.loader import with_ends
from regard.data.ragged import Batch
from regard.devices import Precision, keep_freed_memory
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.config import TrainingConfig
from regard.training.optimizer import make_optimizer
from regard.training.step import update

NAME = "regard"
FORMS = {"cpu": ["", "bf16"], "cuda": [""]}


class Learner:
    """A model and what `regard train` does with it, the loader apart."""

    def __init__(self, lesson: Lesson, form: str) -> None:
        precision: Precision = "bfloat16" if form == "bf16" else "auto"
        self._config = TrainingConfig(
            precision=precision,
            learning_rate=lesson.learning_rate,
            label_smoothing=lesson.label_smoothing,
            clip_norm=0.0,
            seed=lesson.seed,
        )
        if lesson.device == "cpu":
            keep_freed_memory()  # as the command does
        vocabulary = Vocabulary(lesson.vocabulary, lesson.vocabulary)
        model = Transformer(model_config(lesson), vocabulary)
        self._model = model.to(torch.device(lesson.device)).train()
        self._optimizer = make_optimizer(self._model, self._config)
        self._step = 0

    def load(self, pairs: Sequence[Pair]) -> Batch:
        """As the loader hands it over: the way to the device is part of the update."""
        return Batch(with_ends([s for s, _ in pairs]), with_ends([t for _, t in pairs]))

    def target_tokens(self, batch: Batch) -> int:
        """As many as the loss counts."""
        return batch.target_tokens

    def update(self, batch: Batch) -> Tensor:
        """Learn from a batch; the loss of a token. All that is regard's in a contest is here."""
        self._step += 1
        rate = self._config.learning_rate
        assert rate is not None
        done = update(
            self._model, self._optimizer, [batch], self._config, step=self._step, rate=rate
        )
        return done.sums[0] / done.tokens


def model_config(lesson: Lesson) -> TransformerConfig:
    """The paper's model in the lesson's size."""
    size = lesson.size
    return TransformerConfig(
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        width=size.width,
        heads=size.heads,
        feedforward_width=size.feedforward,
        dropout=lesson.dropout,
    )


def learner(lesson: Lesson, form: str) -> Learner:
    """A fresh model."""
    return Learner(lesson, form)
