"""What happened since the last row of metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
        self._paused = 0.0  # seconds since the last row in which nothing was trained

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens meanwhile, such as validation, does not count against the speed."""
        self._sums.tolist()  # the device finishes what was trained first
        begin = time.monotonic()
        yield
        self._paused += time.monotonic() - begin

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
        """Target tokens a second of training since the last row."""
        trained = time.monotonic() - self._row_begin - self._paused
        return self._row_tokens / max(trained, 1e-9)

    def reset(self) -> None:
        """A row was written."""
        self._sums = torch.zeros_like(self._sums)
        self.tokens = self._row_tokens = 0
        self._row_begin, self._paused = time.monotonic(), 0.0


def perplexity(nll: float) -> float:
    """`exp` of the negative log-likelihood of a token, infinite rather than an overflow."""
    return math.exp(nll) if nll < 700 else math.inf
