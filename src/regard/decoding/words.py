"""What a model's logits say of the next words: how likely given ones are, and which are best.

Forbidden words keep their share of probability, but are never among the best; EOS before the least
length has none.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.rules import Rules
from regard.devices import has_triton

_CHUNK = 128


class Candidates(NamedTuple):
    """Continuations of each sentence, best first; each (B, count)."""

    log_probs: Tensor  # with what came before
    parents: Tensor  # the beams that are continued
    tokens: Tensor  # by what


def next_words(logits: Tensor, rules: Rules, place: Tensor, *, scored: bool = True) -> Words:
    """From logits (R, V), which are used up; if nothing need be scored, that may be quicker."""
    if logits.is_cuda and has_triton():
        return SummedUp(logits, rules, place)
    return Words(logits, rules, place, scored=scored)


class Words:
    """The next words of R = B W rows: of B sentences, each with W beams.

    By the log-probabilities of all words; or, if nobody asks for scores, by their logits.
    """

    def __init__(self, logits: Tensor, rules: Rules, place: Tensor, *, scored: bool = True) -> None:
        self._scores = logits.float()
        rules.forbid_early_end(self._scores, place)
        if scored:
            torch.log_softmax(self._scores, -1, out=self._scores)
        self._rules = rules

    def of(self, words: Tensor) -> Tensor:
        """The log-probabilities of given words: (R, n) -> (R, n); asked before all else."""
        return self._scores.gather(1, words)

    def all(self) -> Tensor:
        """The log-probabilities of all words, -inf where one is forbidden. (R, V)"""
        self._rules.forbid(self._scores)
        return self._scores

    def likeliest(self) -> tuple[Tensor, Tensor]:
        """The highest log-probability of each row, and its word; (R, 1) both."""
        found = self.best(self._scores.new_zeros(len(self._scores), 1), 1)
        return found.log_probs, found.tokens

    def best(self, before: Tensor, count: int) -> Candidates:
        """The best of each sentence, given the log-probabilities of its beams. (B, W)"""
        scores = self.all()
        chunks = scores.shape[1] // _CHUNK
        if chunks < 4 * count:
            return _best_of_all(scores, before, count)
        whole, rest = scores.split([chunks * _CHUNK, scores.shape[1] - chunks * _CHUNK], dim=1)
        parts = [whole.unflatten(1, (chunks, _CHUNK)).amax(2)]
        if rest.shape[1]:
            parts.append(rest.amax(1, keepdim=True))
        return _best_in_chunks(scores, torch.cat(parts, 1), before, count)


class SummedUp(Words):
    """By one pass over the logits, which stay in the model's precision: on a GPU."""

    def __init__(self, logits: Tensor, rules: Rules, place: Tensor) -> None:
        from regard.decoding import words_kernel

        rules.forbid_early_end(logits, place)
        self._logits, self._rules = logits, rules
        self._summary = words_kernel.summary(logits, place, rules.minimum)

    def of(self, words: Tensor) -> Tensor:
        """The log-probabilities of given words."""
        return self._logits.gather(1, words).float() - self._summary.masses[:, None]

    def all(self) -> Tensor:
        """The log-probabilities of all words."""
        log_probs = self._logits.float() - self._summary.masses[:, None]
        self._rules.forbid(log_probs)
        return log_probs

    def likeliest(self) -> tuple[Tensor, Tensor]:
        """The highest log-probability of each row, and its word."""
        found = self._summary
        return (found.best - found.masses)[:, None], found.word[:, None]

    def best(self, before: Tensor, count: int) -> Candidates:
        """The best of each sentence."""
        found = self._summary
        if found.highest.shape[1] < count:
            return _best_of_all(self.all(), before, count)
        self._rules.forbid(self._logits)
        before = before - found.masses.view(before.shape)
        return _best_in_chunks(self._logits, found.highest, before, count)


def _best_of_all(scores: Tensor, before: Tensor, count: int) -> Candidates:
    """From the scores of all words. (R, V), (B, W)"""
    totals = scores.unflatten(0, before.shape) + before[:, :, None]
    best, places = totals.flatten(1).topk(count, dim=1)
    return Candidates(best, places // scores.shape[1], places % scores.shape[1])


def _best_in_chunks(scores: Tensor, highest: Tensor, before: Tensor, count: int) -> Candidates:
    """The same, given the highest score of each chunk of words. (R, V), (R, chunks), (B, W)

    The best lie in the chunks whose highest is highest, as many chunks as words are wanted; to look
    there takes a fraction of the time that sorting takes.
    """
    words, chunks = scores.shape[1], highest.shape[1]
    totals = highest.unflatten(0, before.shape) + before[:, :, None]
    chosen = totals.flatten(1).topk(count, dim=1, sorted=False).indices  # (B, count)
    beams = chosen // chunks
    inside = torch.arange(_CHUNK, device=scores.device)
    columns = (chosen % chunks)[:, :, None] * _CHUNK + inside  # (B, count, chunk)
    places = (beams * words)[:, :, None] + columns.clamp(max=words - 1)
    found = scores.view(len(before), -1).gather(1, places.flatten(1)).float()
    found = found.view(columns.shape) + before.gather(1, beams)[:, :, None]
    found = found.masked_fill(columns >= words, -torch.inf)
    best, which = found.flatten(1).topk(count, dim=1)
    places = places.flatten(1).gather(1, which)
    return Candidates(best, places // words, places % words)
