"""What a model's logits say of the next words: how likely given ones are, and which are best.

Forbidden words keep their share of probability, but are never among the best.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.rules import Rules
from regard.devices import has_triton

_CHUNK = 128


class Words(Protocol):
    """The next words of R rows."""

    def of(self, words: Tensor) -> Tensor:
        """The log-probabilities of given words: (R, n) -> (R, n); asked before all else."""
        ...

    def all(self) -> Tensor:
        """The log-probabilities of all words, -inf where one is forbidden. (R, V)"""
        ...

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """The highest log-probabilities, best first, and their words; (R, count) both."""
        ...


def next_words(logits: Tensor, rules: Rules, place: Tensor) -> Words:
    """From logits (R, V), which are used up."""
    if logits.is_cuda and has_triton():
        return SummedUp(logits, rules, place)
    return Plain(logits, rules, place)


class Plain:
    """By the log-probabilities of all words."""

    def __init__(self, logits: Tensor, rules: Rules, place: Tensor) -> None:
        self._log_probs = logits.log_softmax(-1, dtype=torch.float32)
        self._rules, self._place = rules, place

    def of(self, words: Tensor) -> Tensor:
        """The log-probabilities of given words."""
        return self._log_probs.gather(1, words)

    def all(self) -> Tensor:
        """The log-probabilities of all words."""
        self._rules.forbid(self._log_probs, self._place)
        return self._log_probs

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """The highest log-probabilities and their words.

        They lie in the chunks whose highest is highest, as many chunks as words are wanted; to
        look there takes a fraction of the time that sorting whole rows takes.
        """
        scores = self.all()
        chunks = scores.shape[1] // _CHUNK
        if chunks < 4 * count:
            return scores.topk(count, dim=1)
        highest = scores[:, : chunks * _CHUNK].unflatten(1, (chunks, _CHUNK)).amax(2)
        columns = _columns(highest, count)
        rest = torch.arange(chunks * _CHUNK, scores.shape[1], device=scores.device)
        columns = torch.cat([columns, rest.expand(len(scores), -1)], 1)
        found, places = scores.gather(1, columns).topk(count, dim=1)
        return found, columns.gather(1, places)


class SummedUp:
    """By one pass over the logits, which stay in the model's precision: on a GPU."""

    def __init__(self, logits: Tensor, rules: Rules, place: Tensor) -> None:
        from regard.decoding import words_kernel

        self._logits, self._rules, self._place = logits, rules, place
        self._summary = words_kernel.summary(logits, place, rules.minimum)

    def of(self, words: Tensor) -> Tensor:
        """The log-probabilities of given words."""
        return self._logits.gather(1, words).float() - self._summary.masses[:, None]

    def all(self) -> Tensor:
        """The log-probabilities of all words."""
        log_probs = self._logits.float() - self._summary.masses[:, None]
        self._rules.forbid(log_probs, self._place)
        return log_probs

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """The highest log-probabilities and their words."""
        found = self._summary
        if count == 1:
            return (found.best - found.masses)[:, None], found.word[:, None]
        words = self._logits.shape[1]
        if found.highest.shape[1] < count:
            return self.all().topk(count, dim=1)
        self._rules.forbid(self._logits, self._place)
        columns = _columns(found.highest, count)
        scores = self._logits.gather(1, columns.clamp(max=words - 1)).float()
        scores = scores.masked_fill(columns >= words, -torch.inf)
        best, places = scores.topk(count, dim=1)
        return best - found.masses[:, None], columns.gather(1, places)


def _columns(highest: Tensor, count: int) -> Tensor:
    """The words of the best chunks. (R, chunks) -> (R, count * chunk)"""
    chunks = highest.topk(count, dim=1, sorted=False).indices
    inside = torch.arange(_CHUNK, device=highest.device)
    return (chunks[:, :, None] * _CHUNK + inside).flatten(1)
