"""Models around other models: an ensemble, a model after a prompt, a model with several EOS tokens.

Each is itself a model that writes one token after another, so every search takes it. An ensemble
has the mean of the probabilities of its models at each step:

    p(y_t | y_<t, x) = 1/M sum_m p_m(y_t | y_<t, x)

After a prompt that was read, a search scores only what follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic

import torch
from torch import Tensor

from regard.attention.cache import Some
from regard.data.ragged import Ragged
from regard.models.language import WritingModel
from regard.models.protocol import Autoregressive, S
from regard.text.special import SPECIAL


@dataclass
class WrappedState:
    """The states of the models that are wrapped, for the same beams."""

    states: list[Any]
    fresh: bool = True  # nothing was read yet
    offset: int = 0  # places of a prompt, of which the search does not know

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places, in every model."""
        for state in self.states:
            state.reach(self.offset + places, exact=exact)

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence, in every model. (B, W)"""
        for state in self.states:
            state.reorder(parents)

    def select(self, sentences: Some) -> WrappedState:
        """Some sentences alone."""
        return replace(self, states=[state.select(sentences) for state in self.states])


class Ensemble:
    """Models of one vocabulary, of whatever kind and size."""

    can_be_recorded = False  # the first step reads something else in each model
    start_can_be_recorded = False

    def __init__(self, models: Sequence[Autoregressive[Any]]) -> None:
        self._models = models

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> WrappedState:
        """A state for the source sentences, with room for so many beams and tokens of each."""
        return WrappedState([m.start(source, beams=beams, room=room) for m in self._models])

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """What the first model reads first; the others read their own. (B, W)"""
        return self._models[0].first_tokens(sentences, beams)

    def step(self, tokens: Tensor, state: WrappedState) -> Tensor:
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


@dataclass(frozen=True)
class Prompted:
    """A model, and prompts of equal length."""

    can_be_recorded: ClassVar = False  # its places are not the search's
    start_can_be_recorded: ClassVar = False
    model: WritingModel
    prompts: Tensor  # (B, T)

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> WrappedState:
        """A state in which all of the prompts but their last tokens are read."""
        before = self.prompts.shape[1] - 1
        state = self.model.start(source, beams=beams, room=before + room)
        self.model.read_ahead(self.prompts[:, :-1], state)
        return WrappedState([state], offset=before)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The last tokens of the prompts. (B, W)"""
        return self.prompts[:, -1:].repeat(1, beams)

    def step(self, tokens: Tensor, state: WrappedState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V)"""
        return self.model.step(tokens, state.states[0])


@dataclass(frozen=True)
class SeveralEnds(Generic[S]):
    """A model whose other EOS tokens are written as our EOS.

    A search takes the likeliest of them; the others keep their share of probability, as tokens do
    that nobody writes. Where tokens are drawn, EOS is as likely as all of them together.
    """

    can_be_recorded: ClassVar = False  # its columns are made anew each time
    start_can_be_recorded: ClassVar = False
    model: Autoregressive[S]
    others: Sequence[int]  # EOS tokens beside ours
    temperature: float | None = None  # of drawing; None: tokens are searched for

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> S:
        """The model's."""
        return self.model.start(source, beams=beams, room=room)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The model's. (B, W)"""
        return self.model.first_tokens(sentences, beams)

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V)"""
        logits = self.model.step(tokens, state)
        columns = torch.tensor([SPECIAL.end, *self.others], device=logits.device)
        ends = logits[..., columns].float()
        if self.temperature is None:
            best, place = ends.max(-1, keepdim=True)
            rest = ends.scatter(-1, place, -torch.inf).logsumexp(-1)
            unwritten = logits[..., SPECIAL.pad].float()
            logits[..., SPECIAL.pad] = torch.logaddexp(unwritten, rest).to(logits.dtype)
        else:
            best = (ends / self.temperature).logsumexp(-1, keepdim=True) * self.temperature
        logits[..., columns] = -torch.inf
        logits[..., SPECIAL.end] = best.squeeze(-1).to(logits.dtype)
        return logits
