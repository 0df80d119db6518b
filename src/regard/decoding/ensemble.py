"""Several models as one: at each step, the mean of their probabilities.

    p(y_t | y_<t, x) = 1/M sum_m p_m(y_t | y_<t, x)

An ensemble is itself a model that writes one token after another, so every search takes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.models.protocol import Autoregressive


@dataclass(frozen=True)
class EnsembleState:
    """The state of each model, for the same rows."""

    states: list[Any]
    fresh: bool  # nothing was read yet

    def select(self, rows: Tensor) -> EnsembleState:
        """These rows, in every model."""
        return EnsembleState([state.select(rows) for state in self.states], self.fresh)


class Ensemble:
    """Models of one vocabulary, of whatever kind and size."""

    def __init__(self, models: Sequence[Autoregressive[Any]]) -> None:
        self._models = models

    def start(self, source: Ragged) -> EnsembleState:
        """A state with one row for each source sentence."""
        return EnsembleState([model.start(source) for model in self._models], fresh=True)

    def first_tokens(self, rows: int) -> Tensor:
        """What the first model reads first; the others read their own."""
        return self._models[0].first_tokens(rows)

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Read one token a row and score the next: (B,) -> (B, V), logarithms of probabilities."""
        scored = [
            model.step(model.first_tokens(len(tokens)) if state.fresh else tokens, own)
            for model, own in zip(self._models, state.states, strict=True)
        ]
        log_probs = [logits.float().log_softmax(-1) for logits, _ in scored]
        return mean_probability(log_probs), EnsembleState([after for _, after in scored], False)


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities that are given as logarithms."""
    return torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))
