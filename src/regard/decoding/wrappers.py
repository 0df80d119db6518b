"""Model wrappers: ensembles, prompted models, and models with several EOS tokens.

Each is an `Autoregressive` model itself, so every search accepts it. An ensemble averages the
probabilities of its models at each step:

    p(y_t | y_<t, x) = 1/M sum_m p_m(y_t | y_<t, x)

After a prompt, a search scores only the continuation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic

import torch
from torch import Tensor

from regard.attention.cache import Indices
from regard.data.ragged import Ragged
from regard.models.language import CausalLanguageModel
from regard.models.protocol import Autoregressive, S
from regard.text.special import SPECIAL


@dataclass
class WrappedState:
    """The decoder states of the wrapped models, for the same beams."""

    states: list[Any]
    is_first_step: bool = True
    offset: int = 0  # length of the prompt that was prefilled

    def reserve(self, length: int, *, exact: bool) -> None:
        """Make each model's state ready for a step that attends to `length` positions."""
        for state in self.states:
            state.reserve(self.offset + length, exact=exact)

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence, in every model. (B, W)"""
        for state in self.states:
            state.reorder(parents)

    def select(self, sentences: Indices) -> WrappedState:
        """The states of these sentences only."""
        return replace(self, states=[state.select(sentences) for state in self.states])


class Ensemble:
    """Models with the same vocabulary, of any kind and size."""

    step_capturable = False  # at the first step, each model reads its own start token
    start_capturable = False

    def __init__(self, models: Sequence[Autoregressive[Any]]) -> None:
        self._models = models

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> WrappedState:
        """The initial decoder states for source sentences."""
        return WrappedState([m.start(source, beams=beams, capacity=capacity) for m in self._models])

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The start tokens of the first model; `step` replaces them for the others. (B, W)"""
        return self._models[0].first_tokens(sentences, beams)

    def step(self, tokens: Tensor, state: WrappedState) -> Tensor:
        """Read one token per beam and return next-token log-probs: (B, W) -> (B, W, V)"""
        log_probs = []
        for model, model_state in zip(self._models, state.states, strict=True):
            inputs = model.first_tokens(*tokens.shape) if state.is_first_step else tokens
            log_probs.append(model.step(inputs, model_state).float().log_softmax(-1))
        state.is_first_step = False
        return average_log_probs(log_probs)


def average_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """The log of the mean of the probabilities."""
    return torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))


@dataclass(frozen=True)
class PromptedModel:
    """A language model that continues prompts of equal length."""

    step_capturable: ClassVar = False  # its positions differ from those of the search
    start_capturable: ClassVar = False
    model: CausalLanguageModel
    prompts: Tensor  # (B, T)

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> WrappedState:
        """The decoder state after all tokens of the prompts but the last."""
        length = self.prompts.shape[1] - 1
        state = self.model.start(source, beams=beams, capacity=length + capacity)
        self.model.prefill(self.prompts[:, :-1], state)
        return WrappedState([state], offset=length)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The last tokens of the prompts. (B, W)"""
        return self.prompts[:, -1:].repeat(1, beams)

    def step(self, tokens: Tensor, state: WrappedState) -> Tensor:
        """Read one token per beam and return next-token logits: (B, W) -> (B, W, V)"""
        return self.model.step(tokens, state.states[0])


@dataclass(frozen=True)
class MultiEosModel(Generic[S]):
    """A model with several EOS tokens, which are merged into `SPECIAL.eos`.

    In a search, EOS has the probability of the most probable of them, and the rest is assigned to
    PAD, which is banned. In sampling, EOS has the sum of their probabilities.
    """

    step_capturable: ClassVar = False  # `step` copies ids from the host
    start_capturable: ClassVar = False
    model: Autoregressive[S]
    extra_eos_ids: Sequence[int]  # EOS tokens other than `SPECIAL.eos`
    temperature: float | None = None  # of sampling; None: search

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> S:
        """The initial decoder state of the model."""
        return self.model.start(source, beams=beams, capacity=capacity)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The start tokens of the model. (B, W)"""
        return self.model.first_tokens(sentences, beams)

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """Read one token per beam and return next-token logits: (B, W) -> (B, W, V)"""
        logits = self.model.step(tokens, state)
        columns = torch.tensor([SPECIAL.eos, *self.extra_eos_ids], device=logits.device)
        eos = logits[..., columns].float()
        if self.temperature is None:
            best, index = eos.max(-1, keepdim=True)
            rest = eos.scatter(-1, index, -torch.inf).logsumexp(-1)
            pad = logits[..., SPECIAL.pad].float()
            logits[..., SPECIAL.pad] = torch.logaddexp(pad, rest).to(logits.dtype)
        else:
            best = (eos / self.temperature).logsumexp(-1, keepdim=True) * self.temperature
        logits[..., columns] = -torch.inf
        logits[..., SPECIAL.eos] = best.squeeze(-1).to(logits.dtype)
        return logits
