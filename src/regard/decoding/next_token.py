"""Next-token scores from logits: log-probs of tokens, argmax and top-k.

Banned tokens keep their probability but are never among the best; EOS before the minimum length has
probability 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.decoding.constraints import DecodingConstraints
from regard.decoding.penalties import Penalties
from regard.devices import has_triton

if TYPE_CHECKING:
    from regard.decoding.next_token_kernel import LogitSummary

_CHUNK = 128  # tokens of the vocabulary


class Candidates(NamedTuple):
    """Continuations of each sentence, best first; each (B, count)."""

    log_probs: Tensor  # of the prefix and the new token
    parents: Tensor  # the beams that are continued
    tokens: Tensor


def next_token_scores(
    logits: Tensor,
    constraints: DecodingConstraints,
    position: Tensor,
    *,
    penalties: Penalties | None = None,
    scored: bool = True,
) -> NextTokenScores:
    """Scores from logits (R, V), which are overwritten; `scored=False` may be faster."""
    if penalties is not None:
        penalties.penalize_repetition(logits, position)
    if logits.is_cuda and has_triton():
        return FusedNextTokenScores(logits, constraints, position, penalties)
    return NextTokenScores(logits, constraints, position, penalties, scored=scored)


class NextTokenScores:
    """Scores of the next tokens of R = B W rows: B sentences with W beams each.

    They are log-probs, or unnormalized logits if `scored` is false. Banning tokens changes the
    scores in place, so `gather` must be called first.
    """

    def __init__(
        self,
        logits: Tensor,
        constraints: DecodingConstraints,
        position: Tensor,
        penalties: Penalties | None = None,
        *,
        scored: bool = True,
    ) -> None:
        self._scores = logits.float()
        constraints.ban_early_eos(self._scores, position)
        if scored:
            torch.log_softmax(self._scores, -1, out=self._scores)
        self._constraints, self._position, self._penalties = constraints, position, penalties

    @property
    def vocab_size(self) -> int:
        """The number of tokens, V."""
        return self._scores.shape[1]

    def gather(self, tokens: Tensor) -> Tensor:
        """The log-probs of these tokens, banned or not. (R, n) -> (R, n)"""
        return self._scores.gather(1, tokens)

    def log_probs(self) -> Tensor:
        """The log-probs of all tokens; -inf where banned. (R, V)"""
        self._ban(self._scores)
        return self._scores

    def _ban(self, scores: Tensor) -> None:
        """Ban tokens in place. (R, V)"""
        self._constraints.ban_special_tokens(scores)
        if self._penalties is not None:
            self._penalties.ban(scores, self._position)

    def max(self) -> tuple[Tensor, Tensor]:
        """The highest log-prob of each row, and its token; (R, 1) both."""
        best = self.topk(self._scores.new_zeros(len(self._scores), 1), 1)
        return best.log_probs, best.tokens

    def topk(self, prefix_log_probs: Tensor, count: int) -> Candidates:
        """The best continuations of each sentence, given the log-probs of its beams. (B, W)"""
        scores = self.log_probs()
        chunks = scores.shape[1] // _CHUNK
        if chunks < 4 * count:
            return _topk(scores, prefix_log_probs, count)
        whole, rest = scores.split([chunks * _CHUNK, scores.shape[1] - chunks * _CHUNK], dim=1)
        maxima = [whole.unflatten(1, (chunks, _CHUNK)).amax(2)]
        if rest.shape[1]:
            maxima.append(rest.amax(1, keepdim=True))
        return _chunked_topk(scores, torch.cat(maxima, 1), prefix_log_probs, count)


class FusedNextTokenScores(NextTokenScores):
    """`NextTokenScores` by a fused GPU kernel, with logits in the model's precision."""

    def __init__(
        self,
        logits: Tensor,
        constraints: DecodingConstraints,
        position: Tensor,
        penalties: Penalties | None = None,
    ) -> None:
        constraints.ban_early_eos(logits, position)
        self._logits, self._constraints = logits, constraints
        self._position, self._penalties = position, penalties
        self._summary = self._summarize()

    def _summarize(self) -> LogitSummary:
        from regard.decoding import next_token_kernel

        min_length = self._constraints.min_length
        return next_token_kernel.summarize(self._logits, self._position, min_length)

    def _summary_after_bans(self) -> LogitSummary:
        """The summary, with the maxima of tokens that the penalties do not ban."""
        if self._penalties is None:
            return self._summary
        self._penalties.ban(self._logits, self._position)
        return replace(self._summarize(), logsumexp=self._summary.logsumexp)

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return self._logits.shape[1]

    def gather(self, tokens: Tensor) -> Tensor:
        """The log-probs of these tokens."""
        return self._logits.gather(1, tokens).float() - self._summary.logsumexp[:, None]

    def log_probs(self) -> Tensor:
        """The log-probs of all tokens."""
        log_probs = self._logits.float() - self._summary.logsumexp[:, None]
        self._ban(log_probs)
        return log_probs

    def max(self) -> tuple[Tensor, Tensor]:
        """The highest log-prob of each row, and its token."""
        summary = self._summary_after_bans()
        return (summary.max_logit - summary.logsumexp)[:, None], summary.argmax[:, None]

    def topk(self, prefix_log_probs: Tensor, count: int) -> Candidates:
        """The best continuations of each sentence."""
        summary = self._summary_after_bans()
        if summary.chunk_max.shape[1] < count:
            return _topk(self.log_probs(), prefix_log_probs, count)
        self._constraints.ban_special_tokens(self._logits)
        offsets = prefix_log_probs - summary.logsumexp.view(prefix_log_probs.shape)
        return _chunked_topk(self._logits, summary.chunk_max, offsets, count)


def _topk(scores: Tensor, offsets: Tensor, count: int) -> Candidates:
    """The candidates with the best sums of score and beam offset. (R, V), (B, W)"""
    totals = scores.unflatten(0, offsets.shape) + offsets[:, :, None]
    best, indices = totals.flatten(1).topk(count, dim=1)
    return Candidates(best, indices // scores.shape[1], indices % scores.shape[1])


def _chunked_topk(scores: Tensor, chunk_max: Tensor, offsets: Tensor, count: int) -> Candidates:
    """`_topk`, given the maximum of each chunk of the vocabulary. (R, V), (R, chunks), (B, W)

    The `count` best scores lie in the `count` chunks with the highest maxima, so only these are
    searched, which takes a fraction of the time of a top-k over the vocabulary.
    """
    vocab_size, chunks = scores.shape[1], chunk_max.shape[1]
    totals = chunk_max.unflatten(0, offsets.shape) + offsets[:, :, None]
    best_chunks = totals.flatten(1).topk(count, dim=1, sorted=False).indices  # (B, count)
    beams = best_chunks // chunks
    within_chunk = torch.arange(_CHUNK, device=scores.device)
    tokens = (best_chunks % chunks)[:, :, None] * _CHUNK + within_chunk  # (B, count, chunk)
    indices = (beams * vocab_size)[:, :, None] + tokens.clamp(max=vocab_size - 1)
    totals = scores.view(len(offsets), -1).gather(1, indices.flatten(1)).float()
    totals = totals.view(tokens.shape) + offsets.gather(1, beams)[:, :, None]
    totals = totals.masked_fill(tokens >= vocab_size, -torch.inf)
    best, order = totals.flatten(1).topk(count, dim=1)
    indices = indices.flatten(1).gather(1, order)
    return Candidates(best, indices // vocab_size, indices % vocab_size)
