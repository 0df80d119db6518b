"""Losses, tokens and speed since the last row of the metrics log."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.training.step import Update


class Meter:
    """Sums of losses and tokens, kept on the device to avoid a synchronization at each step."""

    def __init__(self, unreported: tuple[float, float, int], seconds: float) -> None:
        loss, nll, self.tokens = unreported
        self._sums = torch.tensor([loss, nll], dtype=torch.float64)
        self._previous_seconds = seconds
        self._start = self._row_start = time.monotonic()
        self._row_tokens = 0
        self._paused = 0.0  # seconds of pauses since the last row

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of this context, such as validation, from the speed."""
        self._sums.tolist()  # wait for the device
        start = time.monotonic()
        yield
        self._paused += time.monotonic() - start

    def add(self, update: Update) -> None:
        """Add an update."""
        self._sums = self._sums.to(update.sums.device) + update.sums
        self.tokens += update.tokens
        self._row_tokens += update.tokens

    @property
    def unreported(self) -> tuple[float, float, int]:
        """The sums of loss, negative log-likelihood and tokens."""
        loss, nll = self._sums.tolist()
        return loss, nll, self.tokens

    @property
    def is_finite(self) -> bool:
        """Whether the losses are finite."""
        return bool(torch.isfinite(self._sums).all())

    @property
    def seconds(self) -> float:
        """The duration of the run so far, including the time before it was resumed."""
        return self._previous_seconds + time.monotonic() - self._start

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second of training since the last row."""
        seconds = time.monotonic() - self._row_start - self._paused
        return self._row_tokens / max(seconds, 1e-9)

    def reset(self) -> None:
        """Start a new row."""
        self._sums = torch.zeros_like(self._sums)
        self.tokens = self._row_tokens = 0
        self._row_start, self._paused = time.monotonic(), 0.0


def perplexity(nll: float) -> float:
    """`exp` of the mean negative log-likelihood; infinity instead of an overflow."""
    return math.exp(nll) if nll < 700 else math.inf
