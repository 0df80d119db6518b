"""What happened since the last row of metrics."""

from __future__ import annotations

import math
import time

import torch

from regard.training.step import Update


class Meter:
    """Sums of losses and tokens, kept on the device so that nobody waits for it at each step."""

    def __init__(self, unreported: tuple[float, float, int], seconds: float) -> None:
        loss, nll, self.tokens = unreported
        self._sums = torch.tensor([loss, nll], dtype=torch.float64)
        self._earlier = seconds
        self._begin = self._row_begin = time.monotonic()
        self._row_tokens = 0

    def add(self, done: Update) -> None:
        """One more update."""
        self._sums = self._sums.to(done.sums.device) + done.sums
        self.tokens += done.tokens
        self._row_tokens += done.tokens

    @property
    def unreported(self) -> tuple[float, float, int]:
        """Loss, negative log-likelihood and tokens, summed."""
        loss, nll = self._sums.tolist()
        return loss, nll, self.tokens

    @property
    def is_finite(self) -> bool:
        """Whether the losses are still numbers."""
        return bool(torch.isfinite(self._sums).all())

    @property
    def seconds(self) -> float:
        """The time that the run took, over all its processes."""
        return self._earlier + time.monotonic() - self._begin

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second since the last row."""
        return self._row_tokens / max(time.monotonic() - self._row_begin, 1e-9)

    def reset(self) -> None:
        """A row was written."""
        self._sums = torch.zeros_like(self._sums)
        self.tokens = self._row_tokens = 0
        self._row_begin = time.monotonic()


def perplexity(nll: float) -> float:
    """`exp` of the negative log-likelihood of a token, infinite rather than an overflow."""
    return math.exp(nll) if nll < 700 else math.inf
