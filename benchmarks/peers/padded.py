"""PaddedBatch batches, and a training step on them, for peers in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.text.special import SPECIAL
from training_task import Pair, TrainingTask


@dataclass(frozen=True)
class PaddedBatch:
    """B padded pairs. A batch without padding has no mask, which is faster in all libraries."""

    source: Tensor  # (B, S), with EOS
    inputs: Tensor  # (B, T), decoder inputs
    labels: Tensor  # (B, T), decoder targets
    mask: Tensor | None  # (B, S), True where the source is not padding

    @staticmethod
    def of(pairs: Sequence[Pair], device: torch.device) -> PaddedBatch:
        """The pairs, padded to the longest sentence."""
        source = _pad([[*s, SPECIAL.eos] for s, _ in pairs], device)
        mask = source != SPECIAL.pad
        return PaddedBatch(
            source,
            _pad([[SPECIAL.bos, *t] for _, t in pairs], device),
            _pad([[*t, SPECIAL.eos] for _, t in pairs], device),
            None if bool(mask.all()) else mask,
        )


def _pad(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    longest = max(map(len, rows))
    padded = [[*row, *[SPECIAL.pad] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, device=device)


class PaddedTrainer:
    """A model with logits (B, T, V) for a padded batch, and its optimizer."""

    def __init__(
        self,
        task: TrainingTask,
        model: nn.Module,
        logits: Callable[[PaddedBatch], Tensor],
        variant: str,
    ) -> None:
        self._device = torch.device(task.device)
        self._model = model.to(self._device).train()
        self._logits = logits
        self._smoothing = task.label_smoothing
        self._optimizer = torch.optim.Adam(
            model.parameters(), task.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self._use_bfloat16 = variant == "bf16" or task.device == "cuda"
        self._loss = self._compute_loss
        if variant == "compiled":
            equal_lengths = task.store is None and task.lengths[0] == task.lengths[1]
            self._loss = torch.compile(self._compute_loss, dynamic=not equal_lengths)

    def load(self, pairs: Sequence[Pair]) -> PaddedBatch:
        """A batch on the device, so that the copy is not timed."""
        return PaddedBatch.of(pairs, self._device)

    def target_tokens(self, batch: PaddedBatch) -> int:
        """The number of tokens in the loss."""
        return int((batch.labels != SPECIAL.pad).sum())

    def update(self, batch: PaddedBatch) -> Tensor:
        """Train on a batch; returns the loss per token."""
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._use_bfloat16):
            loss = self._loss(batch)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def _compute_loss(self, batch: PaddedBatch) -> Tensor:
        return F.cross_entropy(
            self._logits(batch).flatten(0, 1).float(),
            batch.labels.flatten(),
            ignore_index=SPECIAL.pad,
            label_smoothing=self._smoothing,
        )
