"""Regard itself: the update that its training loop does, in the precision that it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from lesson import Lesson, Pair, Size
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.devices import Precision, keep_freed_memory
from regard.models import new_model
from regard.models.protocol import Vocabulary
from regard.models.transformer import TransformerConfig
from regard.training.config import RunConfig, TrainingConfig
from regard.training.engine import Engine
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater

NAME = "regard"
FORMS = {"cpu": ["", "float32"], "cuda": [""]}


class Learner:
    """A model and what `regard train` does with it, the loader apart.

    All that is regard's own in a contest is here; if its training loop changes, so must this.
    """

    def __init__(self, lesson: Lesson, form: str) -> None:
        if lesson.device == "cpu":
            keep_freed_memory()  # as the command does
        device = torch.device(lesson.device)
        config = RunConfig(
            out="nowhere",
            model=model_config(lesson.size, lesson.dropout),
            training=training_config(lesson, form),
        )
        vocabulary = Vocabulary(lesson.vocabulary, lesson.vocabulary)
        model = new_model(config.model, vocabulary).to(device).train()
        self._update = Updater(
            model, make_optimizer(model, config.training), Objective(config.training)
        )
        self._stack = ExitStack()  # for good
        engine = Engine.chosen(config, device)
        self._stack.enter_context(self._update.as_chosen(engine, lesson.batch_tokens))
        self._rate = lesson.learning_rate
        self._step = 0

    def load(self, pairs: Sequence[Pair]) -> Batch:
        """As the loader hands it over: the way to the device is part of the update."""
        return Batch(with_ends([s for s, _ in pairs]), with_ends([t for _, t in pairs]))

    def target_tokens(self, batch: Batch) -> int:
        """As many as the loss counts."""
        return batch.target_tokens

    def update(self, batch: Batch) -> Tensor:
        """Learn from a batch; the loss of a token."""
        self._step += 1
        done = self._update([batch], step=self._step, rate=self._rate)
        return done.sums[0] / done.tokens


def training_config(lesson: Lesson, form: str) -> TrainingConfig:
    """The settings that all contestants share, and the precision."""
    precision: Precision = "float32" if form == "float32" else "auto"
    return TrainingConfig(
        precision=precision,
        compile=form == "compiled",
        learning_rate=lesson.learning_rate,
        label_smoothing=lesson.label_smoothing,
        clip_norm=0.0,
        seed=lesson.seed,
    )


def model_config(size: Size, dropout: float = 0.0) -> TransformerConfig:
    """The paper's model in a size."""
    return TransformerConfig(
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        width=size.width,
        heads=size.heads,
        feedforward_width=size.feedforward,
        dropout=dropout,
    )


def learner(lesson: Lesson, form: str) -> Learner:
    """A fresh model."""
    return Learner(lesson, form)
