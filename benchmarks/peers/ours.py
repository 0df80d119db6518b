"""regard: the update of its training loop, in its default precision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.devices import Precision
from regard.machine import keep_freed_memory
from regard.models import new_model
from regard.models.protocol import Vocabulary
from regard.models.transformer import TransformerConfig
from regard.training.config import RunConfig, TrainingConfig
from regard.training.execution_plan import ExecutionPlan
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from training_task import Pair, Size, TrainingTask

NAME = "regard"
VARIANTS = {"cpu": ["", "float32"], "cuda": [""]}


class Trainer:
    """The training step of `regard train`, without the data loader.

    It repeats code of the training loop and has to follow its changes.
    """

    def __init__(self, task: TrainingTask, variant: str) -> None:
        if task.device == "cpu":
            keep_freed_memory()  # as the command does
        device = torch.device(task.device)
        config = RunConfig(
            out="nowhere",
            model=model_config(task.size, task.dropout),
            training=training_config(task, variant),
        )
        vocabulary = Vocabulary(task.vocabulary, task.vocabulary)
        model = new_model(config.model, vocabulary).to(device).train()
        self._update = Updater(
            model, make_optimizer(model, config.training), Objective(config.training)
        )
        self._stack = ExitStack()  # never closed
        plan = ExecutionPlan.choose(config, device)
        self._stack.enter_context(self._update.use_plan(plan, task.batch_tokens))
        self._rate = task.learning_rate
        self._step = 0

    def load(self, pairs: Sequence[Pair]) -> Batch:
        """A batch on the CPU, as from the loader: the copy to the device is timed."""
        return Batch(with_eos([s for s, _ in pairs]), with_eos([t for _, t in pairs]))

    def target_tokens(self, batch: Batch) -> int:
        """The number of tokens in the loss."""
        return batch.target_tokens

    def update(self, batch: Batch) -> Tensor:
        """Train on a batch; returns the loss per token."""
        self._step += 1
        result = self._update([batch], step=self._step, rate=self._rate)
        return result.sums[0] / result.tokens


def training_config(task: TrainingTask, variant: str) -> TrainingConfig:
    """The settings that all systems share, and the precision."""
    precision: Precision = "float32" if variant == "float32" else "auto"
    return TrainingConfig(
        precision=precision,
        compile=variant == "compiled",
        learning_rate=task.learning_rate,
        label_smoothing=task.label_smoothing,
        max_grad_norm=0.0,
        seed=task.seed,
    )


def model_config(size: Size, dropout: float = 0.0) -> TransformerConfig:
    """A Transformer of a given size."""
    return TransformerConfig(
        num_encoder_layers=size.num_layers,
        num_decoder_layers=size.num_layers,
        d_model=size.d_model,
        num_heads=size.num_heads,
        ffn_dim=size.ffn_dim,
        dropout=dropout,
    )


def trainer(task: TrainingTask, variant: str) -> Trainer:
    """A trainer of a new model."""
    return Trainer(task, variant)
