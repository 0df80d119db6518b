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

from regard.attention.cache import Some
from regard.data.ragged import Ragged
from regard.models.protocol import Autoregressive


@dataclass
class EnsembleState:
    """The state of each model, for the same beams."""

    states: list[Any]
    fresh: bool = True  # nothing was read yet

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places, in every model."""
        for state in self.states:
            state.reach(places, exact=exact)

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence, in every model. (B, W)"""
        for state in self.states:
            state.reorder(parents)

    def select(self, sentences: Some) -> EnsembleState:
        """Some sentences alone."""
        return EnsembleState([state.select(sentences) for state in self.states], self.fresh)


class Ensemble:
    """Models of one vocabulary, of whatever kind and size."""

    can_be_recorded = False  # the first step reads something else in each model
    start_can_be_recorded = False

    def __init__(self, models: Sequence[Autoregressive[Any]]) -> None:
        self._models = models

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> EnsembleState:
        """A state for the source sentences, with room for so many beams and tokens of each."""
        return EnsembleState([m.start(source, beams=beams, room=room) for m in self._models])

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """What the first model reads first; the others read their own. (B, W)"""
        return self._models[0].first_tokens(sentences, beams)

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V), log-probabilities."""
        log_probs = []
        for model, own in zip(self._models, state.states, strict=True):
            read = model.first_tokens(*tokens.shape) if state.fresh else tokens
            log_probs.append(model.step(read, own).float().log_softmax(-1))
        state.fresh = False
        return mean_probability(log_probs)


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities that are given as logarithms."""
    return torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))
