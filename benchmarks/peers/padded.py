"""Batches as rectangles with padding, and an update on them: what rivals in PyTorch share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lesson import Lesson, Pair
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class Padded:
    """B pairs as rectangles. A batch without padding has no mask, which is faster for everybody."""

    source: Tensor  # (B, S), end marks included
    inputs: Tensor  # (B, T), what the decoder reads
    labels: Tensor  # (B, T), what it shall write
    real: Tensor | None  # (B, S), True where the source is not padding

    @staticmethod
    def of(pairs: Sequence[Pair], device: torch.device) -> Padded:
        """The same sentences, padded to the longest."""
        source = _rectangle([[*s, SPECIAL.end] for s, _ in pairs], device)
        real = source != SPECIAL.pad
        return Padded(
            source,
            _rectangle([[SPECIAL.start, *t] for _, t in pairs], device),
            _rectangle([[*t, SPECIAL.end] for _, t in pairs], device),
            None if bool(real.all()) else real,
        )


def _rectangle(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    longest = max(map(len, rows))
    filled = [[*row, *[SPECIAL.pad] * (longest - len(row))] for row in rows]
    return torch.tensor(filled, device=device)


class PaddedLearner:
    """A model that gives logits (B, T, V) for a padded batch, and its optimizer."""

    def __init__(
        self, lesson: Lesson, model: nn.Module, logits: Callable[[Padded], Tensor], form: str
    ) -> None:
        self._device = torch.device(lesson.device)
        self._model = model.to(self._device).train()
        self._logits = logits
        self._smoothing = lesson.label_smoothing
        self._optimizer = torch.optim.Adam(
            model.parameters(), lesson.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self._half = form == "bf16" or lesson.device == "cuda"
        self._loss = self._plain_loss
        if form == "compiled":
            even = lesson.store is None and lesson.lengths[0] == lesson.lengths[1]
            self._loss = torch.compile(self._plain_loss, dynamic=not even)

    def load(self, pairs: Sequence[Pair]) -> Padded:
        """On the device already, so that the clock does not see the way there."""
        return Padded.of(pairs, self._device)

    def target_tokens(self, batch: Padded) -> int:
        """As many as the loss counts."""
        return int((batch.labels != SPECIAL.pad).sum())

    def update(self, batch: Padded) -> Tensor:
        """Learn from a batch; the loss of a token."""
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._half):
            loss = self._loss(batch)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def _plain_loss(self, batch: Padded) -> Tensor:
        return F.cross_entropy(
            self._logits(batch).flatten(0, 1).float(),
            batch.labels.flatten(),
            ignore_index=SPECIAL.pad,
            label_smoothing=self._smoothing,
        )
